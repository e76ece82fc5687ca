package isolation

import (
	"os"
	"path/filepath"
	"testing"
)

// A note of a dead podgrade must not match a workspace that was made anew and
// got the inode of the one that was lent.
func TestANoteIsOfOneDirectoryAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "workspace")
	first := madeAnew(t, path)
	if first.Handle == "" && first.Born == 0 {
		t.Fatal("the file system of the tests tells nothing of a directory but its inode")
	}
	for range 50 {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		second := madeAnew(t, path)
		if first.is(second) {
			t.Fatalf("%+v is taken for %+v", second, first)
		}
		if second.Ino != first.Ino {
			continue
		}
		// Born is as coarse as the kernel's clock, a handle is not.
		without, handle := second, first
		without.Born, handle.Handle = 0, ""
		if first.Handle != "" && first.is(without) {
			t.Errorf("without a time of birth %+v is taken for %+v", without, first)
		}
		if first.Born != second.Born && handle.is(second) {
			t.Errorf("without a handle %+v is taken for %+v", second, handle)
		}
	}
	if !first.is(first) || !first.is(identity{Major: first.Major, Minor: first.Minor, Ino: first.Ino}) {
		t.Error("a directory is not taken for itself")
	}
}

func madeAnew(t *testing.T, path string) identity {
	t.Helper()
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	which, err := identityAt(path)
	if err != nil {
		t.Fatal(err)
	}
	return which
}
