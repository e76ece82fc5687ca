package record

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Who was killed while writing leaves a draft; the next writer of the file
// removes it, and nothing else.
func TestLeftoverDraftsAreRemoved(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	old := time.Now().Add(-2 * leftoverAge)
	file := func(name string, when time.Time) {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, when, when); err != nil {
			t.Fatal(err)
		}
	}
	leftover := GradeLog + ".4711.0123abcd.tmp"
	file(leftover, old)
	kept := []string{GradeLog + ".4711.0123abce.tmp", TaskLog + ".4711.0123abcd.tmp", GradeLog + ".old.tmp", GradeLog + ".4711.0123abcdx.tmp"}
	file(kept[0], time.Now()) // perhaps just made, and not locked yet
	for _, name := range kept[1:] {
		file(name, old)
	}
	alive, err := newDraft(root, GradeLog)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(filepath.Join(dir, alive.temp), old, old); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, GradeLog+".4711.0123abcf.tmp")); err != nil {
		t.Fatal(err)
	}
	second, err := newDraft(root, GradeLog)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Drop()
	if _, err := root.Lstat(leftover); err == nil {
		t.Error("the leftover is still there")
	}
	for _, name := range append(kept, alive.temp, GradeLog+".4711.0123abcf.tmp") {
		if _, err := root.Lstat(name); err != nil {
			t.Errorf("removed what is no leftover: %v", err)
		}
	}
	if err := alive.Publish(); err != nil {
		t.Error(err)
	}
}
