package tree_test

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"podgrade/isolation/tree"
)

func exceeds(t testing.TB, dir string, o tree.Options, b tree.Bound) string {
	t.Helper()
	text, err := tree.Exceeds(t.Context(), openDir(t, dir), o, b)
	must(t, err)
	return text
}

// Entries count at every depth, and bytes as a copy writes them.
func TestExceedsCountsEntriesAndWhatACopyWrites(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a", string(make([]byte, 8000)), 0o600)
	write(t, dir+"/sub/b", "x", 0o600)
	must(t, os.Symlink("a", dir+"/sub/link"))
	sparse(t, dir+"/sub/holes", 1<<40, 0)
	for _, test := range []struct {
		bound tree.Bound
		want  string
	}{
		{tree.Bound{}, ""},
		{tree.Bound{Entries: 5}, ""},
		{tree.Bound{Entries: 4}, "more than 4 entries"},
		{tree.Bound{Bytes: 1 << 20}, ""},
		{tree.Bound{Entries: 5, Bytes: 8000}, "more than 0 MiB"},
	} {
		if got := exceeds(t, dir, tree.Options{}, test.bound); got != test.want {
			t.Errorf("%+v: %q, want %q", test.bound, got, test.want)
		}
	}
	var st unix.Stat_t
	must(t, unix.Stat(dir+"/sub", &st))
	if got := exceeds(t, dir, tree.Options{Skip: []tree.FileID{{Dev: st.Dev, Ino: st.Ino}}}, tree.Bound{Entries: 1}); got != "" {
		t.Errorf("a directory that is left out counts: %s", got)
	}
}

// Whether blocks can be shared is for the file system to say; asking leaves
// nothing, and across file systems they cannot.
func TestSharesBlocksLeavesNothing(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	shares := tree.SharesBlocks(openDir(t, src), openDir(t, dst))
	if left, err := os.ReadDir(dst); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if tree.SharesBlocks(openDir(t, "/proc/self"), openDir(t, dst)) {
		t.Errorf("blocks are shared with /proc (here: %v)", shares)
	}
}

// What is missing of a tree, or given otherwise, is named.
func TestHazardsNameOwnersAndWhatIsLeftOut(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/hidden/file", "x", 0o600)
	var st unix.Stat_t
	must(t, unix.Stat(dir+"/hidden", &st))
	report := digest(t, dir, tree.Options{Skip: []tree.FileID{{Dev: st.Dev, Ino: st.Ino}}})
	if report.Skipped != 1 || fmt.Sprint(report.Hazards) != `[hidden directory: "hidden"]` {
		t.Errorf("%+v", report)
	}
	// Root's own files have no owner in this namespace; a copy of them is ours.
	const foreign = "/proc/self/net/dev_snmp6"
	found := digest(t, foreign, tree.Options{})
	if len(found.Hazards) < 2 || found.Hazards[0] != `owner outside of the id map: ""` || found.Hazards[1] != `group outside of the id map: ""` {
		t.Errorf("hazards of %s: %q", foreign, found.Hazards)
	}
	dst, _, err := copyOf(t, foreign, tree.Options{})
	must(t, err)
	must(t, unix.Stat(dst, &st))
	if st.Uid != 0 || st.Gid != 0 {
		t.Errorf("the copy belongs to %d:%d", st.Uid, st.Gid)
	}
}
