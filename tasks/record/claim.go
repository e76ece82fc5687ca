package record

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// claimPatience is how long a grade waits for other grades of its row.
var claimPatience = time.Hour

// How soon a waiting grade looks again: at first, and at last.
const (
	firstLook = 20 * time.Millisecond
	lastLook  = 250 * time.Millisecond
)

// Claim keeps other podgrades from grading the row until release is called: a
// grade begins with what the one before it has written. waiting is called once,
// where somebody has to be waited for. A file system without locks goes without,
// and with the process its claim ends. ErrBusy after an hour.
func (r *Row) Claim(ctx context.Context, waiting func()) (release func(), err error) {
	pause := firstLook
	for begun := time.Now(); ; waiting = func() {} {
		release, err := r.tryClaim()
		if err == nil {
			return release, nil
		}
		if !errors.Is(err, ErrBusy) || time.Since(begun) > claimPatience {
			return nil, &fs.PathError{Op: "lock", Path: r.Dir, Err: err}
		}
		waiting()
		select {
		case <-time.After(pause):
			pause = min(2*pause, lastLook)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// tryClaim holds the row's directory.
func (r *Row) tryClaim() (release func(), err error) {
	dir, err := r.root.OpenFile(".", os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	drop, err := HoldDir(dir)
	if err != nil {
		dir.Close()
		return nil, err
	}
	return func() { drop(); dir.Close() }, nil
}

// HoldDir keeps every other podgrade from holding an open directory, as long as
// it is open and release was not called. It locks the directory, which leaves
// nothing behind, and where other hosts do not see that, a file in it. ErrBusy
// when another one holds it. A file system without locks goes without.
func HoldDir(dir *os.File) (release func(), err error) {
	if _, err := tryLock(dir); err != nil {
		return nil, err
	}
	if !isShared(dir) {
		return func() {}, nil
	}
	// By the descriptor: nobody can put another directory there.
	root, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()))
	if err != nil {
		return nil, err
	}
	drop, err := claimFile(root)
	if err != nil {
		root.Close()
		return nil, err
	}
	return func() { drop(); root.Close() }, nil
}

// isShared tells whether the directory is of a file system that several hosts
// use, where the lock of a directory is known to its own host alone.
var isShared = func(dir *os.File) bool {
	var stat syscall.Statfs_t
	if err := syscall.Fstatfs(int(dir.Fd()), &stat); err != nil {
		return false
	}
	switch uint32(stat.Type) {
	case 0x6969, 0xff534d42, 0xfe534d42, 0x517b, 0x65735546, 0x01021997: // NFS, CIFS, SMB2, SMB, FUSE, 9P
		return true
	}
	return false
}

// claimFile locks ClaimFile, and removes it when it is released. Who may not
// write the row goes without: no grade of his would come to anything.
func claimFile(root *os.Root) (release func(), err error) {
	if _, err := replaceable(root, ClaimFile); err != nil {
		return nil, err
	}
	file, err := root.OpenFile(ClaimFile, os.O_RDWR|os.O_CREATE|syscall.O_NONBLOCK, modeFor(root))
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	locked, err := tryLock(file)
	if err == nil && locked && !named(root, ClaimFile, file) {
		err = ErrBusy // it was released just now: the next one is another file
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return func() { root.Remove(ClaimFile); file.Close() }, nil
}
