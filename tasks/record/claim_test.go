package record

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// lockedBy makes locks answer as those of another file system.
func lockedBy(t *testing.T, answer func(fd, how int) error) {
	before := flock
	flock = answer
	t.Cleanup(func() { flock = before })
}

func ofDirectory(fd int) bool {
	var stat syscall.Stat_t
	return syscall.Fstat(fd, &stat) == nil && stat.Mode&syscall.S_IFMT == syscall.S_IFDIR
}

// twoOf opens a row twice.
func twoOf(t *testing.T) (one, other *Row) {
	dir := t.TempDir()
	for _, row := range []**Row{&one, &other} {
		opened, err := OpenRow(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { opened.Close() })
		*row = opened
	}
	return one, other
}

// Only a lock that was had is a claim, or the answer that there are none.
func TestALockThatFailsIsNoClaim(t *testing.T) {
	for why, holds := range map[error]bool{
		syscall.ENOSYS: true, syscall.EOPNOTSUPP: true, syscall.ENOLCK: true,
		syscall.EIO: false, syscall.EBADF: false, syscall.EINVAL: false,
	} {
		row, _ := twoOf(t)
		lockedBy(t, func(int, int) error { return why })
		release, err := row.Claim(t.Context(), func() {})
		if (err == nil) != holds || !holds && !errors.Is(err, why) {
			t.Errorf("%v: %v", why, err)
		}
		if err == nil {
			release()
		}
		if err := row.Write(TaskFile, []byte("{}")); err != nil {
			t.Fatal(err)
		}
		unlock, err := row.Lock()
		if (err == nil) != holds {
			t.Errorf("to write, %v: %v", why, err)
		}
		if err == nil {
			unlock()
		}
	}
}

// A signal is no answer.
func TestAnInterruptedLockIsTriedAgain(t *testing.T) {
	one, other := twoOf(t)
	interrupted := 0
	lockedBy(t, func(fd, how int) error {
		if interrupted++; interrupted%2 == 1 {
			return syscall.EINTR
		}
		return syscall.Flock(fd, how)
	})
	release, err := one.Claim(t.Context(), func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	impatient(t)
	if _, err := other.Claim(t.Context(), func() {}); !errors.Is(err, ErrBusy) {
		t.Errorf("a second grade has it too: %v", err)
	}
}

func impatient(t *testing.T) {
	before := claimPatience
	claimPatience = 0
	t.Cleanup(func() { claimPatience = before })
}

// Over NFS the lock of a directory is known to its own host alone: all hosts
// get it.
func TestAClaimHoldsWhereDirectoriesAreLockedForOneHostOnly(t *testing.T) {
	one, other := twoOf(t)
	lockedBy(t, func(fd, how int) error {
		if ofDirectory(fd) {
			return nil
		}
		return syscall.Flock(fd, how)
	})
	before := isShared
	isShared = func(*os.File) bool { return true }
	t.Cleanup(func() { isShared = before })
	release, err := one.Claim(t.Context(), func() {})
	if err != nil {
		t.Fatal(err)
	}
	waited := make(chan struct{})
	got := make(chan error)
	go func() {
		again, err := other.Claim(t.Context(), func() { close(waited) })
		if err == nil {
			again()
		}
		got <- err
	}()
	select {
	case <-waited:
	case err := <-got:
		t.Fatalf("both have it at once: %v", err)
	case <-time.After(10 * time.Second):
		t.Fatal("nobody is told that it waits")
	}
	release()
	if err := <-got; err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Join(one.Dir, ClaimFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the claim is still there: %v", err)
	}
}

// So it is for a run directory: two hosts do not run rows in one at once, and the
// file that tells is no foreign one.
func TestAHeldDirectoryIsHeldForOtherHosts(t *testing.T) {
	lockedBy(t, func(fd, how int) error {
		if ofDirectory(fd) {
			return nil
		}
		return syscall.Flock(fd, how)
	})
	before := isShared
	isShared = func(*os.File) bool { return true }
	t.Cleanup(func() { isShared = before })
	run := t.TempDir()
	hold := func() (release func(), err error) {
		dir, err := os.Open(run)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { dir.Close() })
		return HoldDir(dir)
	}
	release, err := hold()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hold(); !errors.Is(err, ErrBusy) {
		t.Errorf("both have it at once: %v", err)
	}
	root, err := os.OpenRoot(run)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if names, err := Foreign(root); err != nil || len(names) > 0 {
		t.Errorf("foreign: %v, %v", names, err)
	}
	release()
	again, err := hold()
	if err != nil {
		t.Fatal(err)
	}
	again()
	if left, err := os.ReadDir(run); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
