package record

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Nothing that tells of an earlier execution survives a new one; what somebody
// else put beside it does, and no link is followed.
func TestClearLeavesNothingOfAnExecution(t *testing.T) {
	row, err := Create(t.TempDir(), Identity{VariantID: "v", TaskID: "t"})
	if err != nil {
		t.Fatal(err)
	}
	defer row.Close()
	if row.Abandoned() {
		t.Error("an empty row counts as begun")
	}
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.Mkdir(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(row.Dir, WorkspaceDraft)); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(row.Dir, ArtifactsDir, "t"), 0o755); err != nil {
		t.Fatal(err)
	}
	files := []string{TaskFile, ExecuteFile, TaskLog, GradeLog, ContainerLog, GradeCellLog, ExecuteCellFile, GradeCellFile, RowPage, "notes.txt"}
	for _, name := range files {
		if err := row.Write(name, []byte("old")); err != nil {
			t.Fatal(err)
		}
	}
	var emptied []string
	if err := row.Clear(func(dir *os.File) error {
		emptied = append(emptied, filepath.Base(dir.Name()))
		return os.Remove(filepath.Join(row.Dir, ArtifactsDir, "t"))
	}); err != nil {
		t.Fatal(err)
	}
	var left []string
	entries, err := os.ReadDir(row.Dir)
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if err != nil || !slices.Equal(left, []string{"notes.txt"}) || !slices.Equal(emptied, []string{ArtifactsDir}) {
		t.Errorf("left %q, emptied %q (%v)", left, emptied, err)
	}
	if _, err := os.Stat(outside); err != nil || row.Abandoned() {
		t.Errorf("a link was followed (%v), or the row counts as begun", err)
	}
}
