package isolation

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestALinkThatTookTheWorkspacesPlaceIsNotFollowed: between the look at a path
// and its use somebody may put a link there, or in the place of a directory above
// it.
func TestALinkThatTookTheWorkspacesPlaceIsNotFollowed(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "tree")
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "artifacts/tree"), 0o755), os.Mkdir(outside, 0o755)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "artifacts/tree")
	open, err := openPath(path)
	if err != nil {
		t.Fatal(err)
	}
	open.Close()
	for name, swap := range map[string]func() error{
		"itself": func() error { return errors.Join(os.Remove(path), os.Symlink(outside, path)) },
		"a directory above it": func() error {
			return errors.Join(os.RemoveAll(filepath.Dir(path)), os.Symlink(filepath.Dir(outside), filepath.Dir(path)))
		},
		"a link through itself": func() error {
			return errors.Join(os.RemoveAll(filepath.Dir(path)), os.Symlink("artifacts", filepath.Dir(path)))
		},
	} {
		if err := swap(); err != nil {
			t.Fatal(err)
		}
		if opened, err := openPath(path); !errors.Is(err, unix.ELOOP) {
			t.Errorf("%s: %v, %v", name, opened, err)
		}
		if opened, err := OpenTree(path); !errors.Is(err, unix.ELOOP) {
			t.Errorf("%s, to be packed: %v, %v", name, opened, err)
		}
		if err := errors.Join(os.RemoveAll(filepath.Dir(path)), os.MkdirAll(path, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := openPath(filepath.Join(dir, "nothing")); !errors.Is(err, unix.ENOENT) {
		t.Errorf("nothing is there: %v", err)
	}
}
