package tree

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"
)

// Change is how an entry of a view differs from the tree that the view was made
// of.
type Change struct {
	Path   []byte     // from the root; any bytes but NUL
	What   ChangeKind //
	Type   EntryType  // as it is now; of what was deleted, as it was
	Mode   uint32     // permission bits and those beside them
	Size   int64      // of a regular file
	Target []byte     // of a link
}

// ChangeKind is what became of an entry.
type ChangeKind string

// The kinds of changes.
const (
	Created  ChangeKind = "created"
	Modified ChangeKind = "modified"
	Deleted  ChangeKind = "deleted" // with all that was below
)

// EntryType is the kind of an entry.
type EntryType string

// The kinds of entries.
const (
	RegularFile EntryType = "file"
	Directory   EntryType = "directory"
	Link        EntryType = "link"
	Other       EntryType = "other" // pipe, socket, device
)

func typeOf(st *unix.Stat_t) EntryType {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return RegularFile
	case unix.S_IFDIR:
		return Directory
	case unix.S_IFLNK:
		return Link
	}
	return Other
}

// Compare says how a view is compared with its tree.
type Compare struct {
	// Since is when the view was complete: what has had no change of status
	// since is as it was made. No command can set that time back.
	Since unix.Timespec
	// Upper is the upper directory of an overlay, which alone can hold what
	// changed; 0: the view is no overlay.
	Upper int
	// Give is who got the caller's files in the view.
	Give Owner
	// Ignore are patterns of base names that the tree was made without.
	Ignore []string
	// Skip are directories that are left out wherever they are met.
	Skip []FileID
}

// mostCompared caps the bytes of a file that are compared with what it was:
// what is larger, and was touched, counts as modified.
const mostCompared = 256 << 20

// Changes tells found, in the order of a walk with sorted names, what in a view
// is otherwise than in the tree it was made of. open opens a regular file of the
// view; it must be called before found returns. Times alone are no change. The
// view may change while it is walked.
func Changes(ctx context.Context, tree, view int, o Compare, found func(c Change, open func() (int, error)) error) error {
	w := &comparer{ctx: ctx, o: o, found: found}
	was, err := rootOf(tree)
	if err != nil {
		return err
	}
	is, err := rootOf(view)
	if err != nil {
		return err
	}
	var upper *directory
	if o.Upper != 0 {
		if upper, err = rootOf(o.Upper); err != nil {
			return err
		}
	}
	return w.directory(was, is, upper)
}

type comparer struct {
	ctx   context.Context // of the whole walk
	o     Compare
	found func(Change, func() (int, error)) error
}

// directory compares what is in two directories; was is nil where the tree has
// none. upper is the place of is in the upper directory of an overlay, nil where
// there is none.
func (w *comparer) directory(was, is, upper *directory) error {
	names, err := w.names(was, is, upper)
	if err != nil {
		return err
	}
	var own unix.Stat_t
	if err := unix.Fstat(is.fd, &own); err != nil {
		return is.fault("stat", "", err)
	}
	for _, base := range names {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		if err := w.entry(was, is, upper, base, w.touched(&own)); err != nil {
			return err
		}
	}
	return nil
}

// names are those that can have changed.
func (w *comparer) names(was, is, upper *directory) ([]string, error) {
	list := []*directory{is, was}
	if upper != nil && was != nil {
		attrs, err := attributesOf(upper.fd)
		if err != nil {
			return nil, upper.fault("read the attributes of", "", err)
		}
		if list[0] = upper; !opaque(attrs) {
			list = list[:1]
		}
	}
	var names []string
	for _, d := range list {
		if d == nil {
			continue
		}
		more, err := readNames(d.fd)
		if err != nil {
			return nil, d.fault("list", "", err)
		}
		names = append(names, more...)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// touched tells whether an entry can be another than it was made.
func (w *comparer) touched(st *unix.Stat_t) bool {
	if w.o.Upper != 0 || st.Ctim.Sec > w.o.Since.Sec {
		return true
	}
	return st.Ctim.Sec == w.o.Since.Sec && st.Ctim.Nsec >= w.o.Since.Nsec
}

// statIn describes an entry; nil when there is none.
func statIn(d *directory, base string) (*unix.Stat_t, error) {
	if d == nil {
		return nil, nil
	}
	var st unix.Stat_t
	err := unix.Fstatat(d.fd, base, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == unix.ENOENT {
		return nil, nil
	}
	if err != nil {
		return nil, d.fault("stat", base, err)
	}
	return &st, nil
}

// entry compares one entry. shrunk: something may have been taken out of the
// directory.
func (w *comparer) entry(was, is, upper *directory, base string, shrunk bool) error {
	if len(w.o.Ignore) > 0 && ignored(w.o.Ignore, base) {
		return nil
	}
	before, err := statIn(was, base)
	if err != nil {
		return err
	}
	now, err := statIn(is, base)
	switch {
	case err != nil:
		return err
	case now == nil && (before == nil || !shrunk || w.skips(before)):
		return nil
	case now == nil:
		return w.tell(Deleted, is, base, before)
	case w.skips(now) || before != nil && w.skips(before):
		return nil
	case was != nil && before == nil && !w.touched(now):
		return nil // the tree was made without it
	}
	what, err := w.kind(was, is, base, before, now)
	if err == nil && what != "" {
		err = w.tell(what, is, base, now)
	}
	if err != nil || typeOf(now) != Directory {
		return err
	}
	if before != nil && typeOf(before) != Directory {
		before = nil
	}
	return w.below(was, is, upper, base, before)
}

func (w *comparer) skips(st *unix.Stat_t) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFDIR && slices.Contains(w.o.Skip, FileID{st.Dev, st.Ino})
}

// below goes down into a directory of the view, and where there are some into
// those of the tree and of the upper directory.
func (w *comparer) below(was, is, upper *directory, base string, before *unix.Stat_t) error {
	if before == nil {
		return vanished(is.within(base, func(i *directory) error { return w.directory(nil, i, nil) }))
	}
	return vanished(is.within(base, func(i *directory) error {
		return was.within(base, func(b *directory) error {
			if upper == nil {
				return w.directory(b, i, nil)
			}
			changed, err := statIn(upper, base)
			if err != nil || changed == nil || typeOf(changed) != Directory {
				return err // nothing below can have changed
			}
			return upper.within(base, func(u *directory) error { return w.directory(b, i, u) })
		})
	}))
}

// vanished: a directory that a command has just taken away is not looked into.
func vanished(err error) error {
	var failed *fs.PathError
	if errors.As(err, &failed) && failed.Op == "open" && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR)) {
		return nil
	}
	return err
}

// kind says what became of an entry; "": nothing.
func (w *comparer) kind(was, is *directory, base string, before, now *unix.Stat_t) (ChangeKind, error) {
	if before == nil {
		return Created, nil
	}
	if !w.touched(now) {
		return "", nil
	}
	expected := (&walker{o: Options{Give: w.o.Give}}).owner(before)
	if before.Mode != now.Mode || expected != (Owner{now.Uid, now.Gid}) || before.Rdev != now.Rdev {
		return Modified, nil
	}
	same := true
	var err error
	switch typeOf(now) {
	case RegularFile:
		same, err = w.sameContent(was, is, base, before, now)
	case Link:
		var a, b string
		if a, err = readlink(was.fd, base); err == nil {
			b, err = readlink(is.fd, base)
		}
		same = a == b
	}
	if err == unix.ENOENT {
		return "", nil
	}
	if err != nil || same {
		return "", err
	}
	return Modified, nil
}

// sameContent compares two files.
func (w *comparer) sameContent(was, is *directory, base string, before, now *unix.Stat_t) (bool, error) {
	if before.Size != now.Size || now.Size > mostCompared {
		return false, nil
	}
	var files [2]int
	for i, d := range []*directory{was, is} {
		fd, err := openRegular(d, base)
		if errors.Is(err, errChanged) || errors.Is(err, unix.ENOENT) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		defer unix.Close(fd)
		files[i] = fd
	}
	var chunks [2][]byte
	for i := range chunks {
		chunks[i] = make([]byte, min(256<<10, now.Size))
	}
	for at := int64(0); at < now.Size; {
		if err := w.ctx.Err(); err != nil {
			return false, err
		}
		// Where both have a hole there is nothing to read.
		if at = min(nextData(files[0], at, now.Size), nextData(files[1], at, now.Size)); at >= now.Size {
			break
		}
		n := min(int64(len(chunks[0])), now.Size-at)
		for i, fd := range files {
			if err := readFull(fd, chunks[i][:n], at); errors.Is(err, errChanged) {
				return false, nil
			} else if err != nil {
				return false, is.fault("read", base, err)
			}
		}
		if !bytes.Equal(chunks[0][:n], chunks[1][:n]) {
			return false, nil
		}
		at += n
	}
	return true, nil
}

// openRegular opens a regular file, whatever has taken its place meanwhile.
func openRegular(d *directory, base string) (int, error) {
	fd, err := openQuietly(d.fd, base, unix.O_RDONLY)
	if err != nil {
		return -1, d.fault("open", base, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		unix.Close(fd)
		return -1, d.fault("open", base, errors.Join(errChanged, err))
	}
	return fd, nil
}

// tell tells of a change.
func (w *comparer) tell(what ChangeKind, d *directory, base string, st *unix.Stat_t) error {
	c := Change{Path: []byte(d.path(base)), What: what, Type: typeOf(st), Mode: st.Mode & 0o7777}
	switch {
	case what == Deleted:
	case c.Type == RegularFile:
		c.Size = st.Size
	case c.Type == Link:
		if target, err := readlink(d.fd, base); err == nil {
			c.Target = []byte(target)
		}
	}
	return w.found(c, func() (int, error) { return openRegular(d, base) })
}
