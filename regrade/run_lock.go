package regrade

import (
	"errors"
	"os"
	"syscall"

	"podgrade/tasks/record"
)

// lockRun keeps a second podgrade from running rows in one run directory. The
// lock ends with the process; a file system without locks goes without.
func lockRun(dir string) (unlock func(), err error) {
	opened, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, &Error{Kind: User, Tried: "open the run directory", On: dir, Why: err, Do: "name a directory with --run-dir"}
	}
	if err := LockRun(opened); err != nil {
		opened.Close()
		return nil, &Error{Kind: Refused, Tried: "run in", On: dir, Why: err, Do: "wait until it has ended"}
	}
	return func() { opened.Close() }, nil
}

// ErrRunning: rows are being run in the directory.
var ErrRunning = errors.New("another podgrade is running rows in it")

// LockRun keeps every other podgrade from running rows in an open run directory
// as long as it is open. ErrRunning when one does.
func LockRun(dir *os.File) error {
	err := record.LockDir(dir)
	if errors.Is(err, record.ErrBusy) {
		return ErrRunning
	}
	return err
}
