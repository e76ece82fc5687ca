package worker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"podgrade/isolation/tree"
)

// A command that finds its disk full fails, whatever it was to show. Where the
// disk is full by somebody else's doing, that failure is no answer.

// Room says whether a disk that a cell's commands write to is full.
type Room struct {
	Full bool   `json:"full,omitempty"`
	Disk string `json:"disk,omitempty"` // a directory on it
	// Own: what the cell's commands wrote would have filled it alone.
	Own bool `json:"own,omitempty"`
}

const (
	// fullBelow is when a disk counts as full, in bytes: a larger write may have
	// failed before, and a smaller one gone on.
	fullBelow = 1 << 20
	// probeSize is what is written to learn of a quota, which no disk tells.
	probeSize = 64 << 10
)

// fairRoom is what a cell must have found free for a full disk to be its own
// commands' doing.
var fairRoom int64 = 64 << 20

// room is what is left of a disk.
type room struct{ bytes, files int64 }

// disk is one that commands write to, as it was before the first of them.
type disk struct {
	at     string // a directory on it
	dev    uint64
	theirs bool // at is the root of a container of Podman, an overlay over the disk
	was    room
}

func roomOf(fd int) (room, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		return room{}, err
	}
	left := room{bytes: math.MaxInt64, files: math.MaxInt64}
	if st.Blocks > 0 { // else it does not say
		left.bytes = int64(min(st.Bavail, math.MaxInt64/uint64(st.Bsize))) * st.Bsize
	}
	if st.Files > 0 {
		left.files = int64(min(st.Ffree, math.MaxInt64))
	}
	return left, nil
}

func (r room) none() bool { return r.bytes < fullBelow || r.files == 0 }

// noteDisk keeps how much room there is on the disk of a directory, the first
// time that it is asked to.
func (c *cell) noteDisk(fd int, d disk) error {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	if err == nil {
		d.was, err = roomOf(fd)
	}
	if err != nil {
		return fmt.Errorf("look at the disk of %s: %w", d.at, err)
	}
	d.dev = st.Dev
	for _, known := range c.disks {
		if known.dev == d.dev || known.theirs && d.theirs {
			return nil
		}
	}
	c.disks = append(c.disks, d)
	return nil
}

// noteScratch does it for what lies in the cell's own directory.
func (c *cell) noteScratch() error {
	return inDirectory(c.dir, func(fd int) error { return c.noteDisk(fd, disk{at: c.dir}) })
}

// roomLeft looks for a disk that is full. The descriptor is of the workspace; the
// request may say where the upper directory of a container of Podman is.
func (c *cell) roomLeft(ctx context.Context, r Request, files []int, answer *Reply) error {
	if len(files) != 1 {
		return errors.New("to look for room needs the workspace")
	}
	answer.Room = &Room{}
	for _, d := range c.disks {
		full, err := c.isFull(d)
		if err != nil || !full {
			continue // one that cannot be asked is not known to be full
		}
		*answer.Room = Room{Full: true, Disk: d.at, Own: c.filled(ctx, d, r, files[0])}
		if d.theirs {
			answer.Room.Disk = r.Upper
		}
		if !answer.Room.Own {
			return nil
		}
	}
	return nil
}

// isFull tells whether a disk is full, also for this user alone.
func (c *cell) isFull(d disk) (full bool, err error) {
	at := d.at
	if d.theirs && c.adopted != nil { // it may be another container by now
		at = fmt.Sprintf("/proc/%d/root", c.adopted.pid)
	}
	err = inDirectory(at, func(fd int) error {
		left, err := roomOf(fd)
		full = err == nil && left.none()
		return err
	})
	if full || err != nil || at != c.dir {
		return full, err
	}
	file, err := os.CreateTemp(c.dir, "room-")
	if err == nil {
		defer os.Remove(file.Name())
		_, err = file.Write(make([]byte, probeSize))
		err = errors.Join(err, file.Close())
	}
	return isFullDisk(err), nil
}

// filled tells whether what the cell's commands wrote to a full disk would have
// filled it had nobody else written to it.
func (c *cell) filled(ctx context.Context, d disk, r Request, workspace int) bool {
	if d.was.bytes < fairRoom {
		return false
	}
	if d.theirs {
		var st unix.Stat_t
		if r.Upper == "" || unix.Stat(r.Upper, &st) != nil {
			return false
		}
		d.dev = st.Dev
	}
	taken, err := c.taken(ctx, d.dev, r.Upper, workspace)
	return err == nil && (taken.Bytes > d.was.bytes-fullBelow || d.was.files != math.MaxInt64 && int64(taken.Entries) >= d.was.files)
}

// taken is what the commands of the cell wrote to a disk, and did not remove.
func (c *cell) taken(ctx context.Context, dev uint64, upper string, workspace int) (taken tree.Bound, err error) {
	if c.mounted {
		upper = c.upper()
	}
	written := []string{upper}
	if v := c.viewed; v != nil {
		written = append(written, v.upper)
		if v.kind == ViewCopy {
			written = append(written, v.dir)
		}
	}
	for _, dir := range written {
		if dir == "" {
			continue
		}
		err = errors.Join(err, inDirectory(dir, func(fd int) error { return addSize(ctx, &taken, fd, dev, 1) }))
	}
	if v := c.viewed; v != nil && v.copied {
		err = errors.Join(err, inDirectory(descriptorPath(workspace), func(fd int) error { return addSize(ctx, &taken, fd, 0, -1) }))
	}
	return taken, err
}

// addSize adds the size of a tree on a disk; 0 is any.
func addSize(ctx context.Context, to *tree.Bound, fd int, dev uint64, sign int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || dev != 0 && st.Dev != dev {
		return err
	}
	size, err := tree.Size(ctx, fd)
	to.Entries += sign * size.Entries
	to.Bytes += int64(sign) * size.Bytes
	return err
}
