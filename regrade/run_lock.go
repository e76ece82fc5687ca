package regrade

import (
	"errors"
	"os"
	"syscall"

	"podgrade/tasks/record"
)

// lockRun keeps a second podgrade from running rows in one run directory, also one
// of another host where several share it. The lock ends with the process; a file
// system without locks goes without.
func lockRun(dir string) (unlock func(), err error) {
	opened, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, &Error{Kind: User, Tried: "open the run directory", On: dir, Why: err, Do: "name a directory with --run-dir"}
	}
	release, err := LockRun(opened)
	if err != nil {
		opened.Close()
		return nil, &Error{Kind: Refused, Tried: "run in", On: dir, Why: err, Do: "wait until it has ended"}
	}
	return func() { release(); opened.Close() }, nil
}

// ErrRunning: rows are being run in the directory.
var ErrRunning = errors.New("another podgrade is running rows in it")

// LockRun keeps every other podgrade from running rows in an open run directory
// as long as it is open and release was not called. ErrRunning when one does.
func LockRun(dir *os.File) (release func(), err error) {
	release, err = record.HoldDir(dir)
	if errors.Is(err, record.ErrBusy) {
		return nil, ErrRunning
	}
	return release, err
}
