package regrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"podgrade/tasks"
)

// planOf plans task files with these texts.
func planOf(t *testing.T, o PlanOptions, texts ...string) *Plan {
	t.Helper()
	t.Chdir(t.TempDir())
	var files []string
	for i, text := range texts {
		name := fmt.Sprintf("%d.yaml", i)
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		files = append(files, name)
	}
	o.Lookup = func(string) (string, bool) { return "", false }
	made, err := MakePlan(t.Context(), files, o)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

const plannedTask = `task_id: t
description: d
agent: {type: none}
sandbox: {driver: docker, docker: {image: "x:1", network: none}, podman: {caps: none}}
success_criteria:
  - {type: run_command, command: "true", description: d}
`

func TestPlanOfOneRow(t *testing.T) {
	made := planOf(t, PlanOptions{}, plannedTask)
	file := made.Files[0]
	if made.Refused() || !file.Valid() || file.TaskID != "t" || file.Criteria != 1 || len(made.Needs) != 0 {
		t.Fatalf("%+v %+v", made, file)
	}
	row := file.Rows[0]
	if row.Image != "x:1" || row.DefaultImage || row.Built || row.Agent != tasks.NoAgent || row.Engine != "bundle" || row.Network != tasks.NetworkNone || !slices.Equal(row.Dirs, []string{"default/t/00"}) {
		t.Errorf("%+v", row)
	}
	if len(row.Execute) != 1 || len(row.Grade) != 3 {
		t.Errorf("grants: %v; %v", row.Execute, row.Grade)
	}
}

// TestPlanOfManyRowsSharesGrants: a large dataset costs one list of grants.
func TestPlanOfManyRowsSharesGrants(t *testing.T) {
	var rows strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&rows, "    - {id: r%d}\n", i)
	}
	made := planOf(t, PlanOptions{Request: tasks.Request{Repeats: 3}}, plannedTask+"dataset:\n  rows:\n"+rows.String())
	file := made.Files[0]
	if len(file.Rows) != 3000 || len(file.Rows[7].Dirs) != 3 || file.TaskID != "t" || file.Dataset.Selected != 3000 {
		t.Fatalf("%d rows, %+v", len(file.Rows), file.Dataset)
	}
	if &file.Rows[0].Grade[0] != &file.Rows[2999].Grade[0] {
		t.Error("each row has a list of its own")
	}
}

// TestPlanRefuses lists what ends a run, and what only leaves a file out.
func TestPlanRefuses(t *testing.T) {
	variant := func(text string) *tasks.Experiment {
		t.Helper()
		workIn(t)
		if err := os.WriteFile("e.yaml", []byte("experiment_id: e\nvariants:\n"+text), 0o644); err != nil {
			t.Fatal(err)
		}
		e, err := (&tasks.Loader{}).LoadExperiment("e.yaml")
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	prompted := strings.Replace(plannedTask, "agent: {type: none}", "initial_prompt: x\nagent: {}", 1)
	labelled := plannedTask + "dataset: {rows: [{id: a, split: train}]}\n"
	for name, c := range map[string]struct {
		options    PlanOptions
		texts      []string
		refused    bool
		text       string // in the first finding
		unresolved int
	}{
		"no row of a split":       {PlanOptions{Request: tasks.Request{Selection: tasks.Selection{Split: "test"}}}, []string{labelled}, true, "test", 0},
		"a row that does not fit": {PlanOptions{}, []string{strings.Replace(labelled, `"true"`, `"${row.nope}"`, 1)}, true, "nope", 0},
		"all variants of a task": {PlanOptions{Request: tasks.Request{Layers: tasks.Layers{Experiment: variant(
			"  - {variant_id: a, agent: {type: codex, sdk_options: {effort: low}}}\n  - {variant_id: b, agent: {type: pi, pure: true}}\n")}}},
			[]string{prompted}, true, "sdk_options", 2},
		"one of two files": {PlanOptions{Request: tasks.Request{Layers: tasks.Layers{Type: "codex"}}},
			[]string{strings.Replace(prompted, "{}", "{type: opencode, pure: true}", 1), strings.Replace(prompted, "task_id: t", "task_id: u", 1)}, false, "pure", 1},
	} {
		t.Run(name, func(t *testing.T) {
			made := planOf(t, c.options, c.texts...)
			file := made.Files[0]
			found := slices.Concat(file.Problems, file.Unresolved)
			if made.Refused() != c.refused || len(found) == 0 || len(file.Unresolved) != c.unresolved || !strings.Contains(found[0].String(), c.text) {
				t.Errorf("refused %v: %+v %+v", made.Refused(), made.Problems, file)
			}
			if first := found[0]; !strings.Contains(first.String(), ".yaml") {
				t.Errorf("no file is named: %+v", first)
			}
			if file.TaskID != "t" {
				t.Errorf("the task is %q", file.TaskID)
			}
		})
	}
}

// What is wrong with a default lies in no file, and is a reason to refuse one.
func TestPlanNamesTheFileThatItRefuses(t *testing.T) {
	f := &PlannedFile{Path: "t.yaml"}
	f.refuse(errors.Join(tasks.Problem{Path: "agent", Text: "the default is wrong"}, errors.New("cannot read t.yaml"), tasks.Problem{Place: tasks.Place{File: "u.yaml"}, Text: "there"}))
	var said []string
	for _, found := range f.Problems {
		said = append(said, found.String())
	}
	if want := []string{"t.yaml: agent: the default is wrong", "cannot read t.yaml", "u.yaml: there"}; !slices.Equal(said, want) {
		t.Errorf("%q, want %q", said, want)
	}
}

func TestPlanTakesNoWrongOptions(t *testing.T) {
	override, err := tasks.ParseOverride("agent.model=x")
	if err != nil {
		t.Fatal(err)
	}
	for name, request := range map[string]tasks.Request{
		"repeats": {Repeats: 100},
		"twice":   {Layers: tasks.Layers{Overrides: []tasks.Override{override}, Model: "y"}},
	} {
		if _, err := MakePlan(t.Context(), nil, PlanOptions{Request: request}); KindOf(err) != User {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPlanEndsWhenItIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	workIn(t)
	if err := os.WriteFile("task.yaml", []byte(plannedTask), 0o644); err != nil {
		t.Fatal(err)
	}
	made, err := MakePlan(ctx, []string{"task.yaml"}, PlanOptions{Lookup: os.LookupEnv})
	if made != nil || ExitCode(err) != ExitInterrupted {
		t.Errorf("%v, %v", made, err)
	}
}
