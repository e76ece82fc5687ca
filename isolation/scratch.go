package isolation

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"podgrade/isolation/process"
	"podgrade/isolation/supervisor"
	"podgrade/isolation/worker"
)

// run is this podgrade's own directory in the scratch. Its lock file is held
// for as long as podgrade lives: a run whose lock is free is dead, and the
// next start removes it.
type run struct {
	dir       string
	lock      *os.File
	privilege privilege // nil: of a dead podgrade
}

const (
	runPrefix = "run-"
	lockName  = "lock"
	initName  = supervisor.Name
	// workerName is the worker's program in the libexec directory.
	workerName = "podgrade-worker"
)

// DefaultScratch is $XDG_DATA_HOME/podgrade/scratch: on the file system of
// Podman's store, where overlays work.
func DefaultScratch() (string, error) {
	base := os.Getenv("XDG_DATA_HOME")
	if base == "" || !filepath.IsAbs(base) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", &Fault{Kind: Refusal, Tried: "find a place for scratch data", Why: err, Do: "set HOME or XDG_DATA_HOME, or use --scratch"}
		}
		base = filepath.Join(home, ".local", "share")
	}
	return filepath.Join(base, "podgrade", "scratch"), nil
}

// owner says whose a run directory is, for people; the lock decides.
type owner struct {
	PID     int       `json:"pid"`
	BootID  string    `json:"boot_id"`
	Started time.Time `json:"started"`
}

// newRun makes a run directory and takes its lock. The scratch is locked
// meanwhile, so no sweep meets a directory that has no lock yet.
func newRun(scratch string, p privilege) (*run, error) {
	err := nameFault(scratch)
	if err == nil {
		err = p.makeScratch(scratch)
	}
	if err != nil {
		return nil, noScratch(scratch, err)
	}
	r := &run{dir: filepath.Join(scratch, runPrefix+strings.ToLower(rand.Text()[:12])), privilege: p}
	unlock, err := lockScratch(scratch)
	if err == nil {
		defer unlock()
		err = r.fill()
	}
	if err != nil {
		os.RemoveAll(r.dir)
		return nil, noScratch(scratch, err)
	}
	return r, nil
}

// noScratch says why a scratch cannot be used, and what to do about that, where that
// does not say so itself.
func noScratch(scratch string, why error) error {
	if known := (*Fault)(nil); errors.As(why, &known) {
		return why
	}
	do := "choose a directory that you can write to, with --scratch or XDG_DATA_HOME"
	if errors.Is(why, unix.ENOSPC) || errors.Is(why, unix.EDQUOT) {
		do = "make room on its disk, or choose another place with --scratch or XDG_DATA_HOME"
	}
	return &Fault{Tried: "make a directory in the scratch", On: scratch, Why: why, Do: do}
}

// checkScratch finds out whether newRun could make its directory, and makes none: what
// is not there yet is made in the nearest directory that is.
func checkScratch(scratch string, p privilege) error {
	if err := cmp.Or(nameFault(scratch), p.checkScratch(scratch)); err != nil {
		return noScratch(scratch, err)
	}
	for at := scratch; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if errors.Is(err, os.ErrNotExist) && at != filepath.Dir(at) {
			continue
		}
		if err == nil && !info.IsDir() {
			err = unix.ENOTDIR
		}
		if err == nil {
			err = unix.Faccessat(unix.AT_FDCWD, at, needs(at == scratch), unix.AT_EACCESS)
		}
		if err != nil {
			return noScratch(scratch, err)
		}
		return checkExecutable(at)
	}
}

// needs is what podgrade must be allowed to do in a directory to make others there;
// its own it also reads.
func needs(own bool) uint32 {
	if own {
		return unix.R_OK | unix.W_OK | unix.X_OK
	}
	return unix.W_OK | unix.X_OK
}

// lockGrace bounds the wait for the lock of the scratch, which is held for
// milliseconds: a podgrade that was stopped just then would hold up all others.
var lockGrace = 30 * time.Second

const lockPause = 2 * time.Millisecond

// lockScratch keeps other podgrades from making, finding and removing run
// directories, for the milliseconds that one of these takes.
func lockScratch(scratch string) (unlock func(), err error) {
	dir, err := os.Open(scratch)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(lockGrace); ; time.Sleep(lockPause) {
		err = unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { dir.Close() }, nil
		}
		if err == unix.EWOULDBLOCK && time.Now().After(deadline) {
			err = fmt.Errorf("another podgrade holds it for more than %v: is one stopped?", lockGrace)
		} else if err == unix.EWOULDBLOCK || err == unix.EINTR {
			continue
		}
		dir.Close()
		return nil, fmt.Errorf("lock %s: %w", scratch, err)
	}
}

func (r *run) fill() error {
	for _, sub := range []string{"", "cells", "trash", "runtime", "tool", filepath.Base(worker.TempDir(r.dir))} {
		dir := filepath.Join(r.dir, sub)
		if err := errors.Join(os.Mkdir(dir, 0o700), r.privilege.own(dir)); err != nil {
			return err
		}
	}
	if err := r.takeLock(); err != nil {
		return fmt.Errorf("lock it: %w", err)
	}
	boot, err := process.BootID()
	if err != nil {
		return err
	}
	return json.NewEncoder(r.lock).Encode(owner{PID: os.Getpid(), BootID: boot, Started: time.Now().UTC()})
}

// takeLock takes the lock of the run directory, when nobody has it.
func (r *run) takeLock() error {
	lock, err := os.OpenFile(filepath.Join(r.dir, lockName), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		return err
	}
	r.lock = lock
	return nil
}

// installInit copies the supervisor where every cell gets it from. Mode 0111:
// a program that nobody in the cell may read is not dumpable from its first
// instruction on.
func (r *run) installInit(libexec string) error {
	from := filepath.Join(libexec, initName)
	src, err := os.Open(from)
	if err != nil {
		return &Fault{Tried: "find the supervisor", On: from, Why: err, Do: "install podgrade with its libexec directory beside bin"}
	}
	defer src.Close()
	tool := worker.ToolDir(r.dir)
	dst, err := os.OpenFile(filepath.Join(tool, initName), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	err = errors.Join(err, dst.Close(), r.privilege.own(dst.Name()), os.Chmod(dst.Name(), 0o111), os.Chmod(tool, 0o555))
	if err != nil {
		return &Fault{Tried: "copy the supervisor", On: tool, Why: err, Do: "check that there is space in the scratch directory"}
	}
	return checkExecutable(tool)
}

// checkExecutable refuses a scratch that no program can be started from.
func checkExecutable(dir string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return err
	}
	if st.Flags&unix.ST_NOEXEC != 0 {
		return &Fault{Tried: "start the supervisor", On: "from " + dir, Why: errors.New("its file system is mounted noexec"),
			Do: "choose a place that is not, with --scratch or XDG_DATA_HOME"}
	}
	return nil
}

// remove takes the run directory away. What the user namespace owns in it must
// be gone already; where it is not, the lock file stays with it, and the next
// start removes both.
func (r *run) remove() error {
	defer r.lock.Close()
	err := os.Chmod(worker.ToolDir(r.dir), 0o700)
	entries, listErr := os.ReadDir(r.dir)
	err = errors.Join(err, listErr)
	for _, e := range entries {
		if e.Name() != lockName {
			err = errors.Join(err, os.RemoveAll(filepath.Join(r.dir, e.Name())))
		}
	}
	if err != nil {
		return err
	}
	unlock, err := lockScratch(filepath.Dir(r.dir))
	if err != nil {
		return err
	}
	defer unlock()
	return os.RemoveAll(r.dir)
}

// deadRuns are the run directories in the scratch whose podgrade is gone, each
// with its lock held, so that only one podgrade sweeps it. One without a lock
// file is half made or half removed: nobody works on it, since we hold the
// scratch.
func deadRuns(scratch string) []*run {
	unlock, err := lockScratch(scratch)
	if err != nil {
		return nil
	}
	defer unlock()
	entries, err := os.ReadDir(scratch)
	if err != nil {
		return nil
	}
	var dead []*run
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), runPrefix) {
			continue
		}
		if r := (&run{dir: filepath.Join(scratch, e.Name())}); r.takeLock() == nil {
			dead = append(dead, r)
		}
	}
	return dead
}
