package tree

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Fingerprint is what a file system says of a tree without a file of it being
// read: names, identities, sizes, owners, modes, and when each entry was changed
// last. While it stays, the tree has the digest that it had, if it is Sound.
type Fingerprint struct {
	Key    string // SHA-256 of all of that, and of the options
	latest time.Time
	flaw   string
}

// digestForm goes up when Digest is computed in another way.
const digestForm = 2

// settledAfter is how old the last change of a tree is at least, so that no other
// one can have the same time: file systems count in ticks of a few milliseconds.
const settledAfter = 2 * time.Second

// Sound tells whether a digest that was taken of the tree can be told from its
// fingerprint from now on; why is empty then. Nobody but the caller may be able to
// write any of it: who holds a file mapped can change it without its times. And
// the file system must be one that keeps the time of each change itself.
func (f Fingerprint) Sound(now time.Time) (sound bool, why string) {
	switch {
	case f.flaw != "":
		return false, f.flaw
	case now.Sub(f.latest) < settledAfter:
		return false, "it was changed just now"
	}
	return true, ""
}

// FingerprintOf takes the fingerprint of the tree below src, as Digest with the
// same options would walk it.
func FingerprintOf(ctx context.Context, src int, o Options) (Fingerprint, error) {
	p := &printer{ctx: ctx, o: o, sum: sha256.New(), owner: uint32(os.Geteuid())}
	fmt.Fprintf(p.sum, "%d %v\n", digestForm, o.Skip)
	if o.Filter || len(o.Ignore) > 0 {
		p.flaw("it is not looked at as a whole")
	}
	var root unix.Stat_t
	if err := unix.Fstat(src, &root); err != nil {
		return Fingerprint{}, err
	}
	p.device = root.Dev
	if !tellsOfChanges(src) {
		p.flaw("its file system need not tell of a change")
	}
	p.entry(0, "", &root)
	from, err := rootOf(src)
	if err == nil {
		err = p.directory(from)
	}
	p.found.Key = hex.EncodeToString(p.sum.Sum(nil))
	return p.found, err
}

// tellsOfChanges tells whether the kernel itself keeps the times of the file
// system, on this machine and for each change.
func tellsOfChanges(fd int) bool {
	var st unix.Statfs_t
	if unix.Fstatfs(fd, &st) != nil {
		return false
	}
	return slices.Contains([]int64{unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC}, int64(st.Type))
}

// printer takes a fingerprint.
type printer struct {
	ctx    context.Context // of the whole walk
	o      Options
	sum    hash.Hash
	device uint64
	owner  uint32 // whose the tree must be
	found  Fingerprint
}

func (p *printer) flaw(why string) {
	if p.found.flaw == "" {
		p.found.flaw = why
	}
}

func (p *printer) directory(d *directory) error {
	return d.each(p.ctx, func(base string, st *unix.Stat_t) error {
		if st.Mode&unix.S_IFMT == unix.S_IFDIR && slices.Contains(p.o.Skip, FileID{st.Dev, st.Ino}) {
			return nil
		}
		p.entry(d.depth+1, base, st)
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return nil
		}
		return d.within(base, p.directory)
	})
}

func (p *printer) entry(depth int, base string, st *unix.Stat_t) {
	fmt.Fprintf(p.sum, "%d %q %d %d %o %d:%d %d %d %d %d.%09d %d.%09d\n", depth, base, st.Dev, st.Ino, st.Mode, st.Uid, st.Gid, st.Nlink, st.Rdev, st.Size,
		st.Mtim.Sec, st.Mtim.Nsec, st.Ctim.Sec, st.Ctim.Nsec)
	if changed := time.Unix(st.Ctim.Unix()); changed.After(p.found.latest) {
		p.found.latest = changed
	}
	switch {
	case st.Dev != p.device:
		p.flaw("it lies on several file systems")
	case st.Uid != p.owner:
		p.flaw("not all of it is the caller's")
	case st.Mode&unix.S_IFMT != unix.S_IFLNK && st.Mode&0o022 != 0:
		p.flaw("others may write to it")
	}
}
