package regrade

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"podgrade/tasks/record"
)

// TestACopiedRowSaysSo: the record of a copy names the workspace of the row that
// it was copied from, once, and the way out is the copy's own.
func TestACopiedRowSaysSo(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	for _, row := range []string{first, second} {
		if err := os.MkdirAll(filepath.Join(row, record.ArtifactsDir, "task"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	named := filepath.Join(first, record.ArtifactsDir, "task")
	_, err = findWorkspace(&record.Row{Dir: second}, &record.Record{TaskID: "task", SandboxPath: named, Environment: &record.Object{}}, "")
	if err == nil || KindOf(err) != Refused {
		t.Fatal(err)
	}
	says := err.Error()
	for _, part := range []string{"the row was copied", "--workspace " + filepath.Join(second, record.ArtifactsDir, "task")} {
		if !strings.Contains(says, part) {
			t.Errorf("%q is not in: %s", part, says)
		}
	}
	if strings.Count(says, named) != 1 {
		t.Errorf("the path is named more than once: %s", says)
	}
	// What is no copy is not called one, and its path stands there once too.
	other := filepath.Join(dir, "first")
	_, err = findWorkspace(&record.Row{Dir: second}, &record.Record{TaskID: "task", SandboxPath: other, Environment: &record.Object{}}, "")
	if err == nil || strings.Contains(err.Error(), "copied") || strings.Count(err.Error(), other) != 1 || !strings.Contains(err.Error(), "outside of the row directory") {
		t.Error(err)
	}
}
