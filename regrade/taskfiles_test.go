package regrade

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"podgrade/tasks"
)

// workIn makes a directory with the files and works in it.
func workIn(t *testing.T, files ...string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for _, name := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFindTaskFiles(t *testing.T) {
	workIn(t, "tasks/b.yaml", "tasks/a.yaml", "tasks/deep/er/c.yaml", "tasks/.hidden/d.yaml", "tasks/.e.yaml", "tasks/f.yml", "lit[1].yaml", "lit1.yaml")
	if err := os.Symlink("..", "tasks/deep/up"); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ arguments, files, unmatched []string }{
		"all tasks":             {nil, []string{"tasks/a.yaml", "tasks/b.yaml", "tasks/deep/er/c.yaml"}, nil},
		"in the order given":    {[]string{"tasks/b.yaml", "tasks/a.yaml"}, []string{"tasks/b.yaml", "tasks/a.yaml"}, nil},
		"each once":             {[]string{"tasks/b.yaml", "tasks/*.yaml"}, []string{"tasks/b.yaml", "tasks/a.yaml"}, nil},
		"what is there":         {[]string{"lit[1].yaml"}, []string{"lit[1].yaml"}, nil},
		"a class":               {[]string{"lit[0-9].yaml"}, []string{"lit1.yaml"}, nil},
		"dots are asked for":    {[]string{"tasks/.*/*.yaml", "tasks/.e*"}, []string{"tasks/.hidden/d.yaml", "tasks/.e.yaml"}, nil},
		"at any depth":          {[]string{"tasks/**/c.yaml"}, []string{"tasks/deep/er/c.yaml"}, nil},
		"at no depth":           {[]string{"**/a.yaml", "tasks/**/a.yaml"}, []string{"tasks/a.yaml"}, nil},
		"everything":            {[]string{"tasks/deep/**"}, []string{"tasks/deep/er/c.yaml"}, nil},
		"twice at any depth":    {[]string{"**/deep/**/*.yaml"}, []string{"tasks/deep/er/c.yaml"}, nil},
		"a directory is a file": {[]string{"tasks"}, []string{"tasks"}, nil},
		"nothing":               {[]string{"none.yaml", "n*.yaml", "nowhere/**/*.yaml"}, nil, []string{"none.yaml", "n*.yaml", "nowhere/**/*.yaml"}},
	} {
		t.Run(name, func(t *testing.T) {
			files, unmatched, err := FindTaskFiles(c.arguments)
			if err != nil || !slices.Equal(files, c.files) || !slices.Equal(unmatched, c.unmatched) {
				t.Errorf("%q, %q, %v", files, unmatched, err)
			}
		})
	}
	absolute, _ := filepath.Abs("tasks")
	if files, _, err := FindTaskFiles([]string{absolute + "/*.yaml"}); err != nil || len(files) != 2 || files[0] != absolute+"/a.yaml" {
		t.Errorf("an absolute pattern gives %q, %v", files, err)
	}
	if _, _, err := FindTaskFiles([]string{"tasks/[a.yaml"}); KindOf(err) != User {
		t.Errorf("a pattern that is none: %v", err)
	}
}

func TestLoadExperimentFindsByName(t *testing.T) {
	workIn(t, "experiments/b.yml", "own.yaml")
	text := []byte("experiment_id: x\nvariants: [{variant_id: v}]\n")
	for _, name := range []string{"experiments/a.yaml", "experiments/b.yml", "own.yaml"} {
		if err := os.WriteFile(name, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, path := range map[string]string{
		"a": "experiments/a.yaml", "b": "experiments/b.yml", "a.yaml": "experiments/a.yaml", "own.yaml": "own.yaml", "experiments/a.yaml": "experiments/a.yaml", "": "",
	} {
		if e, err := LoadExperiment(&tasks.Loader{}, name); err != nil || e.Path != path {
			t.Errorf("%q: %v", name, err)
		}
	}
	_, err := LoadExperiment(&tasks.Loader{}, "c")
	if KindOf(err) != User || !strings.Contains(err.Error(), "experiments: a, b") {
		t.Errorf("an unknown name: %v", err)
	}
	os.RemoveAll("experiments")
	if _, err := LoadExperiment(&tasks.Loader{}, "c"); !strings.Contains(err.Error(), "there is none in experiments") {
		t.Errorf("no experiments at all: %v", err)
	}
}

func TestFindingsOfJoinedErrors(t *testing.T) {
	one := tasks.Problem{Place: tasks.Place{File: "f", Line: 1, Column: 2}, Path: "a.b", Text: "is odd"}
	err := errors.Join(
		&tasks.Invalid{What: "task file", Name: "f", Problems: []tasks.Problem{one}},
		errors.New("else"),
		&tasks.Invalid{What: "task file", Name: "f", Problems: []tasks.Problem{one, {Text: "third"}}},
	)
	found := findingsOf(err)
	want := []Finding{{File: "f", Line: 1, Column: 2, Key: "a.b", Text: "is odd"}, {Text: "else"}, {Text: "third"}}
	if !slices.Equal(found, want) {
		t.Errorf("%+v", found)
	}
	if got := found[0].String(); got != "f:1:2: a.b: is odd" {
		t.Error(got)
	}
}
