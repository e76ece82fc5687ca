package regrade_test

import (
	"encoding/json"
	"strings"
	"testing"

	"podgrade/isolation"
	"podgrade/isolation/testimages"
	"podgrade/tasks"
	"podgrade/tasks/record"
)

const comparing = `reference: {directory: ref}
success_criteria:
  - {type: reference_comparison, agent_file: a.py, reference_file: r.py, description: it is the same}
`

// What an agent does to the Python of its image neither leaves a row without a
// verdict, nor bends one unseen.
func TestThePythonThatCriteriaRun(t *testing.T) {
	const forged = "python3 - <<'E'\nimport argparse, importlib._bootstrap_external as b, os\n" +
		"f = argparse.__file__; s = os.stat(f)\nc = compile('evil = 1', f, 'exec')\n" +
		"open(argparse.__cached__, 'wb').write(b._code_to_timestamp_pyc(c, int(s.st_mtime), s.st_size))\nE\n" +
		"python3 -c 'import argparse; assert argparse.evil'"
	for name, c := range map[string]struct {
		line, criteria string
		engines        []string
		status         record.Status
		state          string
		stamp          string // what it holds; "": there is none
	}{
		"it is taken away": {"cp /bin/sh /bin/keep; echo 'x = 1' >a.py; rm /usr/bin/python3*", comparing,
			[]string{isolation.EngineBundle, isolation.EnginePodman}, record.Failure, record.StateKept, "/usr/bin/python3"},
		"a cache is forged": {forged, `success_criteria:
  - {type: run_command, command: "python3 -c 'import argparse; argparse.ArgumentParser'", description: it is the image's own}
`, []string{isolation.EngineBundle, isolation.EnginePodman}, record.Success, record.StateUnchanged, ""},
		"it runs something at its start": {"mkdir -p /usr/local/lib/python3.11/dist-packages && echo 'import sys' >/usr/local/lib/python3.11/dist-packages/mine.pth", `success_criteria:
  - {type: run_command, command: "python3 -c pass", description: it starts}
`, []string{isolation.EngineBundle}, record.Success, record.StateKept, "/usr/local/lib/python3.11/dist-packages/mine.pth"},
		"an environment of its own": {"mkdir -p .venv/bin && ln -s /usr/bin/python3 .venv/bin/python3 && printf '#!/bin/sh\\n' >.venv/bin/python3.11 && chmod +x .venv/bin/python3.11", `success_criteria:
  - {type: run_command, command: "python3 -c pass", description: it starts}
`, []string{isolation.EngineBundle}, record.Success, record.StateUnchanged, "/work/workspace/.venv/bin/python3.11"},
	} {
		for _, engine := range c.engines {
			t.Run(name+" "+engine, func(t *testing.T) {
				b := newBench(t, engine, testimages.Debian())
				sandbox := `sandbox: {driver: docker, docker: {image: "localhost/podgrade-test/debian:1", network: none}}` + "\n"
				if strings.Contains(c.line, ".venv") {
					sandbox = strings.Replace(sandbox, "driver: docker,", "driver: docker, python: {},", 1)
				}
				text := "task_id: tools\ndescription: d\n" + agentOf(c.line) + sandbox + c.criteria
				r := b.executes(load(t, write(t, text, map[string]string{"ref/r.py": "x = 1\n"}), tasks.Request{}))
				if r.Status != record.NotGraded {
					t.Fatalf("executed as %s: %s", r.Status, r.Message)
				}
				made, err := record.Parse([]byte(r.file(record.TaskFile)))
				if err != nil {
					t.Fatal(err)
				}
				if state := made.Environment.Text(record.State); state != c.state {
					t.Errorf("what changed outside of the workspace is %s, not %s", state, c.state)
				}
				verdict := r.grades()
				if verdict.Status != c.status {
					t.Errorf("graded %s\n%s", verdict.Status, r.file(record.GradeLog))
				}
				stamp := ""
				for _, made := range verdict.Stamps {
					if made.Name == record.GradedWithReplacedTools {
						if err := json.Unmarshal(made.Value, &stamp); err != nil {
							t.Fatal(err)
						}
					}
				}
				// Who takes a program away takes others with it.
				if stamp != c.stamp && (c.status == record.Success || !strings.Contains(stamp, c.stamp)) {
					t.Errorf("the stamp is %q, not %q", stamp, c.stamp)
				}
			})
		}
	}
}
