package record

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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

// Every file and directory that podgrade puts into a row is cleared with it.
func TestClearKnowsAllThatARowHolds(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "files.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	cleared := slices.Concat(rowFiles, rowDirs, []string{TaskFile})
	found := 0
	for _, spec := range file.Decls[0].(*ast.GenDecl).Specs { // those of a row
		value := spec.(*ast.ValueSpec)
		name, err := strconv.Unquote(value.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		if name == MalformedFile { // which is for a person to look at
			continue
		}
		if found++; !slices.Contains(cleared, name) {
			t.Errorf("%s stays when the row is executed again", name)
		}
	}
	if found < len(rowFiles) {
		t.Errorf("only %d names were found", found)
	}
}
