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
}

// GiveBack gives to user 0, group 0, who is the caller, what belongs to the
// owner in the tree below dir, and dir itself. Modes, times, set-user-id bits
// and file capabilities stay as they are, and so does every other owner.
//
// A directory changes hands before it is opened. It goes on after an error,
// and returns the first.
func GiveBack(ctx context.Context, dir int, from Owner) (Returned, error) {
	g := &giver{ctx: ctx, from: from, links: map[FileID]bool{}}
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
	ctx   context.Context // of the whole walk
	from  Owner
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
		if err := give(d.fd, base, st, to); err != nil && err != unix.ENOENT {
			g.fail(d.fault("give back", base, err))
		}
	}
}

// note keeps the names of what somebody else owns: a grade cannot tell a file
// of the image's root from the caller's, and the caller may not remove those
// of others.
func (g *giver) note(d *directory, base string, st *unix.Stat_t) {
	if st.Uid == g.from.UID {
		return
	}
	if len(g.found.Others) >= MaxHazards {
		g.found.More++
		return
	}
	g.found.Others = append(g.found.Others, fmt.Sprintf("%q of user %d, group %d", d.shown(base), st.Uid, st.Gid))
}

// heir is who gets an entry; -1 leaves a user or a group as it is.
type heir struct{ uid, gid int }

func (g *giver) heir(st *unix.Stat_t) (to heir, ours bool) {
	to = heir{-1, -1}
	if st.Uid == g.from.UID && st.Uid != 0 {
		to.uid = 0
	}
	if st.Gid == g.from.GID && st.Gid != 0 {
		to.gid = 0
	}
	return to, to != heir{-1, -1}
}

func give(dir int, base string, st *unix.Stat_t, to heir) error {
	if st.Mode&unix.S_IFMT == unix.S_IFREG {
		return giveFile(dir, base, st, to)
	}
	return unix.Fchownat(dir, base, to.uid, to.gid, unix.AT_SYMLINK_NOFOLLOW)
}

// giveFile puts back what the kernel takes from a file that changes hands.
func giveFile(dir int, base string, listed *unix.Stat_t, to heir) error {
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

// capabilityXattr holds the capabilities of a file.
const capabilityXattr = "security.capability"
