package tree

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// inMemory is a directory on a file system that keeps its times.
func inMemory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "podgrade-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func fingerprintOf(t *testing.T, dir string, o Options) Fingerprint {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	f, err := FingerprintOf(t.Context(), fd, o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestEveryChangeHasAnotherFingerprint, also one that hides: the same size, and
// the times put back.
func TestEveryChangeHasAnotherFingerprint(t *testing.T) {
	for name, change := range map[string]func(dir string) error{
		"a byte": func(dir string) error {
			file := filepath.Join(dir, "sub/file")
			before, err := os.Stat(file)
			return errors.Join(err, os.WriteFile(file, []byte("other"), 0o600), os.Chtimes(file, before.ModTime(), before.ModTime()))
		},
		"another file of the name": func(dir string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, "new"), []byte("bytes"), 0o600), os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "sub/file")))
		},
		"a name": func(dir string) error {
			return os.Rename(filepath.Join(dir, "sub/file"), filepath.Join(dir, "sub/life"))
		},
		"a mode":     func(dir string) error { return os.Chmod(filepath.Join(dir, "sub/file"), 0o700) },
		"a new file": func(dir string) error { return os.WriteFile(filepath.Join(dir, "sub/new"), nil, 0o600) },
		"no file":    func(dir string) error { return os.Remove(filepath.Join(dir, "sub/file")) },
		"where it leads": func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "link")), os.Symlink("elsewhere", filepath.Join(dir, "link")))
		},
		"a second name": func(dir string) error { return os.Link(filepath.Join(dir, "sub/file"), filepath.Join(dir, "hard")) },
		"the root":      func(dir string) error { return os.Chmod(dir, 0o500) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := inMemory(t)
			err := errors.Join(os.Mkdir(filepath.Join(dir, "sub"), 0o700), os.WriteFile(filepath.Join(dir, "sub/file"), []byte("bytes"), 0o600), os.Symlink("somewhere", filepath.Join(dir, "link")))
			if err != nil {
				t.Fatal(err)
			}
			before := fingerprintOf(t, dir, Options{})
			if again := fingerprintOf(t, dir, Options{}); again.Key != before.Key {
				t.Error("the same tree has two")
			}
			if sound, why := before.Sound(time.Now()); sound || why != "it was changed just now" {
				t.Errorf("sound just now: %v, %s", sound, why)
			}
			if sound, why := before.Sound(time.Now().Add(time.Hour)); !sound || why != "" {
				t.Errorf("not sound later: %s", why)
			}
			time.Sleep(10 * time.Millisecond) // a tick of the file system's clock
			if err := change(dir); err != nil {
				t.Fatal(err)
			}
			if after := fingerprintOf(t, dir, Options{}); after.Key == before.Key {
				t.Error("the changed tree has the same")
			}
			os.Chmod(dir, 0o700)
		})
	}
}

// TestFingerprintsThatProveNothing: a tree that somebody else can write to may
// change without its times.
func TestFingerprintsThatProveNothing(t *testing.T) {
	later := time.Now().Add(time.Hour)
	for name, test := range map[string]struct {
		make func(dir string) error
		o    Options
		want string
	}{
		"all may write a file": {func(dir string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, "f"), nil, 0o600), os.Chmod(filepath.Join(dir, "f"), 0o602))
		}, Options{}, "others may write"},
		"its group may": {func(dir string) error {
			return errors.Join(os.Mkdir(filepath.Join(dir, "d"), 0o700), os.Chmod(filepath.Join(dir, "d"), 0o770))
		}, Options{}, "others may write"},
		"the root may be written": {func(dir string) error { return os.Chmod(dir, 0o777) }, Options{}, "others may write"},
		"a part is left out":      {func(string) error { return nil }, Options{Ignore: []string{"x"}}, "as a whole"},
		"links are left out":      {func(string) error { return nil }, Options{Filter: true}, "as a whole"},
	} {
		dir := inMemory(t)
		if err := test.make(dir); err != nil {
			t.Fatal(err)
		}
		if sound, why := fingerprintOf(t, dir, test.o).Sound(later); sound || !strings.Contains(why, test.want) {
			t.Errorf("%s: %v, %q", name, sound, why)
		}
	}
	if sound, why := fingerprintOf(t, "/proc/self/fdinfo", Options{}).Sound(later); sound || why == "" {
		t.Errorf("a tree of the kernel's: %v, %q", sound, why)
	}
	dir := inMemory(t)
	if a, b := fingerprintOf(t, dir, Options{}), fingerprintOf(t, dir, Options{Skip: []FileID{{1, 2}}}); a.Key == b.Key {
		t.Error("what is left out makes no difference")
	}
}
