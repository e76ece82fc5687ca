package tree

import (
	"context"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Marks are what the upper directory of an overlay holds at some time, by
// path.
type Marks map[string]mark

type mark struct {
	id          FileID
	mode        uint32
	owner       Owner
	size        int64
	mtime       unix.Timespec
	attributes  string
	isDirectory bool
}

// Mark notes what is in the upper directory dir now: what was made before a
// command of the cell could change anything.
func Mark(ctx context.Context, dir int) (Marks, error) {
	m := Marks{}
	root, err := rootOf(dir)
	if err == nil {
		err = m.directory(ctx, root)
	}
	return m, err
}

func (m Marks) directory(ctx context.Context, d *directory) error {
	return d.each(ctx, func(base string, st *unix.Stat_t) error {
		found, err := markOf(d, base, st)
		if err != nil {
			return err
		}
		m[d.path(base)] = found
		if !found.isDirectory {
			return nil
		}
		return d.within(base, func(sub *directory) error { return m.directory(ctx, sub) })
	})
}

// Carried are the marks for a copy of a marked directory, made while nothing in
// it changed: of what was still as it was marked then.
func (m Marks) Carried(ctx context.Context, from, to int) (Marks, error) {
	now, err := Mark(ctx, from)
	if err != nil {
		return nil, err
	}
	copied, err := Mark(ctx, to)
	if err != nil {
		return nil, err
	}
	carried := Marks{}
	for path, marked := range m {
		if there, ok := copied[path]; ok && now[path] == marked {
			carried[path] = there
		}
	}
	return carried, nil
}

func markOf(d *directory, base string, st *unix.Stat_t) (mark, error) {
	m := mark{
		id: FileID{st.Dev, st.Ino}, mode: st.Mode, owner: Owner{st.Uid, st.Gid},
		isDirectory: st.Mode&unix.S_IFMT == unix.S_IFDIR,
	}
	if !m.isDirectory {
		m.size, m.mtime = st.Size, st.Mtim
	}
	if kind := st.Mode & unix.S_IFMT; kind != unix.S_IFDIR && kind != unix.S_IFREG {
		return m, nil
	}
	fd, err := openQuietly(d.fd, base, unix.O_RDONLY)
	if err != nil {
		return m, d.fault("open", base, err)
	}
	defer unix.Close(fd)
	m.attributes, err = ownAttributes(fd)
	if err != nil {
		return m, d.fault("read the attributes of", base, err)
	}
	return m, nil
}

// ownAttributes are those that a cell can see, and whether the directory hides
// what is below.
func ownAttributes(fd int) (string, error) {
	attrs, err := attributesOf(fd)
	var text strings.Builder
	for _, a := range attrs {
		overlays := strings.HasPrefix(a.name, overlayPrefix) && !strings.HasPrefix(a.name, escapedPrefix)
		if !overlays || a.name == opaqueXattr || a.name == whiteoutXattr {
			text.WriteString(a.name + "\x00" + string(a.value) + "\x00")
		}
	}
	return text.String(), err
}

// Prune removes from the upper directory dir what is no change: what is still
// as it was marked, directories that hold nothing and are in all but their
// times as below lies (lower is the root of the lower layers together), sockets,
// whose processes are gone, and what derived says is only derived from what lies
// below: regular files, and directories that hold nothing. nil: nothing is.
// Whatever stays keeps its times.
func Prune(ctx context.Context, dir, lower int, made Marks, derived func(path string) bool) (Pruned, error) {
	root, err := rootOf(dir)
	if err != nil {
		return Pruned{}, err
	}
	if derived == nil {
		derived = func(string) bool { return false }
	}
	p := &pruner{ctx: ctx, lower: lower, made: made, derived: derived}
	_, err = p.directory(root)
	return p.pruned, err
}

// Pruned is what Prune took away that was a change.
type Pruned struct {
	// Sockets are absolute paths, at most MaxHazards of them, each cut after
	// MaxHazard bytes.
	Sockets []string
	More    int // beyond the cap
}

func (p *Pruned) socket(path string) {
	if len(p.Sockets) == MaxHazards {
		p.More++
		return
	}
	p.Sockets = append(p.Sockets, cut("/"+path))
}

type pruner struct {
	ctx    context.Context // of the whole walk
	lower  int
	made   Marks
	pruned Pruned

	derived func(path string) bool
}

// directory prunes d, and tells whether it is empty then.
func (p *pruner) directory(d *directory) (empty bool, err error) {
	var before unix.Stat_t
	if err := unix.Fstat(d.fd, &before); err != nil {
		return false, d.fault("stat", "", err)
	}
	left, removed := 0, 0
	err = d.each(p.ctx, func(base string, st *unix.Stat_t) error {
		gone, err := p.entry(d, base, st)
		if gone {
			removed++
		} else {
			left++
		}
		return err
	})
	if err != nil || removed == 0 {
		return left == 0, err
	}
	times := []unix.Timespec{before.Atim, before.Mtim}
	if err := unix.UtimesNanoAt(d.fd, "", times, unix.AT_EMPTY_PATH); err != nil {
		return false, d.fault("set the times of", "", err)
	}
	return left == 0, nil
}

func (p *pruner) entry(d *directory, base string, st *unix.Stat_t) (gone bool, err error) {
	flags := 0
	switch kind := st.Mode & unix.S_IFMT; kind {
	case unix.S_IFDIR:
		var empty bool
		if err := d.within(base, func(sub *directory) error { empty, err = p.directory(sub); return err }); err != nil || !empty {
			return false, err
		}
		flags = unix.AT_REMOVEDIR
		if same, err := p.unchanged(d, base, st); err != nil || !same && !p.derived(d.path(base)) {
			return false, err
		}
	case unix.S_IFSOCK:
		p.pruned.socket(d.path(base))
	default:
		same, err := p.asMarked(d, base, st)
		if err != nil || !same && (kind != unix.S_IFREG || !p.derived(d.path(base))) {
			return false, err
		}
	}
	if err := unix.Unlinkat(d.fd, base, flags); err != nil {
		return false, d.fault("remove", base, err)
	}
	return true, nil
}

func (p *pruner) asMarked(d *directory, base string, st *unix.Stat_t) (bool, error) {
	if len(p.made) == 0 || d.depth >= maxMarkedDepth {
		return false, nil
	}
	marked, known := p.made[d.path(base)]
	if !known {
		return false, nil
	}
	found, err := markOf(d, base, st)
	return found == marked, err
}

// maxMarkedDepth is deeper than anything that podgrade makes in a cell.
const maxMarkedDepth = 64

// unchanged tells whether an empty directory is as it was marked, or as the
// lower layers have it.
func (p *pruner) unchanged(d *directory, base string, st *unix.Stat_t) (bool, error) {
	if same, err := p.asMarked(d, base, st); err != nil || same {
		return same, err
	}
	lower, err := openBelow(p.lower, append(d.parts(""), base))
	if err != nil {
		return false, nil // there is none
	}
	defer unix.Close(lower)
	return sameDirectory(d, base, st, lower)
}

func sameDirectory(d *directory, base string, st *unix.Stat_t, lower int) (bool, error) {
	var below unix.Stat_t
	if err := unix.Fstat(lower, &below); err != nil {
		return false, d.fault("look below at", base, err)
	}
	if below.Mode != st.Mode || below.Uid != st.Uid || below.Gid != st.Gid {
		return false, nil
	}
	fd, err := openQuietly(lower, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return false, d.fault("look below at", base, err)
	}
	defer unix.Close(fd)
	found, err := markOf(d, base, st)
	if err != nil {
		return false, err
	}
	attributes, err := ownAttributes(fd)
	if err != nil {
		return false, d.fault("look below at", base, err)
	}
	return found.attributes == attributes, nil
}

// attributesOf reads the extended attributes of a file, sorted by name.
func attributesOf(fd int) ([]xattr, error) {
	var attrs []xattr
	for _, name := range xattrNames(fd) {
		value := make([]byte, maxXattr)
		size, err := unix.Fgetxattr(fd, name, value)
		if err == unix.ENODATA {
			continue
		}
		if err != nil {
			return nil, err
		}
		attrs = append(attrs, xattr{name, value[:size]})
	}
	slices.SortFunc(attrs, func(a, b xattr) int { return strings.Compare(a.name, b.name) })
	return attrs, nil
}
