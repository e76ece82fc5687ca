package states

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockGrace bounds the wait for the lock of a store, which is held while a layer
// is written to the disk.
const lockGrace = time.Minute

const lockPause = 2 * time.Millisecond

// ErrNoLocks is returned where nothing can be locked on a file system: no bytes
// are shared there.
var ErrNoLocks = errors.New("the file system has no locks")

// Lock keeps others from sharing bytes and from taking them away. There must be
// a store.
func Lock(ctx context.Context, scratch string) (unlock func(), err error) {
	store := StoreDir(scratch)
	for deadline := time.Now().Add(lockGrace); ; {
		dir, err := os.Open(store)
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil && isStill(dir, store) {
			return func() { dir.Close() }, nil
		}
		dir.Close()
		switch {
		case HasNoLocks(err):
			return nil, ErrNoLocks
		case err != nil && err != unix.EWOULDBLOCK && err != unix.EINTR:
			return nil, fmt.Errorf("lock %s: %w", store, err)
		case time.Now().After(deadline):
			return nil, fmt.Errorf("lock %s: another podgrade holds it for more than %v: is one stopped?", store, lockGrace)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(lockPause):
		}
	}
}

// isStill tells whether an open directory is the one of that path: a store goes
// with its last layer.
func isStill(dir *os.File, path string) bool {
	var opened, now unix.Stat_t
	return unix.Fstat(int(dir.Fd()), &opened) == nil && unix.Lstat(path, &now) == nil && opened.Ino == now.Ino && opened.Dev == now.Dev
}

// HasNoLocks tells whether an error says that nothing can be locked on a file
// system.
func HasNoLocks(err error) bool {
	return errors.Is(err, unix.ENOLCK) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS)
}
