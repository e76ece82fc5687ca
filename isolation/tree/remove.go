package tree

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// Empty removes everything in the directory dir, following no link. It is for
// trees that podgrade made and others wrote into: they may be deeper than any
// number of descriptors and hold directories of mode 000. So each directory
// below is first moved up into dir, which takes two descriptors whatever the
// depth, and made ours again where it cannot be read.
//
// It goes on after an error, and returns the first few of them. Two may empty
// one directory at the same time: what the other has removed is removed.
func Empty(dir int) error {
	var r remover
	for {
		names, err := readNames(dir)
		if err != nil {
			return err
		}
		before := r.removed
		for _, n := range names {
			r.entry(dir, n)
		}
		if len(names) == 0 || r.removed == before {
			return errors.Join(r.errs...)
		}
		r.errs = nil // a further round shows what is really left
	}
}

type remover struct {
	removed int // entries removed, or moved up
	moved   int // numbers that were tried for the names of what is moved up
	errs    []error
}

func (r *remover) fail(op, name string, err error) {
	if len(r.errs) < MaxHazards {
		r.errs = append(r.errs, &fs.PathError{Op: op, Path: name, Err: err})
	}
}

// entry removes one entry of dir; the directories in it move up into dir.
func (r *remover) entry(dir int, base string) {
	if r.unlink(dir, base) {
		return
	}
	sub, err := openForRemoval(dir, base)
	if err == unix.ENOENT {
		r.removed++ // by somebody else
		return
	}
	if err != nil {
		r.fail("open", base, err)
		return
	}
	defer unix.Close(sub)
	names, err := readNames(sub)
	if errors.Is(err, unix.ENOENT) {
		r.removed++ // by somebody else, after it was opened
		return
	}
	if err != nil {
		r.fail("list", base, err)
		return
	}
	for _, n := range names {
		if r.unlink(sub, n) {
			continue
		}
		if err := r.moveUp(sub, n, dir); err != nil && !gone(sub, n) {
			r.fail("move", n, err)
			continue
		}
		r.removed++
	}
	if err := unix.Unlinkat(dir, base, unix.AT_REMOVEDIR); err != nil && err != unix.ENOENT {
		r.fail("remove", base, err)
		return
	}
	r.removed++
}

// moveUp moves an entry of sub into dir, under a name that is free there:
// whoever made the tree may have used the names that we use.
func (r *remover) moveUp(sub int, base string, dir int) error {
	for {
		r.moved++
		err := unix.Renameat2(sub, base, dir, fmt.Sprintf("removed-%d", r.moved), unix.RENAME_NOREPLACE)
		if err != unix.EEXIST {
			return err
		}
	}
}

// gone tells whether somebody else has removed an entry, or moved it.
func gone(dir int, base string) bool {
	var st unix.Stat_t
	return unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW) == unix.ENOENT
}

// unlink removes what is no directory, or an empty directory.
func (r *remover) unlink(dir int, base string) bool {
	err := unix.Unlinkat(dir, base, 0)
	if err == unix.EISDIR || err == unix.EPERM {
		err = unix.Unlinkat(dir, base, unix.AT_REMOVEDIR)
	}
	if err != nil && err != unix.ENOENT {
		return false
	}
	r.removed++
	return true
}

func openForRemoval(dir int, base string) (int, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(dir, base, flags, 0)
	if err == unix.EACCES {
		if err := unix.Fchmodat(dir, base, 0o700, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return -1, err
		}
		fd, err = unix.Openat(dir, base, flags, 0)
	}
	return fd, err
}
