package regrade

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"podgrade/isolation"
	"podgrade/isolation/tree"
	"podgrade/tasks/record"
	"podgrade/tasks/record/fixture"
)

// madeFile is a file that a command made, as a worker tells it.
func madeFile(path string) isolation.Change {
	return isolation.Change{Follows: true, Change: tree.Change{Path: []byte(path), What: tree.Created, Type: tree.RegularFile, Mode: 0o4755, Size: 4}}
}

// What is told of a cell is untrusted: no name of it leads anywhere, and no number
// of it is all kept.
func TestWritesAreKeptWithinBoundsAndBelowTheirDirectory(t *testing.T) {
	c := newCase(t, fixture.Pinned, nil)
	hostile := []string{"../escape", "/escape", "a/../../../escape", "a//b", ".", "", strings.Repeat("d/", 200) + "deep", strings.Repeat("x", 3000)}
	for _, path := range append(hostile, "honest", "dir/honest", "index.json") {
		c.fake.changes = append(c.fake.changes, madeFile(path))
	}
	for i := range 600 {
		c.fake.changes = append(c.fake.changes, madeFile(fmt.Sprintf("many/%d", i)))
	}
	base := t.TempDir()
	c.options.KeepWrites = filepath.Join(base, "in", "kept")
	c.pass()
	var index []changeEntry
	if err := json.Unmarshal([]byte(c.file(record.GradeChanges+"/index.json")), &index); err != nil {
		t.Fatal(err)
	}
	if len(index) != rowBound.Listed {
		t.Errorf("the row lists %d", len(index))
	}
	var cell cellFile
	if err := json.Unmarshal([]byte(c.file(record.GradeCellFile)), &cell); err != nil {
		t.Fatal(err)
	}
	if f := cell.Changes; f.Created != 611 || f.Untold != 111 || f.Kept != rowBound.Files || f.KeptBytes != int64(4*rowBound.Files) {
		t.Errorf("%+v", f)
	}
	var files []string
	filepath.WalkDir(base, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode() != 0o644 && info.Mode() != 0o755 {
			t.Errorf("%s has the mode %v", path, info.Mode())
		}
		if !strings.Contains(path, "/many/") {
			_, below, _ := strings.Cut(path, "/00/")
			files = append(files, below)
		}
		return err
	})
	if got := strings.Join(files, " "); got != "files/dir/honest files/honest files/index.json index.json" {
		t.Errorf("kept %s", got)
	}
	if _, err := os.Lstat(filepath.Join(base, "escape")); !errors.Is(err, os.ErrNotExist) {
		t.Error("a name led out")
	}
}

// No verdict depends on what can be told of the changes.
func TestUnknownChangesCostNoVerdict(t *testing.T) {
	for name, unchanged := range map[string]error{"nobody knows": isolation.ErrNoChanges, "it failed": errors.New("a full disk")} {
		t.Run(name, func(t *testing.T) {
			c := newCase(t, fixture.Pinned, nil)
			c.fake.unchanged = unchanged
			c.pass()
			if !strings.Contains(c.file(record.GradeCellFile), unchanged.Error()) {
				t.Errorf("the record says nothing of it:\n%s", c.file(record.GradeCellFile))
			}
			if warned := strings.Contains(c.notice.String(), unchanged.Error()); warned != (unchanged != isolation.ErrNoChanges) {
				t.Errorf("it is said: %v\n%s", warned, &c.notice)
			}
		})
	}
}

// A grade that fails leaves what the last verdict's changed.
func TestAFailedGradeKeepsTheChangesOfTheVerdict(t *testing.T) {
	c := newCase(t, fixture.Pinned, nil)
	c.fake.changes = []isolation.Change{madeFile("first")}
	c.pass()
	before := c.file(record.GradeChanges + "/index.json")
	c.fake.changes = []isolation.Change{madeFile("second")}
	c.fake.layers = isolation.ErrNoImage
	c.options.KeepWrites = filepath.Join(t.TempDir(), "kept")
	row, err := record.OpenRow(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer row.Close()
	if _, err := Grade(t.Context(), row, c.options); err == nil {
		t.Fatal("the image is gone, and it was graded")
	}
	if c.file(record.GradeChanges+"/index.json") != before {
		t.Error("the changes are those of a grade without a verdict")
	}
}

// An archive that a full disk cut off is no evidence: it is not kept, and the
// index says of no file that it was.
func TestAnArchiveThatIsNotWholeIsNotKept(t *testing.T) {
	c := newCase(t, fixture.Pinned, nil)
	row, err := record.OpenRow(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer row.Close()
	r := &rowChanges{files: row.Attach(record.GradeChanges)}
	for _, name := range []string{"first", "second", "third"} {
		if err := r.take(entryOf(madeFile(name)), strings.NewReader("text")); err != nil {
			t.Fatal(err)
		}
		if name == "first" {
			r.archive = tar.NewWriter(&fullDisk{left: 700})
		}
	}
	if err := r.finish(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("finished with %v", err)
	}
	if err := r.publish(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(c.dir, record.GradeChanges, changesArchive)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the archive is there: %v", err)
	}
	var index []changeEntry
	if err := json.Unmarshal([]byte(c.file(record.GradeChanges+"/"+changesIndex)), &index); err != nil || len(index) != 3 {
		t.Fatal(index, err)
	}
	for _, e := range index {
		if e.File != "" || e.Kept != 0 || e.SHA256 != "" {
			t.Errorf("the index says of %s that it is kept: %+v", e.Path, e)
		}
	}
	if r.kept != 0 || r.bytes != 0 {
		t.Errorf("kept %d files, %d bytes", r.kept, r.bytes)
	}
}

// fullDisk takes so many bytes.
type fullDisk struct{ left int }

func (d *fullDisk) Write(p []byte) (int, error) {
	n := min(len(p), d.left)
	d.left -= n
	if n < len(p) {
		return n, syscall.ENOSPC
	}
	return n, nil
}
