package criteria_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"podgrade/tasks"
	"podgrade/tasks/criteria"
)

// TestLoaderReadsPatternsAsTheCriteriaDo: what only podgrade cannot run is an
// error with its place, what Python refuses too is a warning, and the variables
// come from the caller.
func TestLoaderReadsPatternsAsTheCriteriaDo(t *testing.T) {
	loader := criteria.NewLoader(func(name string) (string, bool) { return "here", name == "TEMPLATES" })
	load := func(pattern string) (*tasks.File, error) {
		path := filepath.Join(t.TempDir(), "task.yaml")
		write(t, path, "task_id: t\ndescription: d\ninitial_prompt: x\nsandbox: {template_sources: [{path: $TEMPLATES}]}\nsuccess_criteria:\n  - {type: file_matches_regex, path: a, description: d, pattern: '"+pattern+"'}\n")
		return loader.Load(path)
	}
	file, err := load(`(?P<x>a)(?P=x)\Z`)
	if err != nil || len(file.Warnings) != 0 {
		t.Fatalf("a pattern of Python's own: %v", err)
	}
	if got := file.Task.Sandbox.TemplateSources[0].Path; got != filepath.Join(file.Dir, "here") {
		t.Errorf("the template is %s", got)
	}
	if file, err = load(`(`); err != nil || len(file.Warnings) != 1 {
		t.Errorf("a pattern that is none: %v", err)
	}
	_, err = load(`(?ai:(a)\1)`)
	var problem tasks.Problem
	if !errors.As(err, &problem) || problem.Place.Line != 6 || !strings.Contains(problem.Text, "cannot translate") {
		t.Errorf("a pattern that cannot be translated: %v", err)
	}
}

// TestLoaderReplacesInPrompts: a mutation with regex: true is Python's re.sub.
// TestLoaderReadsExpressions: a wrong one only warns, since its assertion fails.
func TestLoaderReadsExpressions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "t.yaml")
	write(t, file, "task_id: t\ndescription: d\nagent: {type: none}\nsuccess_criteria:\n- {type: json_check, description: d, path: a, assertions: [{expression: 'a[', operator: exists}, {expression: 'a[0]', operator: exists}]}\n")
	f, err := criteria.NewLoader(nil).Load(file)
	if err != nil || len(f.Warnings) != 1 || !strings.Contains(f.Warnings[0].String(), "is no JMESPath expression") {
		t.Errorf("%v %v", f, err)
	}
}

func TestLoaderReplacesInPrompts(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "task.yaml"), "task_id: t\ndescription: d\ninitial_prompt: Write hello.py and test.py.\nsuccess_criteria:\n  - {type: file_exists, path: a, description: d}\n")
	write(t, filepath.Join(dir, "e.yaml"), "experiment_id: e\nvariants:\n  - variant_id: v\n    prompt_mutations: [{type: replace, regex: true, pattern: '(?P<stem>\\w+)\\.py', replacement: '\\g<stem>.rs'}]\n")
	loader := criteria.NewLoader(os.LookupEnv)
	experiment, err := loader.LoadExperiment(filepath.Join(dir, "e.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	resolution, err := loader.Rows([]string{filepath.Join(dir, "task.yaml")}, tasks.Request{Layers: tasks.Layers{Experiment: experiment}})
	if err != nil {
		t.Fatal(err)
	}
	if got := resolution.Rows[0].Task.InitialPrompt; got != "Write hello.rs and test.rs." {
		t.Errorf("the prompt is %q", got)
	}
}
