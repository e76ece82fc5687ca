package regrade_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"podgrade/isolation"
	"podgrade/isolation/testimages"
	"podgrade/policy"
	"podgrade/regrade"
	"podgrade/tasks"
	"podgrade/tasks/record"
)

// recordedTask records a command; its agent is a line of shell.
const recordedTask = `
task_id: recorded
description: calls a recorded command
initial_prompt: deploy
agent: {type: command, command: %q}
sandbox:
  driver: docker
  docker: {image: %q}
  record_cli:
    - tool: uip
      exit_code: 3
      stderr: "unknown\n"
      responses:
        - when: {verb: deploy, flags: {release: {matches_regex: '^v\d+$'}}}
          stdout: "deployed\n"
success_criteria:
  - {type: cli_called, description: deployed once, verb: deploy, min_count: 1, max_count: 1}
  - {type: cli_called, description: never deleted, verb: delete, min_count: 0, max_count: 0}
  - {type: file_contains, description: the answer came, path: said, includes: [deployed]}
`

// The agent's calls are answered and counted, on both engines and for an image
// user other than root.
func TestRecordedCommandsAreAnsweredAndCounted(t *testing.T) {
	for _, engine := range []string{isolation.EngineBundle, isolation.EnginePodman} {
		t.Run(engine, func(t *testing.T) {
			image := testimages.BusyboxAs("1000")
			b := newBench(t, engine, image)
			text := fmt.Sprintf(recordedTask, `uip deploy --release v1 > said; test $(uip; echo $?) = 3`, image.Reference)
			r := b.executes(load(t, write(t, text, nil), tasks.Request{}))
			r.succeeds()
			if log := strings.Count(r.file("artifacts/recorded/cli_mocks/calls.jsonl"), "\n"); log != 2 {
				t.Errorf("%d lines in the log", log)
			}
		})
	}
}

// Whatever an agent does to the log, the calls that it made are counted.
func TestAnAgentCannotChangeTheLogOfItsCalls(t *testing.T) {
	image := testimages.Busybox()
	b := newBench(t, isolation.EngineBundle, image)
	for _, way := range []string{
		"echo forged > cli_mocks/calls.jsonl",
		"rm -r cli_mocks",
		"rm -r cli_mocks; ln -s /tmp cli_mocks",
		"mv cli_mocks/calls.jsonl x; ln -s ../x cli_mocks/calls.jsonl",
		"rm cli_mocks/calls.jsonl; mkdir -p cli_mocks/calls.jsonl/deep; touch cli_mocks/calls.jsonl.error",
		"chmod 0 cli_mocks/calls.jsonl; chmod 0 cli_mocks",
		"rm -r cli_mocks; echo file > cli_mocks",
		"mkdir m; mv cli_mocks m",
	} {
		text := fmt.Sprintf(recordedTask, "uip deploy --release v1 > said; uip delete all; "+way+"; true", image.Reference)
		r := b.executes(load(t, write(t, text, nil), tasks.Request{}))
		if r.Status != record.NotGraded {
			t.Fatalf("%s: executed: %s, %s", way, r.Status, r.Message)
		}
		verdict := r.grades()
		if verdict.Status != record.Failure || verdict.Results[0].Score != 1 || verdict.Results[1].Score != 0 || verdict.Results[2].Score != 1 {
			t.Errorf("%s: %s, %+v", way, verdict.Status, verdict.Results)
		}
	}
}

// A name that a mock directory has too is a fault of the task.
func TestARecordedCommandIsNoMock(t *testing.T) {
	image := testimages.Busybox()
	b := newBench(t, isolation.EngineBundle, image)
	text := strings.Replace(fmt.Sprintf(recordedTask, "true", image.Reference), "  record_cli:", `  mock_path_dirs: [mocks]
  template_sources: [{type: starter_files, files: [{path: mocks/uip, content: "x"}]}]
  record_cli:`, 1)
	r := b.executes(load(t, write(t, text, nil), tasks.Request{}))
	if r.Status != record.Error || !strings.Contains(r.Message, "uip is in the mock directory mocks too") {
		t.Errorf("executed: %s, %s", r.Status, r.Message)
	}
	if _, err := os.Stat(r.dir); err != nil {
		t.Error(err)
	}
}

// leavesForger is an agent that never calls what it should, and leaves a script for a
// criterion that adds the call to the log. ends is what the script does last.
func leavesForger(image, ends string) string {
	const forged = `{"tool": "uip", "argv": ["deploy", "--release", "v1"], "exit": 0}`
	agent := `echo '` + forged + `' >forged; cat forged >cli_mocks/calls.jsonl; echo deployed >said; ` +
		`echo 'cat forged >>cli_mocks/calls.jsonl; cli_mocks/uip deploy --release v1; ` + ends + `' >test.sh`
	return strings.Replace(fmt.Sprintf(recordedTask, agent, image), "success_criteria:\n",
		"success_criteria:\n  - {type: run_command, description: the tests, command: 'sh test.sh', weight: 0}\n", 1)
}

// addsNoCalls demands that no call is counted, and that the evidence holds none.
func (r *executedRow) addsNoCalls(verdict *regrade.Verdict) {
	r.bench.t.Helper()
	if verdict.Status != record.Failure || verdict.Results[1].Score != 0 || verdict.Results[2].Score != 1 || verdict.Results[3].Score != 1 {
		r.bench.t.Errorf("%s, %+v", verdict.Status, verdict.Results)
	}
	if log := r.file("artifacts/recorded/cli_mocks/calls.jsonl"); log != "" {
		r.bench.t.Errorf("the log holds %q", log)
	}
}

// What a criterion's command does to the log is no call of the agent's, also when the
// command ends its cell, and the next criterion finds a new one.
func TestACriterionsCommandAddsNoCalls(t *testing.T) {
	image := testimages.Busybox()
	b := newBench(t, isolation.EngineBundle, image)
	for _, ends := range []string{"exit 0", "kill -9 -1"} {
		r := b.executes(load(t, write(t, leavesForger(image.Reference, ends), nil), tasks.Request{}))
		r.addsNoCalls(r.grades())
	}
}

// In the agent's own cell the recorder still answers, and what the agent wrote into the
// log lies there: neither counts, and neither does later.
func TestALiveGradeCountsTheAgentsCallsOnly(t *testing.T) {
	image := testimages.Busybox()
	b := newBench(t, isolation.EngineBundle, image)
	o := regrade.Options{
		Answer: policy.Answer{TaskFile: true}, Network: regrade.NetworkNone,
		Start: b.options.Start, Notice: &b.notice, Lookup: b.options.Lookup, Version: "9.9.9",
	}
	b.options.Grading = &o
	text := strings.Replace(leavesForger(image.Reference, "exit 0"), "  driver: docker\n", "  driver: docker\n  podman: {grade: live}\n", 1)
	r := b.executes(load(t, write(t, text, nil), tasks.Request{}))
	row, err := record.OpenRow(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer row.Close()
	o.Live = r.Live
	verdict, err := regrade.Grade(t.Context(), row, o)
	if err != nil {
		t.Fatalf("%v\n%s", err, &b.notice)
	}
	if !strings.Contains(r.stamps(), record.GradedLive) {
		t.Error(r.stamps())
	}
	r.addsNoCalls(verdict)
	r.addsNoCalls(r.grades())
}
