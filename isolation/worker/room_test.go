package worker

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWhoFilledADisk: what a cell's own commands wrote counts, wherever that is,
// and what was copied for them does not.
func TestWhoFilledADisk(t *testing.T) {
	const mega = 1 << 20
	before := fairRoom
	t.Cleanup(func() { fairRoom = before })
	fairRoom = 3 * mega
	dir := t.TempDir()
	holds := func(name string, size int) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Join(path, "sub"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(path, "sub", "file"), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tree, upper, view := holds("tree", 4*mega), holds("container", 4*mega), holds("view", 6*mega)
	workspace, err := openDirectory(tree)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(workspace)
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		t.Fatal(err)
	}
	copied := &viewed{kind: ViewCopy, dir: view, copied: true}
	for name, test := range map[string]struct {
		viewed *viewed
		theirs bool
		upper  string
		was    room
		want   bool
	}{
		"nothing of its own":                {nil, false, "", room{8 * mega, 1000}, false},
		"what the commands added to a copy": {copied, false, "", room{3 * mega, 1000}, false}, // 2 of 3, and 1 is full
		"that and the root":                 {copied, false, upper, room{6 * mega, 1000}, true},
		"more was there":                    {copied, false, upper, room{8 * mega, 1000}, false},
		"an overlay's upper directory":      {&viewed{kind: ViewOverlay, upper: view}, false, "", room{6 * mega, 1000}, true},
		"too little was there":              {copied, false, upper, room{2 * mega, 1000}, false},
		"every file":                        {&viewed{kind: ViewOverlay, upper: view}, false, "", room{800 * mega, 2}, true},
		"a disk that counts no files":       {&viewed{kind: ViewOverlay, upper: view}, false, "", room{800 * mega, math.MaxInt64}, false},
		"a container of Podman":             {copied, true, upper, room{6 * mega, 1000}, true},
		"one whose files nobody finds":      {copied, true, "", room{3 * mega, 1000}, false},
	} {
		c := &cell{dir: dir, viewed: test.viewed}
		d := disk{at: dir, dev: st.Dev, theirs: test.theirs, was: test.was}
		if test.theirs {
			d.dev = 0 // of an overlay
		}
		if got := c.filled(t.Context(), d, Request{Upper: test.upper}, workspace); got != test.want {
			taken, err := c.taken(t.Context(), st.Dev, test.upper, workspace)
			t.Errorf("%s: %v, want %v; %+v was taken, %v", name, got, test.want, taken, err)
		}
	}
	if (room{fullBelow - 1, 1}).none() != true || (room{fullBelow, 1}).none() || !(room{fullBelow, 0}).none() {
		t.Error("what counts as full")
	}
}
