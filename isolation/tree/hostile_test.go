package tree_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"podgrade/isolation/tree"
)

// deepTree makes directories in each other below dir, with a file in each
// hundredth.
func deepTree(t testing.TB, dir string, levels int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_RDONLY, 0)
	must(t, err)
	for level := range levels {
		if level%100 == 0 {
			file, err := unix.Openat(fd, "file", unix.O_CREAT|unix.O_WRONLY, 0o600)
			must(t, err)
			unix.Close(file)
		}
		must(t, unix.Mkdirat(fd, "directory", 0o700))
		next, err := unix.Openat(fd, "directory", unix.O_DIRECTORY|unix.O_RDONLY, 0)
		must(t, err)
		unix.Close(fd)
		fd = next
	}
	unix.Close(fd)
}

func TestCopyAndEmptyDeepTrees(t *testing.T) {
	dir := t.TempDir()
	const levels = 5000 // more than there are descriptors
	var limit unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	few := unix.Rlimit{Cur: 300, Max: limit.Max}
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &few))
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	deepTree(t, dir, levels)
	dst, report, err := copyOf(t, dir, tree.Options{})
	must(t, err)
	if want := levels + levels/100; report.Entries != want {
		t.Errorf("%d entries, want %d", report.Entries, want)
	}
	if got := digest(t, dst, tree.Options{}); got.Digest != report.Digest {
		t.Error("the copy has another digest")
	}
	empty(t, dst)
	empty(t, dir)
}

// The report of a walk crosses to the host in one message, whatever names the
// tree has.
func TestHazardsAreShortHoweverLongTheNames(t *testing.T) {
	dir := t.TempDir()
	long := dir
	for range 14 {
		long = filepath.Join(long, strings.Repeat("\xff\n", 120))
	}
	for i := range 2 * tree.MaxHazards {
		name := filepath.Join(long, fmt.Sprint(i))
		write(t, name, "x", 0o600)
		must(t, os.Link(name, name+"-again"))
	}
	report := digest(t, dir, tree.Options{})
	if len(report.Hazards) != tree.MaxHazards {
		t.Errorf("%d hazards", len(report.Hazards))
	}
	for _, h := range report.Hazards {
		if len(h) > tree.MaxHazard+3 || !strings.HasPrefix(h, "hard link: ") {
			t.Errorf("a hazard of %d bytes", len(h))
		}
	}
}

func TestDeeperTreesAreRefusedAndCanBeEmptied(t *testing.T) {
	tree.SetMaxDepth(3000)
	defer tree.SetMaxDepth(tree.MaxDepth)
	dir := t.TempDir()
	deepTree(t, dir, 3001)
	if _, err := tree.Digest(t.Context(), openDir(t, dir), tree.Options{}); !errors.Is(err, tree.ErrTooDeep) {
		t.Errorf("its digest: %v", err)
	}
	empty(t, dir)
}

// A walk that nobody waits for any more ends soon, also within one large file.
func TestWalksEndWhenNobodyWaits(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/file", "x", 0o600)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, walk := range map[string]func() error{
		"copy": func() error {
			_, err := tree.Copy(ctx, openDir(t, dir), openDir(t, t.TempDir()), tree.Options{})
			return err
		},
		"digest": func() error { _, err := tree.Digest(ctx, openDir(t, dir), tree.Options{}); return err },
		"exceeds": func() error {
			_, err := tree.Exceeds(ctx, openDir(t, dir), tree.Options{}, tree.Bound{Entries: 9})
			return err
		},
		"give back": func() error {
			_, err := tree.GiveBack(ctx, openDir(t, dir), tree.Return{From: tree.Owner{UID: 1, GID: 1}})
			return err
		},
	} {
		if err := walk(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func empty(t testing.TB, dir string) {
	t.Helper()
	must(t, tree.Empty(openDir(t, dir)))
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// Nobody's modes, names or links keep Empty from emptying, and it touches
// nothing outside.
func TestEmptyRemovesWhatIsHardToRemove(t *testing.T) {
	outside := t.TempDir()
	write(t, outside+"/keep/file", "kept", 0o600)
	dir := t.TempDir()
	for _, name := range []string{"a/b/c", "removed-0", "removed-1/removed-2/removed-1", "\xff/\n"} {
		must(t, os.MkdirAll(filepath.Join(dir, name), 0o700))
	}
	write(t, dir+"/a/b/c/file", "x", 0)
	write(t, dir+"/removed-1/removed-2/removed-3", "x", 0o600)
	must(t, os.Symlink(outside+"/keep", dir+"/link"))
	must(t, os.Symlink(outside+"/keep", dir+"/a/b/link"))
	must(t, unix.Mkfifo(dir+"/a/fifo", 0))
	for i := range 300 {
		must(t, os.Mkdir(fmt.Sprintf("%s/a/many-%d", dir, i), 0))
	}
	for _, name := range []string{"a/b/c", "a/b", "a", "removed-1/removed-2", "removed-1"} {
		must(t, os.Chmod(filepath.Join(dir, name), 0))
	}
	empty(t, dir)
	if kept, err := os.ReadFile(outside + "/keep/file"); string(kept) != "kept" {
		t.Errorf("the file outside: %q, %v", kept, err)
	}
}

// What cannot be removed is an error that names it, and the rest is removed.
func TestEmptyGoesOnAfterAnError(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a/file", "x", 0o600)
	write(t, dir+"/z/file", "x", 0o600)
	if err := tree.Empty(-1); !errors.Is(err, unix.EBADF) {
		t.Errorf("a bad descriptor: %v", err)
	}
	if err := tree.Empty(openDir(t, "/proc/self/net")); err == nil || strings.Count(err.Error(), "\n") > tree.MaxHazards {
		t.Errorf("a directory whose entries cannot be removed: %v", err)
	}
	empty(t, dir)
}

// While a tree is walked, an attacker puts links to a secret in the place of
// its entries. The secret is never read, whatever comes of the walk.
func TestLinksPutInMeanwhileAreNotFollowed(t *testing.T) {
	outside := t.TempDir()
	const secret = "the secret outside"
	write(t, outside+"/secret", secret, 0o600)
	dir := t.TempDir()
	write(t, dir+"/dir/secret", "harmless", 0o600)
	write(t, dir+"/secret", "harmless", 0o600)
	must(t, os.Symlink(outside, dir+"/other-dir"))
	must(t, os.Symlink(outside+"/secret", dir+"/other-file"))
	var stop atomic.Bool
	swapped := make(chan error)
	go func() {
		var err error
		for !stop.Load() && err == nil {
			for _, pair := range [][2]string{{"/dir", "/other-dir"}, {"/secret", "/other-file"}} {
				err = errors.Join(err, unix.Renameat2(unix.AT_FDCWD, dir+pair[0], unix.AT_FDCWD, dir+pair[1], unix.RENAME_EXCHANGE))
			}
		}
		swapped <- err
	}()
	copies := 0
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		dst, _, err := copyOf(t, dir, tree.Options{})
		if err == nil {
			copies++
		}
		for _, name := range []string{"dir/secret", "secret", "other-file", "other-dir/secret"} {
			fd, err := unix.Openat2(unix.AT_FDCWD, filepath.Join(dst, name), &unix.OpenHow{Flags: unix.O_RDONLY, Resolve: unix.RESOLVE_NO_SYMLINKS})
			if err != nil {
				continue
			}
			buf := make([]byte, 100)
			n, _ := unix.Read(fd, buf)
			unix.Close(fd)
			if got := string(buf[:n]); strings.Contains(got, secret) {
				t.Fatalf("%s in the copy says %q", name, got)
			}
		}
	}
	stop.Store(true)
	must(t, <-swapped)
	if copies == 0 {
		t.Error("no copy was ever made")
	}
}

// A file that is written, cut and replaced while it is copied gives a copy or
// an error that says so, never a hang, and never another file's kind.
func TestFilesThatChangeMeanwhile(t *testing.T) {
	dir := t.TempDir()
	big := strings.Repeat("0123456789abcdef", 1<<16)
	write(t, dir+"/file", big, 0o600)
	var stop atomic.Bool
	changed := make(chan error)
	go func() {
		var err error
		for i := 0; !stop.Load() && err == nil; i++ {
			switch i % 4 {
			case 0:
				err = os.Truncate(dir+"/file", 10)
			case 1:
				err = os.WriteFile(dir+"/file", []byte(big), 0o600)
			case 2:
				err = errors.Join(os.Remove(dir+"/file"), unix.Mkfifo(dir+"/file", 0o600))
			case 3:
				err = errors.Join(os.Remove(dir+"/file"), os.WriteFile(dir+"/file", []byte(big), 0o600))
			}
		}
		changed <- err
	}()
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		dst, report, err := copyOf(t, dir, tree.Options{})
		if err == nil && report.Entries > 1 || err != nil && !strings.Contains(err.Error(), "file: ") {
			t.Fatalf("the copy: %+v, %v", report, err)
		}
		if info, err := os.Lstat(dst + "/file"); err == nil && info.Mode().IsRegular() && info.Size() > int64(len(big)) {
			t.Fatalf("the copy has %d bytes", info.Size())
		}
	}
	stop.Store(true)
	must(t, <-changed)
}

// Overlay attributes and devices, which a command in a cell can make, are
// copied as they are and named as hazards; the list is bounded.
func TestHazardsAreNamedAndBounded(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/opaque/file", "x", 0o600)
	must(t, unix.Setxattr(dir+"/opaque", "user.overlay.opaque", []byte("y"), 0))
	for i := range 50 {
		must(t, unix.Mknod(fmt.Sprintf("%s/w%02d", dir, i), unix.S_IFCHR|0o600, 0))
	}
	dst, report, err := copyOf(t, dir, tree.Options{})
	must(t, err)
	if len(report.Hazards) != tree.MaxHazards || report.Hazards[0] != `overlay attribute: "opaque"` || report.Hazards[1] != `device: "w00"` {
		t.Errorf("hazards: %q", report.Hazards)
	}
	if got := attributes(t, dst+"/opaque"); got != "user.overlay.opaque=y" {
		t.Errorf("the copy has %q", got)
	}
}
