package regrade

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"podgrade/isolation"
	"podgrade/tasks/record"
	"podgrade/tasks/record/fixture"
)

// listed are all names below a directory.
func listed(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	if err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		names = append(names, path)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return names
}

// run is the directory of the case's run.
func (c *rowCase) run() string { return filepath.Dir(filepath.Dir(filepath.Dir(c.dir))) }

// What a grade must not change is no place to keep anything, of whatever row it
// is, and nothing is made in it.
func TestNothingIsKeptInEvidence(t *testing.T) {
	c, other := newCase(t, fixture.Pinned, nil), newCase(t, fixture.Pinned, nil)
	run := t.TempDir()
	if err := os.WriteFile(filepath.Join(run, record.FingerprintFile), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(c.run(), link); err != nil {
		t.Fatal(err)
	}
	workspace, links := t.TempDir(), filepath.Dir(link)
	if err := os.WriteFile(filepath.Join(workspace, "answer.txt"), []byte("42\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c.options.Workspace = workspace
	for name, where := range map[string]string{
		"the row":                    c.dir,
		"a workspace that was named": filepath.Join(workspace, "sub", "kept"),
		"its artifacts":              filepath.Join(c.dir, record.ArtifactsDir, "kept"),
		"the run":                    c.run(),
		"another row of the run":     filepath.Join(c.run(), "default", "other", "00", record.ArtifactsDir),
		"a link to the run":          filepath.Join(link, "kept", "deep"),
		"a row of another run":       filepath.Join(other.dir, "kept"),
		"another run":                filepath.Join(run, "kept"),
	} {
		t.Run(name, func(t *testing.T) {
			var before []string
			all := []string{c.run(), other.run(), run, workspace, links}
			for _, dir := range all {
				before = append(before, listed(t, dir)...)
			}
			c.options.KeepWrites = where
			c.refused(User, "no grade changes", false)
			var after []string
			for _, dir := range all {
				after = append(after, listed(t, dir)...)
			}
			if !slices.Equal(before, after) {
				t.Errorf("made %q of %q", after, before)
			}
		})
	}
}

// What commands of this grade or the next one are shown is no place either.
func TestNothingIsKeptInTheTaskDirectory(t *testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile(byod)
	if err != nil {
		t.Fatal(err)
	}
	task := filepath.Join(dir, "task.yaml")
	if err := os.WriteFile(task, text, 0o644); err != nil {
		t.Fatal(err)
	}
	c := newCase(t, fixture.Pinned, func(o *fixture.Order) { criteriaOf(runCommand("true"))(o); o.Task = task })
	c.options.Answer.RecordedPaths = true
	c.options.KeepWrites = filepath.Join(dir, "kept")
	c.refused(User, "it lies in "+dir, false)
	if names := listed(t, dir); len(names) != 2 {
		t.Errorf("made %q", names)
	}
}

// A grade that keeps nothing leaves no directory, neither of its own nor one that
// rows graded beside it would have shared; what was there stays.
func TestAGradeThatKeepsNothingLeavesNoDirectories(t *testing.T) {
	base := t.TempDir()
	kept := filepath.Join(base, "in", "kept")
	var all []*grading
	for range 2 {
		c := newCase(t, fixture.Pinned, func(o *fixture.Order) { o.Replicate = len(all) })
		row, err := record.OpenRow(c.dir)
		if err != nil {
			t.Fatal(err)
		}
		defer row.Close()
		c.options.KeepWrites = kept
		g, err := prepare(row, c.options)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, g)
	}
	all[0].keeper.drop()
	if names := listed(t, base); !strings.HasSuffix(names[len(names)-1], "/01/"+keptFiles) {
		t.Errorf("what the second row has: %q", names)
	}
	all[1].keeper.drop()
	if names := listed(t, base); len(names) != 1 {
		t.Errorf("left %q", names)
	}
	full := newCase(t, fixture.Pinned, nil)
	full.fake.changes = []isolation.Change{madeFile("first")}
	full.options.KeepWrites = kept
	full.pass()
	before := listed(t, base)
	open := openFiles(t)
	full.fake = newFake()
	full.options.Start = full.fake.start
	if _, err := full.grade(); KindOf(err) != User || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("what was kept would be written over: %v", err)
	}
	if after := listed(t, base); !slices.Equal(before, after) {
		t.Errorf("left %q of %q", after, before)
	}
	if now := openFiles(t); slices.ContainsFunc(now, func(name string) bool { return strings.HasPrefix(name, base) && !slices.Contains(open, name) }) {
		t.Errorf("still open: %q", now)
	}
}

// openFiles are what the descriptors of this process lead to.
func openFiles(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if name, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			names = append(names, name)
		}
	}
	return names
}
