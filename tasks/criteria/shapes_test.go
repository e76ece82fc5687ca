package criteria_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"podgrade/tasks"
	"podgrade/tasks/criteria"
)

// TestShapes loads task files of the shapes that authors write, with the layers
// of the built-in experiment: each gives rows, and nothing is refused.
func TestShapes(t *testing.T) {
	text, err := os.ReadFile("../testdata/shapes.txt")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var files []string
	for _, part := range strings.Split(string(text), "\n-- ")[1:] {
		name, data, _ := strings.Cut(part, " --\n")
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if filepath.Ext(name) == ".yaml" {
			files = append(files, path)
		}
	}
	if len(files) < 40 {
		t.Errorf("there are only %d task files", len(files))
	}
	loader := criteria.NewLoader(func(name string) (string, bool) { return "/none", name == "HOME" })
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			resolution, err := loader.Rows([]string{file}, tasks.Request{})
			if err != nil {
				t.Fatal(err)
			}
			for _, skip := range resolution.Skipped {
				t.Error(skip.Reason)
			}
			if len(resolution.Rows) == 0 {
				t.Error("no rows")
			}
			for _, row := range resolution.Rows {
				for _, problem := range row.Task.CheckPaths(row.File.Dir) {
					t.Error(problem)
				}
				for _, wrong := range criteria.Validate(row.Task.SuccessCriteria) {
					t.Error(wrong)
				}
			}
		})
	}
}
