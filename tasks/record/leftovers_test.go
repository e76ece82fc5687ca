package record

import (
	"fmt"
	"os"
	"os/exec"
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
	orphan := fmt.Sprintf("%s.%d.0123abcf.tmp", GradeLog, endedProcess(t))
	file(orphan, time.Now())
	kept := []string{fmt.Sprintf("%s.%d.0123abce.tmp", GradeLog, os.Getpid()), TaskLog + ".4711.0123abcd.tmp", GradeLog + ".old.tmp", GradeLog + ".4711.0123abcdx.tmp"}
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
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, GradeLog+".4711.0123abd0.tmp")); err != nil {
		t.Fatal(err)
	}
	second, err := newDraft(root, GradeLog)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Drop()
	for _, name := range []string{leftover, orphan} {
		if _, err := root.Lstat(name); err == nil {
			t.Errorf("the leftover %s is still there", name)
		}
	}
	for _, name := range append(kept, alive.temp, GradeLog+".4711.0123abd0.tmp") {
		if _, err := root.Lstat(name); err != nil {
			t.Errorf("removed what is no leftover: %v", err)
		}
	}
	if err := alive.Publish(); err != nil {
		t.Error(err)
	}
}

// endedProcess is the number of a process that has ended.
func endedProcess(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

// TestALeftoverOfAnyFileIsRemoved: who goes on with a row removes what a killed
// podgrade was writing, at once, and nothing that somebody else writes.
func TestALeftoverOfAnyFileIsRemoved(t *testing.T) {
	dir := t.TempDir()
	row, err := OpenRow(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer row.Close()
	for _, name := range []string{CriterionLogs, GradeChanges} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	pid := endedProcess(t)
	removed := []string{
		fmt.Sprintf("%s.%d.0123abcd.tmp", TaskLog, pid), fmt.Sprintf("%s.%d.0123abcd.tmp", ContainerLog, pid),
		fmt.Sprintf("%s/criterion-1.stdout.%d.0123abcd.tmp", CriterionLogs, pid),
		fmt.Sprintf("%s/files.tar.%d.0123abcd.tmp", GradeChanges, pid),
	}
	kept := []string{TaskLog, "notes.tmp", fmt.Sprintf("%s.%d.0123abcd.tmp", TaskLog, os.Getpid()), fmt.Sprintf(".%d.0123abcd.tmp", pid)}
	for _, name := range append(removed, kept...) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	row.RemoveLeftovers()
	for _, name := range removed {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
	for _, name := range kept {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			t.Errorf("removed what is no leftover: %v", err)
		}
	}
}
