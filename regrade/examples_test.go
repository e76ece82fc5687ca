package regrade_test

import (
	"path/filepath"
	"slices"
	"testing"

	"podgrade/isolation"
	"podgrade/isolation/testimages"
	"podgrade/regrade"
	"podgrade/tasks"
	"podgrade/tasks/record"
)

// examples are the tasks that show one thing each. Where that is a step of the
// set-up, the step's code is switched off; else what the verdict depends on is
// taken out of the task. The row is a FAILURE then.
var examples = []struct {
	name    string
	step    string            // of the set-up
	without func(*tasks.Task) // where there is no step to switch off
}{
	{name: "command", without: func(t *tasks.Task) { t.Agent.Command = "true" }},
	{name: "oracle", without: func(t *tasks.Task) { t.Agent.Type, t.Agent.Command = tasks.CommandLine, "true" }},
	{name: "template", step: "template_dir"},
	{name: "starter-files", step: "starter_files"},
	{name: "mock-commands", step: "mock_path_dirs"},
	{name: "record-cli", step: "record_cli"},
	{name: "pre-run", step: "pre_run"},
	{name: "non-root", step: "user"},
	{name: "dockerfile", step: "dockerfile"},
	{name: "working-dir", step: "working_dir"},
	{name: "working-dir-auto", step: "working_dir"},
	{name: "repository", step: "repo"},
	{name: "python-package", step: "python"},
	{name: "node-package", step: "node"},
	{name: "tempdir", without: func(t *tasks.Task) { t.Agent.Command = "true" }},
	{name: "reference", without: func(t *tasks.Task) { t.Agent.Command = "echo 41 >answer.txt" }},
	{name: "judge-disabled"}, // there is nothing that the verdict depends on
	{name: "dataset", without: func(t *tasks.Task) { t.Agent.Command = "cat >answer.txt" }},
}

// TestEveryExampleIsTested: an example that nobody runs is a claim.
func TestEveryExampleIsTested(t *testing.T) {
	files, err := filepath.Glob("../tasks/examples/*/task.yaml")
	if err != nil || len(files) != len(examples) {
		t.Errorf("%d task files, %d examples: %v", len(files), len(examples), err)
	}
}

// TestEveryStepHasAnExample: a step of the set-up that no verdict depends on in a
// test could stop working and nobody would know.
func TestEveryStepHasAnExample(t *testing.T) {
	var switched []string
	for _, example := range examples {
		if example.step != "" && !slices.Contains(switched, example.step) {
			switched = append(switched, example.step)
		}
	}
	slices.Sort(switched)
	if steps := regrade.Steps(); !slices.Equal(switched, steps) {
		t.Errorf("examples for %q, and the steps are %q", switched, steps)
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
			if example.step == "" && example.without == nil {
				return
			}
			row := load(t, file, tasks.Request{})
			if example.without != nil {
				example.without(row.Task)
			}
			if example.step != "" {
				b.options.SwitchOff(example.step)
			}
			r := b.executes(row)
			if r.Status != record.NotGraded || !r.Gradable {
				t.Fatalf("without the step: %s, %s", r.Status, r.Message)
			}
			if verdict := r.grades(); verdict.Status != record.Failure || verdict.Score == 1 {
				t.Errorf("without the step: graded %s, score %v", verdict.Status, verdict.Score)
			}
		})
	}
}
