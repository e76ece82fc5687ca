package isolation

import (
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

	"podgrade/isolation/worker"
)

// run is this podgrade's own directory in the scratch. Its lock file is held
// for as long as podgrade lives: a run whose lock is free is dead, and the
// next start removes it.
type run struct {
	dir  string
	lock *os.File
}

const (
	lockName = "lock"
	initName = "podgrade-init"
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

// newRun makes a run directory and takes its lock. The name is not there
// before the lock is held, so a sweep of another podgrade cannot take it for
// a dead one.
func newRun(scratch string) (*run, error) {
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		return nil, &Fault{Tried: "make the scratch directory", On: scratch, Why: err, Do: "choose another place with --scratch"}
	}
	name := "run-" + strings.ToLower(rand.Text()[:12])
	making := filepath.Join(scratch, "."+name)
	r := &run{dir: filepath.Join(scratch, name)}
	err := r.fill(making)
	if err == nil {
		err = os.Rename(making, r.dir)
	}
	if err != nil {
		os.RemoveAll(making)
		return nil, &Fault{Tried: "make a directory in the scratch", On: scratch, Why: err, Do: "check that there is space, or choose another place with --scratch"}
	}
	return r, nil
}

func (r *run) fill(dir string) error {
	for _, sub := range []string{"", "cells", "trash", "runtime", "tool"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			return err
		}
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	r.lock = lock
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("lock it: %w", err)
	}
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return json.NewEncoder(lock).Encode(owner{PID: os.Getpid(), BootID: strings.TrimSpace(string(boot)), Started: time.Now().UTC()})
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
	err = errors.Join(err, dst.Chmod(0o111), dst.Close(), os.Chmod(tool, 0o555))
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
// be gone already.
func (r *run) remove() error {
	err := os.Chmod(worker.ToolDir(r.dir), 0o700)
	err = errors.Join(err, os.RemoveAll(r.dir))
	return errors.Join(err, r.lock.Close())
}

// deadRuns are the run directories in the scratch whose podgrade is gone, each
// with its lock held, so that only one podgrade sweeps it.
func deadRuns(scratch string) []*run {
	entries, err := os.ReadDir(scratch)
	if err != nil {
		return nil
	}
	var dead []*run
	for _, e := range entries {
		name := strings.TrimPrefix(e.Name(), ".")
		if !e.IsDir() || !strings.HasPrefix(name, "run-") {
			continue
		}
		if r := takeOver(filepath.Join(scratch, e.Name()), name != e.Name()); r != nil {
			dead = append(dead, r)
		}
	}
	return dead
}

// abandoned is how old a half-made run directory without a lock must be before
// it counts as dead: making one takes milliseconds.
const abandoned = time.Minute

func takeOver(dir string, halfMade bool) *run {
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, os.ErrNotExist) && halfMade {
		info, err := os.Lstat(dir)
		if err != nil || time.Since(info.ModTime()) < abandoned {
			return nil
		}
		lock, err = os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil
		}
	} else if err != nil {
		return nil
	}
	if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		lock.Close()
		return nil
	}
	return &run{dir: dir, lock: lock}
}
