package regrade_test

import (
	"path/filepath"
	"testing"

	"podgrade/isolation"
	"podgrade/isolation/testimages"
	"podgrade/tasks"
	"podgrade/tasks/record"
)

// examples are the tasks that show one thing each, with the step that the
// verdict depends on switched off: the same task is a FAILURE then.
var examples = []struct {
	name    string
	without func(*tasks.Task) // nil: there is no step to switch off
	stops   bool              // without the step the agent breaks off
}{
	{"command", func(t *tasks.Task) { t.Agent.Command = "true" }, false},
	{"oracle", func(t *tasks.Task) { t.Agent.Type, t.Agent.Command = tasks.CommandLine, "true" }, false},
	{"template", func(t *tasks.Task) { t.Sandbox.TemplateSources = t.Sandbox.TemplateSources[:1] }, false},
	{"starter-files", func(t *tasks.Task) { t.Sandbox.TemplateSources = nil }, false},
	{"mock-commands", func(t *tasks.Task) { t.Sandbox.MockPathDirs = nil }, false},
	{"record-cli", func(t *tasks.Task) { t.Sandbox.RecordCLI = nil }, true},
	{"pre-run", func(t *tasks.Task) { t.PreRun = t.PreRun[:1] }, false},
	{"non-root", func(t *tasks.Task) { t.Sandbox.TemplateSources = nil }, false},
	{"dockerfile", func(t *tasks.Task) {
		t.Sandbox.Docker.DockerfilePath, t.Sandbox.Docker.Image = "", testimages.Busybox().Reference
	}, false},
	{"working-dir", func(t *tasks.Task) { t.Sandbox.Docker.WorkingDir = "" }, false},
	{"working-dir-auto", func(t *tasks.Task) { t.Sandbox.Docker.WorkingDir = "" }, false},
	{"repository", func(t *tasks.Task) { t.Sandbox.TemplateSources = t.Sandbox.TemplateSources[1:] }, false},
	{"python-package", func(t *tasks.Task) { t.Sandbox.Python.EnvPackages = []string{} }, true},
	{"node-package", func(t *tasks.Task) { t.Sandbox.Node = nil }, true},
	{"tempdir", func(t *tasks.Task) { t.Agent.Command = "true" }, false},
	{"reference", func(t *tasks.Task) { t.Agent.Command = "echo 41 >answer.txt" }, false},
	{"judge-disabled", nil, false},
	{"dataset", func(t *tasks.Task) { t.Agent.Command = "cat >answer.txt" }, false},
}

// TestEveryExampleIsTested: an example that nobody runs is a claim.
func TestEveryExampleIsTested(t *testing.T) {
	files, err := filepath.Glob("../tasks/examples/*/task.yaml")
	if err != nil || len(files) != len(examples) {
		t.Errorf("%d task files, %d examples: %v", len(files), len(examples), err)
	}
}

func TestExamples(t *testing.T) {
	b := newBench(t, isolation.EngineBundle, testimages.Busybox(), testimages.BusyboxAs("grader"), testimages.Workbench(), testimages.Toolbox())
	b.options.DefaultImage = testimages.Busybox().Reference
	for _, example := range examples {
		t.Run(example.name, func(t *testing.T) {
			b := *b
			b.t = t
			file := "../tasks/examples/" + example.name + "/task.yaml"
			b.executes(load(t, file, tasks.Request{})).succeeds()
			if example.without == nil {
				return
			}
			row := load(t, file, tasks.Request{})
			example.without(row.Task)
			r := b.executes(row)
			want := record.NotGraded
			if example.stops {
				want = record.Error
			}
			if r.Status != want || !r.Gradable {
				t.Fatalf("without the step: %s, %s", r.Status, r.Message)
			}
			if verdict := r.grades(); verdict.Score == 1 || verdict.Status == record.Success {
				t.Errorf("without the step: graded %s, score %v", verdict.Status, verdict.Score)
			}
		})
	}
}
