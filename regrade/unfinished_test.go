package regrade

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// Where the kernel cannot rename without replacing, nothing is replaced either.
func TestNothingIsReplacedByHand(t *testing.T) {
	dir := t.TempDir()
	put := func(name string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, rename := range map[string]func(from, to string) error{"the kernel": renameNew, "by hand": renameByHand, "without hard links": renameIntoPlace} {
		from, taken, free := put("from"), put("taken"), filepath.Join(dir, "free")
		if err := rename(from, taken); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: %v", name, err)
		}
		if err := rename(from, free); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for path, want := range map[string]string{taken: "taken", free: "from"} {
			if text, err := os.ReadFile(path); string(text) != want {
				t.Errorf("%s: %s holds %q, %v", name, path, text, err)
			}
		}
		if _, err := os.Lstat(from); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: it has its old name too: %v", name, err)
		}
		if err := os.Remove(free); err != nil {
			t.Fatal(err)
		}
	}
	tree, full := filepath.Join(dir, "tree"), filepath.Join(dir, "full/mine")
	if err := errors.Join(os.Mkdir(tree, 0o700), os.MkdirAll(full, 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := renameByHand(tree, filepath.Dir(full)); err == nil {
		t.Error("a directory was replaced")
	}
	if err := renameByHand(tree, filepath.Join(dir, "new")); err != nil {
		t.Error(err)
	}
}

// FailSync lets no name of a directory reach the disk during a test.
func FailSync(t *testing.T) {
	before := syncParent
	syncParent = func(string) error { return errors.New("the disk says no") }
	t.Cleanup(func() { syncParent = before })
}
