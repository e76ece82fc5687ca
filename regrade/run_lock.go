package regrade

import (
	"errors"
	"os"
	"syscall"
)

// lockRun keeps a second podgrade from running rows in one run directory. The
// lock ends with the process; a file system without locks goes without.
func lockRun(dir string) (unlock func(), err error) {
	opened, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, &Error{Kind: User, Tried: "open the run directory", On: dir, Why: err, Do: "name a directory with --run-dir"}
	}
	err = syscall.Flock(int(opened.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		opened.Close()
		return nil, &Error{Kind: Refused, Tried: "run in", On: dir, Why: errors.New("another podgrade is running rows in it"), Do: "wait until it has ended"}
	}
	return func() { opened.Close() }, nil
}
