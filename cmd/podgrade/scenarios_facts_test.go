package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"podgrade/tasks/record"
	"podgrade/tasks/record/fixture"
)

// Scenarios of spec/regrade.md 5: what the run's own end means to a grade, and
// what a resume makes of rows.

// path is a file of the scene.
func (s *scene) path(name string) string { return filepath.Join(s.dir, name) }

// text is the content of a file of the scene.
func (s *scene) text(name string) string {
	s.t.Helper()
	text, err := os.ReadFile(s.path(name))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// unsign makes the row one that nobody vouches for, so that its record can be
// another one.
func (s *scene) unsign(row string) {
	s.t.Helper()
	if err := os.Remove(s.path(row + "/" + record.ExecuteEnvelope)); err != nil {
		s.t.Fatal(err)
	}
}

// edit replaces text of a file of the scene, which must hold it.
func (s *scene) edit(name, old, new string) {
	s.t.Helper()
	text := s.text(name)
	if !strings.Contains(text, old) {
		s.t.Fatalf("%s holds no %q:\n%s", name, old, text)
	}
	s.write(name, strings.Replace(text, old, new, 1))
}

// executed is a scene with the executed row of a task.
func executed(t *testing.T, agent, more string) *scene {
	t.Helper()
	s := newScene(t)
	s.write("task.yaml", sceneTask(t, agent, more))
	s.podgrade(0, "execute", "task.yaml", "--run-dir", "r")
	return s
}

// row is the record of the scene's row.
const row = "r/" + sceneRow

const rowRecord = row + "/" + record.TaskFile

// armedTask has criteria of which two are armed: one of weight 3 that passes and
// one of weight 1 that fails; a third one, which is not, fails.
// The row is one of coder-eval, since only its agents are stopped early. The file says
// all that the default experiment would, so that a resume finds nothing changed.
func armedTask(s *scene, armed bool) {
	s.t.Helper()
	stop := ", stop_early: {on_pass: stop}"
	if !armed {
		stop = ""
	}
	task := strings.Replace(sceneTask(s.t, "", `run_limits: {stop_early_gate_threshold: 0.7, max_turns: 20, task_timeout: 600, turn_timeout: 300}
success_criteria:
  - {type: command_executed, min_count: 0, weight: 3, description: armed and passes`+stop+`}
  - {type: command_executed, min_count: 1, weight: 1, description: armed and fails`+stop+`}
  - {type: file_exists, path: later, description: it was to come later}
`), `type: command, command: ""`, "type: claude-code, model: m, allowed_tools: [Bash]", 1)
	s.write("task.yaml", task)
	if _, err := fixture.Write(fixture.Order{Task: s.path("task.yaml"), Out: s.path("r"), Form: fixture.Unpinned}); err != nil {
		s.t.Fatal(err)
	}
}

func TestScenarioEarlyStop(t *testing.T) {
	t.Parallel()
	t.Run("D-4: the armed gate decides over a run that was stopped early, on every way to a grade", func(t *testing.T) {
		s := newScene(t)
		armedTask(s, true)
		plain := s.text(rowRecord)
		stopped := func(gate string) {
			t.Helper()
			s.write(rowRecord, plain)
			s.edit(rowRecord, `"early_stop": null`, `"early_stop": {"reason": "criterion_passed"`+gate+`}`)
		}
		s.podgrade(1, "evaluate", row, trusting)
		s.is(row, "FAILURE", 0.6)
		stopped(`, "gate_threshold": 0.7`)
		s.podgrade(0, "evaluate", row, trusting)
		first := s.is(row, "SUCCESS", 0.6)
		s.podgrade(0, "evaluate", row, trusting)
		if again := s.is(row, "SUCCESS", 0.6); again.verdict() != first.verdict() {
			t.Errorf("another grade: %s\n%s", first.verdict(), again.verdict())
		}
		if !strings.Contains(s.text(rowRecord), `"early_stop": {"reason": "criterion_passed", "gate_threshold": 0.7}`) {
			t.Error("the record lost that it was stopped early")
		}
		for _, gate := range []string{`, "gate_threshold": 0.8`, ""} {
			stopped(gate)
			s.podgrade(1, "evaluate", row, trusting)
			s.is(row, "FAILURE", 0.6)
		}
		stopped(`, "gate_threshold": 0.7`)
		s.podgrade(0, "evaluate", "task.yaml", row)
		if given := s.is(row, "SUCCESS", 0.6); given.verdict() != first.verdict() {
			t.Errorf("by the task file: %s\n%s", first.verdict(), given.verdict())
		}
		// A resume of a run that coder-eval began goes the same way.
		stopped(`, "gate_threshold": 0.7`)
		s.podgrade(0, "run", "task.yaml", "--run-dir", "r", "--resume")
		if resumed := s.is(row, "SUCCESS", 0.6); resumed.verdict() != first.verdict() {
			t.Errorf("by a resume: %s\n%s", first.verdict(), resumed.verdict())
		}
		// The file's own gate decides, where the row is graded by it.
		s.edit("task.yaml", "gate_threshold: 0.7", "gate_threshold: 0.8")
		s.podgrade(1, "evaluate", "task.yaml", row)
		s.is(row, "FAILURE", 0.6)
		// The agent was stopped by it too, so that a resume does not take the row for this one's.
		stopped(`, "gate_threshold": 0.7`)
		_, stderr := s.podgrade(2, "run", "task.yaml", "--run-dir", "r", "--resume")
		printsAll(t, stderr, "another run_limits.stop_early_gate_threshold")
	})
	t.Run("D-4: without an armed criterion there is no gate, and no verdict", func(t *testing.T) {
		s := newScene(t)
		armedTask(s, false)
		s.edit(rowRecord, `"early_stop": null`, `"early_stop": {"reason": "criterion_passed", "gate_threshold": 0.7}`)
		before := s.text(rowRecord)
		_, stderr := s.podgrade(1, "evaluate", row, trusting)
		printsAll(t, stderr, "no criterion of its task is armed")
		if s.text(rowRecord) != before {
			t.Error("the record was changed")
		}
	})
}

func TestScenarioExecutionFacts(t *testing.T) {
	t.Run("D-16, D-22: a row that ran out of time stays TIMEOUT, whoever grades it, and all criteria are shown", func(t *testing.T) {
		s := executed(t, "cat >made", passing)
		s.unsign(row)
		s.edit(rowRecord, `"NOT_GRADED"`, `"TIMEOUT"`)
		before := s.text(rowRecord)
		stdout, _ := s.podgrade(1, "evaluate", row, trusting)
		if !strings.Contains(stdout, "TIMEOUT") || !strings.Contains(stdout, "it holds the prompt") {
			t.Errorf("%s", stdout)
		}
		first := s.is(row, "TIMEOUT", 1)
		s.write(rowRecord, before)
		s.podgrade(1, "run", "task.yaml", "--run-dir", "r", "--resume")
		if second := s.is(row, "TIMEOUT", 1); first.verdict() != second.verdict() {
			t.Errorf("%s\n%s", first.verdict(), second.verdict())
		}
	})
	t.Run("D-17: an agent's crash is no crash of the grade", func(t *testing.T) {
		s := newScene(t)
		s.write("task.yaml", sceneTask(t, "cat >made; exit 3", passing))
		s.podgrade(1, "execute", "task.yaml", "--run-dir", "r")
		s.is(row, "ERROR", -1)
		stdout, stderr := s.podgrade(1, "evaluate", row, trusting)
		if !strings.Contains(stdout, "ERROR") || !strings.Contains(stdout, "it holds the prompt") || strings.Contains(stderr, "podgrade:") {
			t.Errorf("%s%s", stdout, stderr)
		}
		s.is(row, "ERROR", 1)
	})
}

func TestScenarioResume(t *testing.T) {
	t.Parallel()
	t.Run("D-20: an executed row is graded and its agent not run again", func(t *testing.T) {
		s := executed(t, "cat >made", passing)
		before := s.read(row, record.TaskFile)
		s.podgrade(0, "run", "task.yaml", "--run-dir", "r", "--resume")
		if after := s.is(row, "SUCCESS", 1); after.Started != before.Started {
			t.Errorf("it was run again at %s", after.Started)
		}
	})
	t.Run("D-21: a row that cannot be graded fails the run and no other row", func(t *testing.T) {
		s := newScene(t)
		s.write("task.yaml", sceneTask(t, "cat >made", passing))
		s.podgrade(0, "execute", "task.yaml", "--run-dir", "r", "--repeats", "2")
		before := s.text(rowRecord)
		if err := os.RemoveAll(s.path(row + "/" + record.ArtifactsDir)); err != nil {
			t.Fatal(err)
		}
		s.podgrade(1, "run", "task.yaml", "--run-dir", "r", "--repeats", "2", "--resume")
		if s.text(rowRecord) != before {
			t.Error("the record was changed")
		}
		s.is("r/default/t/01", "SUCCESS", 1)
		if summary := s.text("r/" + record.RunFile); !strings.Contains(summary, "find the workspace of") {
			t.Errorf("the summary does not say why: %s", summary)
		}
	})
	t.Run("D-23: a row whose cell never came to be keeps its diagnosis", func(t *testing.T) {
		s := newScene(t)
		s.write("task/Dockerfile", "FROM "+sceneImage(t)+"\nRUN echo no such luck && false\n")
		s.write("task/task.yaml", builtTask("true", passing))
		s.podgrade(1, "execute", "task/task.yaml", "--run-dir", "r")
		s.is(row, "BUILD_FAILED", -1)
		before := s.text(rowRecord)
		s.podgrade(1, "run", "task/task.yaml", "--run-dir", "r", "--resume")
		if s.text(rowRecord) != before {
			t.Errorf("the record was changed:\n%s", s.text(rowRecord))
		}
	})
}

// builtTask is a task whose image is built from the Dockerfile beside it.
func builtTask(agent, more string) string {
	return fmt.Sprintf(`task_id: t
description: d
initial_prompt: p
agent: {type: command, command: %q}
sandbox: {driver: docker, docker: {dockerfile_path: Dockerfile, network: none}}
%s`, agent, more)
}
