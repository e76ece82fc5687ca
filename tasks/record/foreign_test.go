package record

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func lay(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("{}"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

// What a run consists of is no foreign file, whether its rows have ended or not;
// all else is named, and a directory of such as a whole.
func TestForeignNamesWhatIsNoPartOfARun(t *testing.T) {
	dir := t.TempDir()
	lay(t, dir, RunFiles()...)
	lay(t, dir,
		"default/variant.json", "default/suite/suite.json", "default/suite/row/00/task.json", "default/suite/row/00/notes",
		"default/t/01/artifacts/t/answer", "default/t/02/task.json.malformed", "imported.podgrade/tree/task.yaml",
		"task.json.4711.0123abcd.tmp")
	if err := os.MkdirAll(filepath.Join(dir, "default", "t", "03"), 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if got, err := Foreign(root); err != nil || len(got) > 0 {
		t.Errorf("of the run itself: %q (%v)", got, err)
	}
	lay(t, dir, "task.yaml", "src/a/main.c", "src/b", "default/notes.txt", "src/deep/artifacts/x", "default/t/extra/task.log", "older/"+FingerprintFile)
	if err := os.Symlink("/", filepath.Join(dir, "default", "link")); err != nil {
		t.Fatal(err)
	}
	want := []string{"default/link", "default/notes.txt", "default/t/extra", "older", "src", "task.yaml"}
	if got, err := Foreign(root); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, want %q (%v)", got, want, err)
	}
}

// A run begins in no directory that holds something else: it would be removed
// with the run. Begun runs and empty directories are gone on with.
func TestARunBeginsInNoDirectoryOfSomethingElse(t *testing.T) {
	for _, c := range []struct {
		name    string
		files   []string
		foreign bool
	}{
		{"empty", nil, false},
		{"task", []string{"task.yaml", "precious/letter"}, true},
		{"runs", []string{"one/" + FingerprintFile}, true},
		{"begun", []string{FingerprintFile, "task.yaml"}, false},
		{"killed", []string{"default/t/00/task.log"}, false},
	} {
		dir := filepath.Join(t.TempDir(), c.name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		lay(t, dir, c.files...)
		err := OnlyARun(dir)
		if errors.Is(err, ErrForeign) != c.foreign || !c.foreign && err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if err := OnlyARun(filepath.Join(t.TempDir(), "new")); err != nil {
		t.Errorf("where nothing is: %v", err)
	}
}
