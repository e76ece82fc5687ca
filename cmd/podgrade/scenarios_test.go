package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"podgrade/isolation/testimages"
	"podgrade/tasks/record"
)

// These are scenarios of spec/regrade.md 5, with the built program and real
// cells: what `run` comes to, what `execute` and a later grade come to.

// scene is a directory in which the program is called.
type scene struct {
	t   *testing.T
	dir string
}

func newScene(t *testing.T) *scene { return &scene{t: t, dir: t.TempDir()} }

// write writes a file of the scene.
func (s *scene) write(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o644)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// podgrade calls the program, and expects an exit code.
func (s *scene) podgrade(code int, args ...string) (stdout, stderr string) {
	s.t.Helper()
	cmd := exec.Command(filepath.Join(buildDir(s.t), "bin", "podgrade"), args...)
	cmd.Dir = s.dir
	var out, errors bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errors
	if got := exitCode(cmd.Run()); got != code {
		s.t.Fatalf("podgrade %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), got, code, out.String(), errors.String())
	}
	return out.String(), errors.String()
}

// sceneRecord is what the scenarios look at.
type sceneRecord struct {
	Status   string           `json:"final_status"`
	Score    *float64         `json:"weighted_score"`
	MaxTurns bool             `json:"max_turns_exhausted"`
	Started  string           `json:"started_at"`
	Duration json.Number      `json:"duration_seconds"`
	Path     *string          `json:"sandbox_path"`
	Results  []map[string]any `json:"success_criteria_results"`
	PostRun  []map[string]any `json:"post_run_results"`
	PreRun   []map[string]any `json:"pre_run_results"`
	Info     map[string]any   `json:"environment_info"`
	Config   struct {
		Resolved struct {
			Sandbox struct{ Driver string }
		}
	} `json:"task_config"`
}

// read reads a file of a row.
func (s *scene) read(row, file string) sceneRecord {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, row, file))
	if err != nil {
		s.t.Fatal(err)
	}
	var r sceneRecord
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&r); err != nil {
		s.t.Fatal(err)
	}
	return r
}

// is checks a row's status and score; a negative score is null.
func (s *scene) is(row, status string, score float64) sceneRecord {
	s.t.Helper()
	r := s.read(row, record.TaskFile)
	if r.Status != status || (r.Score == nil) != (score < 0) || r.Score != nil && *r.Score != score {
		s.t.Errorf("%s: %s %v, want %s %v", row, r.Status, r.Score, status, score)
	}
	return r
}

// stamps are the stamps of a record, but none of its facts.
func (r sceneRecord) stamps() []string {
	var found []string
	for _, name := range record.StampNames() {
		if value, ok := r.Info[name]; ok {
			found = append(found, fmt.Sprintf("%s=%v", name, value))
		}
	}
	return found
}

// verdict is what two ways to it must agree in.
func (r sceneRecord) verdict() string {
	results := []map[string]any{}
	for _, result := range r.Results {
		same := map[string]any{}
		for key, value := range result {
			if !strings.HasPrefix(key, "podgrade_") && key != "duration_seconds" {
				same[key] = value
			}
		}
		results = append(results, same)
	}
	text, err := json.Marshal(map[string]any{
		"status": r.Status, "score": r.Score, "results": results, "cap": r.MaxTurns, "driver": r.Config.Resolved.Sandbox.Driver, "stamps": r.stamps(),
	})
	if err != nil {
		return err.Error()
	}
	return string(text)
}

const (
	sceneRow = "default/t/00"
	trusting = "--allow-recorded-commands"
)

// sceneTask is a task with an agent's command line and what the YAML adds.
func sceneTask(t *testing.T, agent, more string) string {
	t.Helper()
	return fmt.Sprintf(`task_id: t
description: d
initial_prompt: p
agent: {type: command, command: %q}
sandbox: {driver: docker, docker: {image: %q, network: none}}
%s`, agent, sceneImage(t), more)
}

// sceneImage is an image whose shell finds all that the scenarios need.
func sceneImage(t *testing.T) string {
	t.Helper()
	return testImage(t, testimages.Busybox())
}

const (
	passing = `success_criteria:
  - {type: run_command, command: "test -e made && ls", description: it was made}
  - {type: file_contains, path: made, includes: [p], description: it holds the prompt, weight: 2}
`
	failing1 = `success_criteria:
  - {type: file_exists, path: nothing, description: it is not there}
  - {type: file_exists, path: made, description: it was made}
`
)

// TestScenarioOneVerdict is D-1: execute and evaluate, execute and run --resume,
// and run come to one verdict, unstamped, whether the row passes or not.
func TestScenarioOneVerdict(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		criteria string
		code     int
		status   string
		score    float64
	}{
		"D-1: a row that passes": {passing, 0, "SUCCESS", 1},
		"D-1: a row that fails":  {failing1, 1, "FAILURE", 0.5},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.write("task.yaml", sceneTask(t, "cat >made", test.criteria))
			s.podgrade(test.code, "run", "task.yaml", "--run-dir", "one")
			for _, run := range []string{"two", "three"} {
				s.podgrade(0, "execute", "task.yaml", "--run-dir", run)
				s.is(run+"/"+sceneRow, "NOT_GRADED", -1)
			}
			before := map[string]sceneRecord{"two": s.read("two/"+sceneRow, record.TaskFile), "three": s.read("three/"+sceneRow, record.TaskFile)}
			s.podgrade(test.code, "evaluate", "two/"+sceneRow, trusting)
			s.podgrade(test.code, "run", "task.yaml", "--run-dir", "three", "--resume")
			one := s.is("one/"+sceneRow, test.status, test.score)
			if got := one.stamps(); len(got) > 0 || one.Config.Resolved.Sandbox.Driver != "docker" {
				t.Errorf("stamps %v, driver %s", got, one.Config.Resolved.Sandbox.Driver)
			}
			for _, run := range []string{"two", "three"} {
				other := s.read(run+"/"+sceneRow, record.TaskFile)
				if other.verdict() != one.verdict() {
					t.Errorf("%s:\n%s\nrun:\n%s", run, other.verdict(), one.verdict())
				}
				if was := before[run]; other.Duration != was.Duration || other.Started != was.Started || was.Duration == "" {
					t.Errorf("%s: the run's clock changed: %v %v", run, other.Duration, was.Duration)
				}
			}
		})
	}
}

// TestScenarioTurnCap is D-2 and D-3: the cap is a fact that execute records and
// no verdict; a grade that passes is SUCCESS and keeps the fact.
func TestScenarioTurnCap(t *testing.T) {
	t.Run("D-2, D-3: the turn cap is recorded, and is a verdict only where the criteria fail", func(t *testing.T) {
		s := newScene(t)
		s.write("task.yaml", sceneTask(t, "cat >made", passing))
		s.podgrade(0, "execute", "task.yaml", "--run-dir", "r")
		s.unsign("r/" + sceneRow)
		path := filepath.Join(s.dir, "r", sceneRow, record.TaskFile)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		capped := bytes.Replace(text, []byte(`"max_turns_exhausted": false`), []byte(`"max_turns_exhausted": true`), 1)
		if err := os.WriteFile(path, capped, 0o644); err != nil {
			t.Fatal(err)
		}
		s.is("r/"+sceneRow, "NOT_GRADED", -1)
		s.podgrade(0, "run", "task.yaml", "--run-dir", "r", "--resume")
		if r := s.is("r/"+sceneRow, "SUCCESS", 1); !r.MaxTurns {
			t.Error("the fact is gone")
		}
		s.write("strict.yaml", sceneTask(t, "cat >made", failing1))
		s.podgrade(1, "evaluate", "strict.yaml", "r/"+sceneRow)
		s.is("r/"+sceneRow, "MAX_TURNS_EXHAUSTED", 0.5)
	})
}

// TestScenarioHooks is D-5, D-6 and D-7: a destructive post_run happens once,
// after the verdict; pre_run never happens again over the workspace.
func TestScenarioHooks(t *testing.T) {
	t.Run("D-5, D-6, D-7: post_run happens once, after the verdict, and pre_run never again", func(t *testing.T) {
		s := newScene(t)
		s.write("task.yaml", sceneTask(t, "cat >>made", `pre_run:
  - {command: "echo before >made"}
post_run:
  - {command: "rm -rf made && echo removed"}
success_criteria:
  - {type: run_command, command: "cat made", expected_stdout: "before\np", stdout_match: contains, description: both wrote}
`))
		s.podgrade(0, "execute", "task.yaml", "--run-dir", "r")
		row := "r/" + sceneRow
		executed := s.read(row, record.TaskFile)
		if len(executed.PostRun) != 0 || len(executed.PreRun) != 1 {
			t.Errorf("pre_run %v, post_run %v", executed.PreRun, executed.PostRun)
		}
		s.podgrade(0, "evaluate", row, trusting)
		first := s.is(row, "SUCCESS", 1)
		if len(first.PostRun) != 1 || first.PostRun[0]["stdout"] != "removed\n" {
			t.Errorf("post_run %v", first.PostRun)
		}
		s.podgrade(0, "evaluate", row, trusting)
		second := s.is(row, "SUCCESS", 1)
		if !reflect.DeepEqual(first.PostRun, second.PostRun) || !reflect.DeepEqual(executed.PreRun, second.PreRun) {
			t.Errorf("hooks ran again: %v, %v", second.PreRun, second.PostRun)
		}
		if _, err := os.Stat(filepath.Join(s.dir, row, "artifacts/t/made")); err != nil {
			t.Errorf("post_run changed the evidence: %v", err)
		}
	})
}

// TestScenarioWholeWorkspace is D-10: no directory of the workspace is left out
// of a grade.
func TestScenarioWholeWorkspace(t *testing.T) {
	t.Run("D-10: no directory of the workspace is left out", func(t *testing.T) {
		s := newScene(t)
		s.write("task.yaml", sceneTask(t, "mkdir -p dist node_modules/x .venv build .git && touch dist/a node_modules/x/b .venv/c build/d .git/e", `success_criteria:
  - {type: run_command, command: "test -e dist/a -a -e node_modules/x/b -a -e .venv/c -a -e build/d -a -e .git/e", description: all are there}
  - {type: file_exists, path: node_modules/x/b, description: it is there}
`))
		s.podgrade(0, "run", "task.yaml", "--run-dir", "r")
		s.is("r/"+sceneRow, "SUCCESS", 1)
	})
}

// TestScenarioImageFile is D-11: a file of the image is there in a cell and not
// on the host, and the grade on the host says where it was.
func TestScenarioImageFile(t *testing.T) {
	t.Run("D-11, D-41: only a cell has the files of the image, and stamps are those of the last grade", func(t *testing.T) {
		s := newScene(t)
		s.write("task.yaml", sceneTask(t, "true", `success_criteria:
  - {type: run_command, command: "test -e /bin/busybox && ! test -e /etc/debian_version", description: only the image has it}
`))
		s.podgrade(0, "run", "task.yaml", "--run-dir", "r")
		if r := s.is("r/"+sceneRow, "SUCCESS", 1); len(r.stamps()) > 0 {
			t.Errorf("stamps %v", r.stamps())
		}
		s.podgrade(1, "evaluate", "r/"+sceneRow, trusting, "--allow-host-grading")
		if r := s.is("r/"+sceneRow, "FAILURE", 0); !reflect.DeepEqual(r.stamps(), []string{"graded_on_host=true"}) {
			t.Errorf("stamps %v", r.stamps())
		}
		s.podgrade(0, "evaluate", "r/"+sceneRow, trusting)
		if r := s.is("r/"+sceneRow, "SUCCESS", 1); len(r.stamps()) > 0 {
			t.Errorf("a stamp of an earlier grade stays: %v", r.stamps())
		}
	})
}

// TestScenarioNoCriteria is D-13: a row without criteria is refused on every
// entry, and is never a pass.
func TestScenarioNoCriteria(t *testing.T) {
	t.Run("D-13: a row without criteria is refused", func(t *testing.T) {
		s := newScene(t)
		s.write("task.yaml", sceneTask(t, "cat >made", passing))
		s.podgrade(0, "execute", "task.yaml", "--run-dir", "r")
		row := "r/" + sceneRow
		path := filepath.Join(s.dir, row, record.TaskFile)
		var doc map[string]any
		text, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(text, &doc)
		}
		if err != nil {
			t.Fatal(err)
		}
		doc["task_config"].(map[string]any)["resolved"].(map[string]any)["success_criteria"] = []any{}
		if text, err = json.Marshal(doc); err == nil {
			err = os.WriteFile(path, text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		s.podgrade(2, "evaluate", row, trusting)
		s.is(row, "NOT_GRADED", -1)
		s.write("empty.yaml", sceneTask(t, "cat >made", "success_criteria: []\n"))
		s.podgrade(1, "evaluate", "empty.yaml", row)
		s.is(row, "NOT_GRADED", -1)
		_, stderr := s.podgrade(0, "run", "empty.yaml", "--run-dir", "other")
		if !strings.Contains(stderr, "left out: empty.yaml") {
			t.Errorf("%s", stderr)
		}
	})
}

// TestScenarioTwice is D-14: grading again gives the same, keeps where the
// workspace is, and the record of before the first grade.
func TestScenarioTwice(t *testing.T) {
	t.Run("D-14, D-30: a second grade gives the same, and keeps the path of the workspace", func(t *testing.T) {
		s := newScene(t)
		s.write("task.yaml", sceneTask(t, "cat >made", passing))
		s.podgrade(0, "execute", "task.yaml", "--run-dir", "r")
		row := "r/" + sceneRow
		ungraded, err := os.ReadFile(filepath.Join(s.dir, row, record.TaskFile))
		if err != nil {
			t.Fatal(err)
		}
		s.podgrade(0, "evaluate", row, trusting)
		first := s.read(row, record.TaskFile)
		s.podgrade(0, "evaluate", row, trusting)
		second := s.read(row, record.TaskFile)
		if first.verdict() != second.verdict() || *first.Path != *second.Path {
			t.Errorf("%s\n%s", first.verdict(), second.verdict())
		}
		kept, err := os.ReadFile(filepath.Join(s.dir, row, record.ExecuteFile))
		if err != nil || !bytes.Equal(kept, ungraded) {
			t.Errorf("the record of before the first grade: %v", err)
		}
	})
}

// TestScenarioOtherTask is D-15: the given task file's criteria decide, the
// trajectory and the clock stay the run's; and D-71: a tree whose task.json is
// no record is graded as a tree.
func TestScenarioOtherTask(t *testing.T) {
	t.Run("D-15, D-29, D-71, D-72: another task file decides over a row, and over a tree that no run left", func(t *testing.T) {
		s := newScene(t)
		s.write("task.yaml", sceneTask(t, "cat >made", passing))
		s.podgrade(0, "run", "task.yaml", "--run-dir", "r", "--repeats", "2")
		row := "r/default/t/01"
		before := s.read(row, record.TaskFile)
		s.write("other.yaml", sceneTask(t, "cat >made", `success_criteria:
  - {type: file_contains, path: made, includes: [nothing of the kind], description: other}
`))
		_, stderr := s.podgrade(1, "evaluate", "other.yaml", row)
		if !strings.Contains(stderr, "graded by other.yaml") {
			t.Errorf("%s", stderr)
		}
		after := s.is(row, "FAILURE", 0)
		if len(after.Results) != 1 || after.Started != before.Started || after.Duration != before.Duration {
			t.Errorf("%+v", after)
		}
		if text, err := os.ReadFile(filepath.Join(s.dir, "r/run.json")); err != nil || strings.Count(string(text), `"FAILURE"`) != 1 {
			t.Errorf("the run's summary: %v", err)
		}
		s.write("tree/made", "p\n")
		s.write("tree/task.json", `{"name": "of some other program"}`)
		_, stderr = s.podgrade(0, "evaluate", "task.yaml", "tree", "--run-dir", "graded")
		if !strings.Contains(stderr, "task.json is no record") {
			t.Errorf("%s", stderr)
		}
		s.is("graded", "SUCCESS", 1)
		if text, err := os.ReadFile(filepath.Join(s.dir, "tree/task.json")); err != nil || !strings.Contains(string(text), "other program") {
			t.Errorf("the tree was written to: %v", err)
		}
		s.podgrade(2, "evaluate", "task.yaml")
	})
}

// TestScenarioOutsideTheWorkspace is D-8: a link that pre_run made outside of
// the workspace is there in the grade, and no stamp says otherwise.
func TestScenarioOutsideTheWorkspace(t *testing.T) {
	s := newScene(t)
	s.write("task.yaml", sceneTask(t, "cat >made", `pre_run:
  - {command: "mkdir -p /opt/x && ln -s \"$PWD/made\" /opt/x/link"}
success_criteria:
  - {type: run_command, command: "grep -q p /opt/x/link", description: the link leads to it}
`))
	s.podgrade(0, "execute", "task.yaml", "--run-dir", "r")
	s.podgrade(0, "evaluate", "r/"+sceneRow, trusting)
	if r := s.is("r/"+sceneRow, "SUCCESS", 1); len(r.stamps()) > 0 {
		t.Errorf("stamps %v", r.stamps())
	}
}

// TestScenarioChangedDockerfile is D-9: a grade uses the image that the row had,
// whatever the Dockerfile says now, and a resume does not take the row for that
// of the Dockerfile.
func TestScenarioChangedDockerfile(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	dockerfile := func(word string) {
		s.write("image/Dockerfile", fmt.Sprintf("FROM %s\nRUN echo %s >/opt/word\n", sceneImage(t), word))
	}
	dockerfile("first")
	text := sceneTask(t, "cat /opt/word >made", `success_criteria:
  - {type: run_command, command: "grep -q first /opt/word && grep -q first made", description: the same image}
`)
	text = strings.Replace(text, fmt.Sprintf("image: %q", sceneImage(t)), "dockerfile_path: image/Dockerfile", 1)
	s.write("task.yaml", text)
	s.podgrade(0, "execute", "task.yaml", "--run-dir", "r")
	dockerfile("second")
	s.podgrade(0, "evaluate", "r/"+sceneRow, trusting)
	if r := s.is("r/"+sceneRow, "SUCCESS", 1); len(r.stamps()) > 0 {
		t.Errorf("stamps %v", r.stamps())
	}
	_, stderr := s.podgrade(2, "run", "task.yaml", "--run-dir", "r", "--resume")
	if !strings.Contains(stderr, "default/t/00: another ") || !strings.Contains(stderr, "--rerun-changed") {
		t.Errorf("%s", stderr)
	}
	s.podgrade(1, "run", "task.yaml", "--run-dir", "r", "--resume", "--rerun-changed")
	s.is("r/"+sceneRow, "FAILURE", 0)
}
