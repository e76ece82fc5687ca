package record

import (
	"context"
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
		switch err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
		case err == nil && named(root, name, file):
			return func() { file.Close() }, nil
		case errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.EOPNOTSUPP), errors.Is(err, syscall.ENOLCK):
			// A file system without locks, as some clusters have: records are
			// written there all the same.
			return func() { file.Close() }, nil
		case err != nil && !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			file.Close()
			return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
		}
		file.Close()
		if time.Now().After(deadline) {
			return nil, &fs.PathError{Op: "lock", Path: name, Err: ErrBusy}
		}
		time.Sleep(20 * time.Millisecond)
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

// claimPatience is how long a grade waits for other grades of its row.
var claimPatience = time.Hour

// Claim keeps other podgrades from grading the row until release is called: a
// grade begins with what the one before it has written. waiting is called once,
// where somebody has to be waited for. A file system without locks goes without,
// and with the process its claim ends. ErrBusy after an hour.
func (r *Row) Claim(ctx context.Context, waiting func()) (release func(), err error) {
	dir, err := r.root.OpenFile(".", os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	for begun := time.Now(); ; waiting = func() {} {
		if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
			return func() { dir.Close() }, nil
		}
		if time.Since(begun) > claimPatience {
			dir.Close()
			return nil, &fs.PathError{Op: "lock", Path: r.Dir, Err: ErrBusy}
		}
		waiting()
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			dir.Close()
			return nil, ctx.Err()
		}
	}
}
