package tree_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"podgrade/isolation/tree"
)

// A nanosecond more, or less, of any entry changes the digest of the times, and
// nothing else.
func TestTheTimeOfEveryEntryCounts(t *testing.T) {
	dir := sample(t)
	names := []string{"", "plain", "sub", "sub/file", "fifo", "socket", "whiteout", "link", "out", "a b:c,d\ne\\", "locked"}
	seen := map[string]string{digest(t, dir, tree.Options{}).Times: "the tree as it was"}
	content := digest(t, dir, tree.Options{}).Digest
	for _, name := range names {
		for _, nanoseconds := range []int64{1, 2} {
			times := []unix.Timespec{{Sec: 5}, {Sec: 1_000_000_000, Nsec: nanoseconds}}
			must(t, unix.UtimesNanoAt(openDir(t, dir), name, times, flagsFor(name)))
			report := digest(t, dir, tree.Options{})
			if before, known := seen[report.Times]; known {
				t.Errorf("%q at %d ns has the times of %s", name, nanoseconds, before)
			}
			seen[report.Times] = name
			if report.Digest != content {
				t.Errorf("the time of %q counts as content", name)
			}
		}
	}
	// When something was read last is nothing that a copy could keep.
	before := digest(t, dir, tree.Options{}).Times
	must(t, os.Chtimes(dir+"/plain", time.Unix(7, 7), time.Unix(1_000_000_000, 2)))
	if digest(t, dir, tree.Options{}).Times != before {
		t.Error("the time of last access counts")
	}
	// Nor may two entries swap theirs.
	must(t, os.Chtimes(dir+"/plain", time.Time{}, time.Unix(1, 0)))
	must(t, os.Chtimes(dir+"/sub/file", time.Time{}, time.Unix(2, 0)))
	before = digest(t, dir, tree.Options{}).Times
	must(t, os.Chtimes(dir+"/plain", time.Time{}, time.Unix(2, 0)))
	must(t, os.Chtimes(dir+"/sub/file", time.Time{}, time.Unix(1, 0)))
	if digest(t, dir, tree.Options{}).Times == before {
		t.Error("two files may swap their times")
	}
}

func flagsFor(name string) int {
	if name == "" {
		return unix.AT_EMPTY_PATH
	}
	return unix.AT_SYMLINK_NOFOLLOW
}

// A copy on a file system that keeps whole seconds says so, of every kind of entry,
// and is made all the same.
func TestACopySaysWhichTimesItDoesNotKeep(t *testing.T) {
	tree.SetUtimes(func(dir int, name string, times []unix.Timespec, flags int) error {
		return unix.UtimesNanoAt(dir, name, []unix.Timespec{{Sec: times[0].Sec}, {Sec: times[1].Sec}}, flags)
	})
	t.Cleanup(func() { tree.SetUtimes(unix.UtimesNanoAt) })
	src := t.TempDir()
	write(t, src+"/file", "x", 0o600)
	must(t, os.Symlink("file", src+"/link"))
	must(t, os.Chtimes(src, time.Unix(1, 5), time.Unix(1, 5)))
	dst, report, err := copyOf(t, src, tree.Options{})
	must(t, err)
	hazards := strings.Join(report.Hazards, "\n")
	for _, name := range []string{`""`, `"file"`, `"link"`} {
		if !strings.Contains(hazards, "time of last change that the view's file system does not keep: "+name) {
			t.Errorf("nothing is said of %s: %s", name, hazards)
		}
	}
	if report.Times != digest(t, src, tree.Options{}).Times || report.Times == digest(t, dst, tree.Options{}).Times {
		t.Error("the report is not of the tree that was copied")
	}
}
