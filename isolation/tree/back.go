package tree

import (
	"context"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// Returned is what GiveBack met that it left as it was.
type Returned struct {
	// Others are entries that belonged to somebody else than the owner, at most
	// MaxHazards of them, each cut after MaxHazard bytes.
	Others []string
	More   int // entries like these beyond the cap
	// Armed are the files with rights of their own, where they were to be
	// counted: a set-user-id or set-group-id bit, or capabilities.
	Armed int
}

// Return says who gives what to whom.
type Return struct {
	From Owner // the image's user
	Root Owner // the image's root
	To   Owner // the caller, who gets what belongs to either of them
	// Arms: files with rights of their own are counted.
	Arms bool
	// Disarm: what the caller gets loses such rights. With those of a file that
	// is root's, whoever can start it is root.
	Disarm bool
}

// GiveBack gives the caller what belongs to the image's user in the tree below
// dir, and dir itself. Modes and times stay as they are, and so does every
// other owner, set-user-id bits and file capabilities, unless Disarm says
// otherwise.
//
// A directory changes hands before it is opened. It goes on after an error,
// and returns the first.
func GiveBack(ctx context.Context, dir int, r Return) (Returned, error) {
	g := &giver{ctx: ctx, Return: r, links: map[FileID]bool{}}
	here, err := g.root(dir)
	if err != nil {
		return g.found, err
	}
	defer unix.Close(here)
	root, err := rootOf(here)
	if err != nil {
		return g.found, err
	}
	g.fail(g.directory(root))
	return g.found, g.err
}

// IsEmpty tells whether there is nothing in a directory.
func IsEmpty(dir int) (bool, error) {
	names, err := readNames(dir)
	return len(names) == 0, err
}

type giver struct {
	Return
	ctx   context.Context // of the whole walk
	links map[FileID]bool // files with several names, met before
	found Returned
	err   error
}

func (g *giver) fail(err error) {
	if g.err == nil {
		g.err = err
	}
}

// root gives the root back, and opens it: dir may only name it.
func (g *giver) root(dir int) (int, error) {
	var st unix.Stat_t
	err := unix.Fstat(dir, &st)
	if to, ours := g.heir(&st); err == nil && ours {
		err = unix.Fchownat(dir, "", to.uid, to.gid, unix.AT_EMPTY_PATH)
	}
	fd := -1
	if err == nil {
		fd, err = openQuietly(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	}
	if err != nil {
		return -1, &fs.PathError{Op: "give back", Path: ".", Err: err}
	}
	return fd, nil
}

func (g *giver) directory(d *directory) error {
	return d.each(g.ctx, func(base string, st *unix.Stat_t) error {
		g.entry(d, base, st)
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return nil
		}
		err := d.within(base, g.directory)
		if d.fd < 0 || g.ctx.Err() != nil {
			return err // there is no way back
		}
		g.fail(err)
		return nil
	})
}

func (g *giver) entry(d *directory, base string, st *unix.Stat_t) {
	if st.Mode&unix.S_IFMT != unix.S_IFDIR && st.Nlink > 1 {
		id := FileID{st.Dev, st.Ino}
		if g.links[id] {
			return
		}
		g.links[id] = true
	}
	g.note(d, base, st)
	if to, ours := g.heir(st); ours {
		if err := g.give(d.fd, base, st, to); err != nil && err != unix.ENOENT {
			g.fail(d.fault("give back", base, err))
		}
	}
}

// note keeps the names of what somebody else owns: a grade cannot tell a file
// of the image's root from the caller's, and the caller may not remove those
// of others.
func (g *giver) note(d *directory, base string, st *unix.Stat_t) {
	if g.Arms && armed(d.fd, base, st) {
		g.found.Armed++
	}
	if st.Uid == g.From.UID {
		return
	}
	if len(g.found.Others) >= MaxHazards {
		g.found.More++
		return
	}
	g.found.Others = append(g.found.Others, fmt.Sprintf("%q of user %d, group %d", d.shown(base), inCell(st.Uid, g.Root.UID), inCell(st.Gid, g.Root.GID)))
}

// inCell is the number that an id had in the cell, whose root is given; an id
// that no cell has is itself.
func inCell(id, root uint32) uint32 {
	if id < root {
		return id
	}
	return id - root
}

// armed tells whether a file has rights of its own.
func armed(dir int, base string, st *unix.Stat_t) bool {
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return false
	}
	if st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
		return true
	}
	size, err := unix.Lgetxattr(fmt.Sprintf("/proc/self/fd/%d/%s", dir, base), capabilityXattr, nil)
	return err == nil && size > 0
}

// heir is who gets an entry; -1 leaves a user or a group as it is.
type heir struct{ uid, gid int }

func (g *giver) heir(st *unix.Stat_t) (to heir, ours bool) {
	to = heir{-1, -1}
	if (st.Uid == g.From.UID || st.Uid == g.Root.UID) && st.Uid != g.To.UID {
		to.uid = int(g.To.UID)
	}
	if (st.Gid == g.From.GID || st.Gid == g.Root.GID) && st.Gid != g.To.GID {
		to.gid = int(g.To.GID)
	}
	return to, to != heir{-1, -1}
}

func (g *giver) give(dir int, base string, st *unix.Stat_t, to heir) error {
	if st.Mode&unix.S_IFMT == unix.S_IFREG {
		return g.giveFile(dir, base, st, to)
	}
	return unix.Fchownat(dir, base, to.uid, to.gid, unix.AT_SYMLINK_NOFOLLOW)
}

// giveFile puts back what the kernel takes from a file that changes hands,
// where it may.
func (g *giver) giveFile(dir int, base string, listed *unix.Stat_t, to heir) error {
	fd, err := openQuietly(dir, base, unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Ino != listed.Ino || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return errChanged
	}
	capability := make([]byte, maxXattr)
	size, capErr := unix.Fgetxattr(fd, capabilityXattr, capability)
	if err := unix.Fchown(fd, to.uid, to.gid); err != nil {
		return err
	}
	if g.Disarm {
		return disarm(fd, &st)
	}
	if st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
		if err := unix.Fchmod(fd, st.Mode&0o7777); err != nil {
			return err
		}
	}
	if capErr == nil {
		return unix.Fsetxattr(fd, capabilityXattr, capability[:size], 0)
	}
	return nil
}

// disarm makes sure that a file has no set-user-id bits and no capabilities:
// the kernel leaves a set-group-id bit without the group's right to execute.
func disarm(fd int, st *unix.Stat_t) error {
	if st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
		if err := unix.Fchmod(fd, st.Mode&0o1777); err != nil {
			return err
		}
	}
	if err := unix.Fremovexattr(fd, capabilityXattr); err != nil && err != unix.ENODATA && err != unix.EOPNOTSUPP {
		return err
	}
	return nil
}

// capabilityXattr holds the capabilities of a file.
const capabilityXattr = "security.capability"
