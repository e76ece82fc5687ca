package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"podgrade/tasks/record"
)

// task writes a task file whose agent leaves its prompt, and whose criterion wants a
// word in it.
func (s *scene) task(name, prompt, wants string) {
	s.t.Helper()
	text := sceneTask(s.t, "cat >made", fmt.Sprintf("success_criteria:\n  - {type: file_contains, path: made, includes: [%s], description: d}\n", wants))
	s.write(name+".yaml", strings.NewReplacer("task_id: t", "task_id: "+name, "initial_prompt: p", "initial_prompt: "+prompt).Replace(text))
}

// resume runs the files, in this order, into the run that is there.
func (s *scene) resume(code int, names ...string) (stderr string) {
	s.t.Helper()
	args := []string{"run", "--run-dir", "r", "--resume"}
	for _, name := range names {
		args = append(args, name+".yaml")
	}
	_, stderr = s.podgrade(code, args...)
	return stderr
}

// recordOf is the text of a row's record.
func (s *scene) recordOf(name string) string {
	s.t.Helper()
	return s.text("r/default/" + name + "/00/" + record.TaskFile)
}

// TestAResumeOfOtherTasks: between a run and its resume tasks change places, come and
// go, and no verdict moves; changed criteria are graded anew, without the agent, and
// a changed prompt is refused by name.
func TestAResumeOfOtherTasks(t *testing.T) {
	s := newScene(t)
	s.task("a", "one", "one")
	s.task("b", "two", "nothing of the kind")
	s.task("c", "three", "three")
	s.podgrade(1, "run", "a.yaml", "b.yaml", "c.yaml", "--run-dir", "r")
	a, b, c := s.recordOf("a"), s.recordOf("b"), s.read("r/default/c/00", record.TaskFile)
	s.task("new", "four", "four")
	s.task("c", "three", "something else")
	// a is gone, and all others have another place
	printsAll(t, s.resume(1, "new", "c", "b"), "give no row of: 1, such as default/a/00; its summary leaves them out")
	if s.recordOf("a") != a || s.recordOf("b") != b {
		t.Error("a finished row was written")
	}
	s.is("r/default/new/00", "SUCCESS", 1)
	if again := s.is("r/default/c/00", "FAILURE", 0); again.Started != c.Started || *c.Score != 1 {
		t.Errorf("executed at %s, and then at %s", c.Started, again.Started)
	}
	s.task("b", "five", "five")
	before := s.recordOf("c")
	printsAll(t, s.resume(2, "c", "b"), "default/b/00: another initial_prompt", "--rerun-changed")
	if s.recordOf("b") != b || s.recordOf("c") != before {
		t.Error("a refused resume wrote a record")
	}
}

// TestARecordThatIsNoFileAnyMore: where a link, a pipe or a directory took the place of a
// record, or nothing can be written, that is said, nothing is followed or waited for,
// and what is there stays.
func TestARecordThatIsNoFileAnyMore(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.task("a", "one", "one")
	s.task("b", "two", "two")
	s.podgrade(0, "execute", "a.yaml", "b.yaml", "--run-dir", "r")
	dir := "r/default/a/00/"
	path, kept := s.path(dir+record.TaskFile), s.path("kept.json")
	if err := os.Rename(path, kept); err != nil {
		t.Fatal(err)
	}
	a, b := s.text("kept.json"), s.recordOf("b")
	for _, c := range []struct {
		kind os.FileMode
		make func() error
	}{
		{os.ModeSymlink, func() error { return os.Symlink(kept, path) }},
		{os.ModeNamedPipe, func() error { return syscall.Mkfifo(path, 0o644) }},
		{os.ModeDir, func() error { return os.Mkdir(path, 0o755) }},
	} {
		if err := c.make(); err != nil {
			t.Fatal(err)
		}
		_, stderr := s.podgrade(2, "evaluate", dir, trusting)
		printsAll(t, stderr, "not a regular file")
		printsAll(t, s.resume(1, "a"), "not a regular file")
		info, err := os.Lstat(path)
		if err != nil || info.Mode().Type() != c.kind || s.text("kept.json") != a {
			t.Errorf("%v: there is %v, %v", c.kind, info, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(kept, path); err != nil {
		t.Fatal(err)
	}
	mode := func(mode os.FileMode) {
		t.Helper()
		for _, name := range []string{"r", "r/default", "r/default/a", "r/default/a/00", "r/default/b", "r/default/b/00"} {
			if err := os.Chmod(filepath.Join(s.dir, name), mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	mode(0o555)
	defer mode(0o755)
	printsAll(t, s.resume(1, "a", "b"), "permission denied")
	_, stderr := s.podgrade(1, "evaluate", dir, trusting)
	printsAll(t, stderr, "permission denied")
	if s.recordOf("a") != a || s.recordOf("b") != b {
		t.Error("a record in a directory that nobody may write to was written")
	}
	mode(0o755)
	s.resume(0, "a", "b")
	s.is("r/default/a/00", "SUCCESS", 1)
}
