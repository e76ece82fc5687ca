package tree

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// directory is an open directory of a walk, and how it was reached. A hostile
// tree is deeper than a process may have descriptors, so only the last few on
// the way down are held open; the others are opened again on the way up.
type directory struct {
	fd    int // -1: not held open now
	id    FileID
	up    *directory // nil: the root of the walk, whose descriptor is the caller's
	base  string     // its name in up
	depth int
}

// heldOpen is how many directories of one way down are held open.
const heldOpen = 64

// MaxDepth is how deep a tree may be: what a walk needs grows with the depth
// alone. A tree as deep takes its maker minutes.
const MaxDepth = 100_000

var maxDepth = MaxDepth // lowered by a test: making such a tree takes a minute

// ErrTooDeep is returned for a tree deeper than MaxDepth.
var ErrTooDeep = errors.New("the tree is more than 100,000 directories deep")

// errMoved: the directory that we came from is not the parent of the one we
// came to any more.
var errMoved = errors.New("it was moved while it was walked")

func rootOf(fd int) (*directory, error) {
	id, err := idOf(fd)
	if err != nil {
		return nil, &fs.PathError{Op: "stat", Path: ".", Err: err}
	}
	return &directory{fd: fd, id: id}, nil
}

func idOf(fd int) (FileID, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	return FileID{st.Dev, st.Ino}, err
}

// enter goes down into a directory that is in d.
func (d *directory) enter(base string) (*directory, error) {
	if d.depth >= maxDepth {
		return nil, ErrTooDeep
	}
	fd, err := openQuietly(d.fd, base, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, d.fault("open", base, err)
	}
	id, err := idOf(fd)
	if err != nil {
		unix.Close(fd)
		return nil, d.fault("stat", base, err)
	}
	sub := &directory{fd: fd, id: id, up: d, base: base, depth: d.depth + 1}
	sub.closeFarUp()
	return sub, nil
}

func (d *directory) closeFarUp() {
	far := d
	for range heldOpen {
		if far = far.up; far == nil {
			return
		}
	}
	if far.up != nil && far.fd >= 0 {
		unix.Close(far.fd)
		far.fd = -1
	}
}

// leave goes up again. Whoever entered d must leave it, also after an error.
func (d *directory) leave() error {
	var err error
	if d.up.fd < 0 {
		err = d.up.reopen(d.fd)
	}
	unix.Close(d.fd)
	d.fd = -1
	return err
}

func (d *directory) reopen(sub int) error {
	fd, err := openQuietly(sub, "..", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return d.fault("open", "", err)
	}
	if id, err := idOf(fd); err != nil || id != d.id {
		unix.Close(fd)
		return d.fault("go back to", "", errors.Join(errMoved, err))
	}
	d.fd = fd
	return nil
}

// parts are the names on the way from the root to base, or to d itself when
// base is "".
func (d *directory) parts(base string) []string {
	var names []string
	if base != "" {
		names = append(names, base)
	}
	for at := d; at.up != nil; at = at.up {
		names = append(names, at.base)
	}
	slices.Reverse(names)
	return names
}

// path is the way from the root, "" for the root itself.
func (d *directory) path(base string) string { return strings.Join(d.parts(base), "/") }

// shown is a path to tell people, cut where it is long.
func (d *directory) shown(base string) string {
	// Of a deep tree only the end is put together.
	from := d
	for n := len(base); from.up != nil && n <= MaxHazard; from = from.up {
		n += 1 + len(from.base)
	}
	if from.up == nil {
		return cut(d.path(base))
	}
	names := d.parts(base)
	return cut(strings.Join(names[from.depth:], "/"))
}

func cut(name string) string {
	if len(name) <= MaxHazard {
		return name
	}
	return strings.ToValidUTF8(name[:MaxHazard], "") + "..."
}

func (d *directory) fault(op, base string, err error) error {
	name := d.shown(base)
	if name == "" {
		name = "."
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// open opens what is expected to be a regular file, and says what it is.
func (d *directory) open(base string) (*os.File, unix.Stat_t, error) {
	var st unix.Stat_t
	fd, err := openQuietly(d.fd, base, unix.O_RDONLY)
	if err != nil {
		return nil, st, d.fault("open", base, err)
	}
	file := os.NewFile(uintptr(fd), base)
	if err := unix.Fstat(fd, &st); err != nil {
		file.Close()
		return nil, st, d.fault("stat", base, err)
	}
	return file, st, nil
}

// each calls f for every entry of d, sorted bytewise by name, until one fails.
// Entries that are gone since they were listed are passed over.
func (d *directory) each(ctx context.Context, f func(base string, st *unix.Stat_t) error) error {
	names, err := readNames(d.fd)
	if err != nil {
		return d.fault("list", "", err)
	}
	for _, base := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		var st unix.Stat_t
		err := unix.Fstatat(d.fd, base, &st, unix.AT_SYMLINK_NOFOLLOW)
		if err == unix.ENOENT {
			continue
		}
		if err != nil {
			return d.fault("stat", base, err)
		}
		if err := f(base, &st); err != nil {
			return err
		}
	}
	return nil
}

// within goes down into a directory of d, calls f there, and comes back.
func (d *directory) within(base string, f func(sub *directory) error) error {
	sub, err := d.enter(base)
	if err != nil {
		return err
	}
	err = f(sub)
	return errors.Join(err, sub.leave())
}
