package regrade_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"podgrade/isolation"
	"podgrade/isolation/testimages"
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
