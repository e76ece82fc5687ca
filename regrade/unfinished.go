package regrade

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// An archive, or a run directory, gets its name when it is complete. Until then it
// is .NAME.*.tmp beside it, which whoever makes it holds a lock on: so what has
// the name and no lock was left by a podgrade that is dead.

// unfinishedPattern names what becomes a target, as os.CreateTemp reads it.
func unfinishedPattern(target string) string { return "." + filepath.Base(target) + ".*.tmp" }

// begin makes what becomes a target. Whoever takes it for a leftover in the
// instant before it is locked removes it: then another one is made.
func begin(target string, make func(dir, pattern string) (*os.File, error)) (*os.File, error) {
	for range 10 {
		file, err := make(filepath.Dir(target), unfinishedPattern(target))
		if err != nil {
			return nil, err
		}
		// On a file system without locks nobody takes it for a leftover.
		if err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) && hasItsName(file) {
			return file, nil
		}
		file.Close()
	}
	return nil, fmt.Errorf("somebody removes %s as soon as it is there", unfinishedPattern(target))
}

// newDirectory makes a directory with a name of its own, and opens it.
func newDirectory(dir, pattern string) (*os.File, error) {
	name, err := os.MkdirTemp(dir, pattern)
	if err != nil {
		return nil, err
	}
	return os.Open(name)
}

// hasItsName tells whether what is open is what its name leads to.
func hasItsName(file *os.File) bool {
	opened, err := file.Stat()
	if err != nil {
		return false
	}
	now, err := os.Lstat(file.Name())
	return err == nil && os.SameFile(opened, now)
}

// unfinished are the names beside a target, of its kind, that a podgrade gives to
// what is to become it.
func unfinished(target string, dirs bool) []string {
	entries, err := os.ReadDir(filepath.Dir(target))
	if err != nil {
		return nil
	}
	before, after, _ := strings.Cut(unfinishedPattern(filepath.Base(target)), "*")
	var found []string
	for _, e := range entries {
		random, is := strings.CutPrefix(e.Name(), before)
		if random, has := strings.CutSuffix(random, after); is && has && random != "" && strings.Trim(random, "0123456789") == "" &&
			(dirs && e.IsDir() || !dirs && e.Type().IsRegular()) {
			found = append(found, filepath.Join(filepath.Dir(target), e.Name()))
		}
	}
	return found
}

// sweep removes what dead podgrades of this user left beside a target, where a
// lock tells that they are dead. say is told of each.
func sweep(target string, dirs bool, remove func(left *os.File) error, say func(text string)) {
	for _, name := range unfinished(target, dirs) {
		left, err := openUnfinished(name, dirs)
		if err != nil {
			continue // not this user's, or gone
		}
		if unix.Flock(int(left.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil && hasItsName(left) {
			if err := remove(left); err != nil {
				say("what an earlier podgrade left could not be removed: " + err.Error())
			} else {
				say("removed what a podgrade that did not end left: " + name)
			}
		}
		left.Close()
	}
}

// openUnfinished opens what belongs to this user: a file for writing, since over
// NFS nothing else can be locked.
func openUnfinished(name string, dir bool) (*os.File, error) {
	flags := unix.O_RDWR | unix.O_NONBLOCK
	if dir {
		flags = unix.O_RDONLY | unix.O_DIRECTORY
	}
	file, err := os.OpenFile(name, flags|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil || int(st.Uid) != os.Geteuid() {
		file.Close()
		return nil, errors.Join(fs.ErrPermission, err)
	}
	return file, nil
}

// renameNew renames, and never replaces anything.
func renameNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return renameByHand(from, to)
	}
	return err
}

// renameByHand is for a file system that knows no renaming without replacing. A
// directory replaces at most an empty one; a file takes the name by a hard link,
// where there are such.
func renameByHand(from, to string) error {
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.Rename(from, to)
	}
	err = os.Link(from, to)
	if err == nil {
		return os.Remove(from)
	}
	if errors.Is(err, fs.ErrExist) {
		return err
	}
	return renameIntoPlace(from, to)
}

// renameIntoPlace renames a file onto an empty one that is made for it.
func renameIntoPlace(from, to string) error {
	place, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(place.Close(), os.Rename(from, to)); err != nil {
		return errors.Join(err, os.Remove(to))
	}
	return nil
}

// syncParent makes the name of a path last. A test lets it fail.
var syncParent = func(path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
