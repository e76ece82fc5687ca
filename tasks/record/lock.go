package record

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// patience is how long a writer waits for another one of the same file.
const patience = 10 * time.Second

// ErrBusy: another podgrade holds the lock for longer than a write takes.
var ErrBusy = errors.New("another podgrade is writing it")

// Lock keeps other podgrades from writing the record until unlock is called.
// The lock ends with the process that holds it.
func (r *Row) Lock() (unlock func(), err error) { return lock(r.root, TaskFile) }

// lock locks a file that is replaced as a whole: of those who wait, the next
// one looks again whether the file that it has locked still has the name.
func lock(root *os.Root, name string) (unlock func(), err error) {
	deadline := time.Now().Add(patience)
	for {
		file, err := openToLock(root, name)
		if err != nil {
			return nil, err
		}
		locked, err := tryLock(file)
		if err == nil && (!locked || named(root, name, file)) {
			return func() { file.Close() }, nil
		}
		file.Close()
		if err != nil && !errors.Is(err, ErrBusy) {
			return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
		}
		if time.Now().After(deadline) {
			return nil, &fs.PathError{Op: "lock", Path: name, Err: ErrBusy}
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// flock is the system's, which a test replaces by that of another file system.
var flock = syscall.Flock

// tryLock locks an open file or directory, unless another podgrade has:
// ErrBusy. A file system without locks, as some clusters have, goes without:
// records are written there all the same.
func tryLock(file *os.File) (locked bool, err error) {
	for {
		switch err := flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, ErrBusy
		case errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.EOPNOTSUPP), errors.Is(err, syscall.ENOLCK):
			return false, nil
		default:
			return false, err
		}
	}
}

// openToLock opens a regular file, for writing where that is allowed: over NFS
// nothing else can be locked.
func openToLock(root *os.Root, name string) (*os.File, error) {
	if _, err := replaceable(root, name); err != nil {
		return nil, err
	}
	file, err := root.OpenFile(name, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrPermission) {
		return root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	}
	return file, err
}

// named tells whether the file still has the name.
func named(root *os.Root, name string, file *os.File) bool {
	opened, err := file.Stat()
	if err != nil {
		return false
	}
	now, err := root.Lstat(name)
	return err == nil && os.SameFile(now, opened)
}
