package main

import (
	"os"
	"path/filepath"
	"testing"

	"podgrade/isolation/testimages"
	"podgrade/tasks/record"
)

// upstreamTasks are task files of upstream's own, as their authors wrote them but for
// the agent, which is a command line here and needs no network.
var upstreamTasks = []struct {
	file, agent string
	passed      int // criteria
}{
	{"byod_smoke_test.yaml", "exit 0", 1},
	{"agents/claude_hello_world_docker.yaml", `printf 'print("Hello, Claude!")\n' >hello.py`, 3},
}

// TestUpstreamsTasksComeToOneVerdict: by run, by execute and evaluate, and by run
// --resume they are SUCCESS, unstamped and of the driver that was written, and the
// time that the agent took is kept to the digit.
func TestUpstreamsTasksComeToOneVerdict(t *testing.T) {
	t.Parallel()
	testImage(t, testimages.BYOD())
	image := testImage(t, testimages.Toolbox())
	for _, task := range upstreamTasks {
		name := filepath.Base(task.file)
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			text, err := os.ReadFile(filepath.Join("..", "..", "tasks", "testdata", "coder-eval", "tasks", task.file))
			if err != nil {
				t.Fatal(err)
			}
			s.write(name, string(text))
			row := "/default/" + name[:len(name)-len(".yaml")] + "/00"
			call := func(verb, run string, more ...string) {
				t.Helper()
				s.podgrade(0, append([]string{verb, name, "--run-dir", run, "--default-image", image, "--type", "command", "-D", "agent.command=" + task.agent, "-D", "sandbox.docker.network=none"}, more...)...)
			}
			call("run", "one")
			call("execute", "two")
			call("execute", "three")
			took := map[string]sceneRecord{}
			for _, run := range []string{"two", "three"} {
				took[run] = s.is(run+row, "NOT_GRADED", -1)
			}
			s.podgrade(0, "evaluate", "two"+row, trusting)
			call("run", "three", "--resume")
			want := s.read("one"+row, record.TaskFile).verdict()
			for _, run := range []string{"one", "two", "three"} {
				r := s.is(run+row, "SUCCESS", 1)
				if r.verdict() != want || len(r.stamps()) > 0 || r.Config.Resolved.Sandbox.Driver != "docker" || len(r.Results) != task.passed {
					t.Errorf("%s: %s\nrun: %s", run, r.verdict(), want)
				}
				if was, kept := took[run]; kept && (r.Duration != was.Duration || r.Started != was.Started || r.Duration == "") {
					t.Errorf("%s: it took %s from %s on, and before the grade %s from %s on", run, r.Duration, r.Started, was.Duration, was.Started)
				}
			}
		})
	}
}
