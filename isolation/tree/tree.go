// Package tree reads and copies directory trees that somebody else made: the
// workspace of an agent, a task directory, an answer key.
//
// Such a tree is hostile until shown otherwise. So it is walked by directory
// descriptors, no symbolic link is ever followed, nothing but regular files is
// opened for reading, and the tree itself is not changed: no mode, no owner,
// and where the kernel lets us not even a time of last access.
//
// It runs in the worker's user namespace, where files of the caller's
// subordinate ids can be read and owners can be given.
package tree

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Report is what a walk found.
type Report struct {
	Entries int   // files, directories, links and the rest, without the root
	Bytes   int64 // of regular files
	// Digest identifies the tree: SHA-256 over every entry in walk order (name,
	// depth, type, mode, owner as seen in the walking namespace, content or link
	// target). Times do not count, and blocks of zeros only by the file's size.
	Digest string
	// Times is SHA-256 over when every entry was changed last, the root too, to the
	// nanosecond. It is apart from Digest, so that a copy which keeps all but its
	// times can be told from another tree. Of last access and of changes to the
	// inode nothing counts: no copy can keep them.
	Times string
	// Hazards name what a view of the tree may show otherwise than the tree
	// itself, at most MaxHazards of them, each cut after MaxHazard bytes.
	Hazards []string
	// Skipped is how many directories were left out because of Options.Skip.
	Skipped int
	// Excluded is how many entries were left out because of Options.Ignore, a
	// directory counting as one.
	Excluded int
}

// MaxHazards caps Report.Hazards, MaxHazard the bytes of each: names are the
// choice of whoever made the tree, and may be as long as it is deep.
const (
	MaxHazards = 20
	MaxHazard  = 1 << 10
)

// Owner is a user and group of the namespace that walks.
type Owner struct{ UID, GID uint32 }

// Options say what to copy, and how.
type Options struct {
	// Give is who gets what belongs to user 0 (the caller), group alike. Other
	// owners are kept.
	Give Owner
	// Filter drops .git directories and symbolic links that lead out of the
	// tree: for what a task brings along.
	Filter bool
	// Ignore are patterns (path.Match) of base names that are left out at every
	// level.
	Ignore []string
	// Into copies into a directory with something in it: directories are merged,
	// other entries replaced.
	Into bool
	// Upper is the upper directory of the overlay whose root src is; 0: there is
	// none. Through an overlay two names of one file may be two files: the upper
	// directory knows.
	Upper int `json:"-"`
	// Skip are directories that are left out wherever they are met.
	Skip []FileID
}

// FileID is a file's identity.
type FileID struct{ Dev, Ino uint64 }

// Copy copies the tree below the directory src into the empty directory dst:
// links, hard links, times, modes, owners, sparse files, extended attributes,
// named pipes and sockets. The root of dst gets the mode, owner and times of
// the root of src.
func Copy(ctx context.Context, src, dst int, o Options) (Report, error) {
	w := newWalker(ctx, o)
	return w.walk(src, dst)
}

// Digest walks the tree below src without copying it.
func Digest(ctx context.Context, src int, o Options) (Report, error) {
	w := newWalker(ctx, o)
	return w.walk(src, noCopy)
}

// noCopy stands for the destination of a walk that has none.
const noCopy = -1

type walker struct {
	ctx      context.Context // of the whole walk: it may take as long as the tree is large
	o        Options
	digest   hash.Hash
	times    hash.Hash
	entries  int
	bytes    int64
	hazards  []string
	skipped  int
	excluded int
	links    map[FileID]first
	buf      []byte
	dstRoot  int  // noCopy: none
	layer    bool // src is an upper directory, see Apply
	meta     bool // the copy has all but the bytes, see Metadata

	elsewhere Elsewhere // of src; nil: it holds all its bytes
	fill      bool      // the copy has nothing but hollow files, see Fill
}

// first is the first name of a file with several.
type first struct {
	dir  *directory // in the source
	base string
}

func newWalker(ctx context.Context, o Options) *walker {
	return &walker{ctx: ctx, o: o, digest: sha256.New(), times: sha256.New(), links: map[FileID]first{}}
}

// Files are read by chunks of chunkSize; most trees have none that is so large.
const (
	chunkSize  = 256 << 10
	firstChunk = 16 << 10
)

// chunk is where the next bytes of a file go, of which so many are left.
func (w *walker) chunk(left int64) []byte {
	n := int(min(left, chunkSize))
	if n > len(w.buf) {
		w.buf = make([]byte, max(n, firstChunk))
	}
	return w.buf[:n]
}

func (w *walker) walk(src, dst int) (Report, error) {
	w.dstRoot = dst
	from, err := rootOf(src)
	var to *directory
	if err == nil && dst != noCopy {
		to, err = rootOf(dst)
	}
	if err != nil {
		return Report{}, err
	}
	return w.report(w.directory(from, to))
}

func (w *walker) report(err error) (Report, error) {
	return Report{Entries: w.entries, Bytes: w.bytes, Digest: hex.EncodeToString(w.digest.Sum(nil)), Times: hex.EncodeToString(w.times.Sum(nil)),
		Hazards: w.hazards, Skipped: w.skipped, Excluded: w.excluded}, err
}

// hazard notes what may look otherwise in the view; what has a place for the
// name, quoted.
func (w *walker) hazard(what string, d *directory, base string) {
	if len(w.hazards) >= MaxHazards {
		return
	}
	w.hazards = append(w.hazards, cut(fmt.Sprintf("%s: %q", what, d.shown(base))))
}

// overflowID is what the kernel shows for an owner or a group that the walking
// namespace has no id for. An overlay cannot write what such an owner has.
const overflowID = 65534

func (w *walker) owners(d *directory, base string, st *unix.Stat_t) {
	if st.Uid == overflowID {
		w.hazard("owner outside of the id map", d, base)
	}
	if st.Gid == overflowID {
		w.hazard("group outside of the id map", d, base)
	}
}

// directory copies what is in src, then gives dst (nil: no copy) the
// attributes of src: last, because copying into it changes its times.
func (w *walker) directory(src, dst *directory) error {
	var st unix.Stat_t
	if err := unix.Fstat(src.fd, &st); err != nil {
		return src.fault("stat", "", err)
	}
	w.note(src, "", &st)
	w.owners(src, "", &st)
	err := src.each(w.ctx, func(base string, st *unix.Stat_t) error { return w.entry(src, dst, base, st) })
	if err != nil {
		return err
	}
	attrs := w.xattrs(src, src.fd, "")
	if dst == nil {
		return nil
	}
	return w.attributes(dst.fd, src, "", &st, attrs)
}

func (w *walker) entry(src, dst *directory, base string, st *unix.Stat_t) error {
	kind := st.Mode & unix.S_IFMT
	if w.fill && !w.fills(src, base, kind) {
		return nil
	}
	if w.o.Filter && filtered(src, base, kind) {
		return nil
	}
	if len(w.o.Ignore) > 0 && ignored(w.o.Ignore, base) {
		w.excluded++
		return nil
	}
	if kind == unix.S_IFDIR && slices.Contains(w.o.Skip, FileID{st.Dev, st.Ino}) {
		w.skipped++
		w.hazard("hidden directory", src, base)
		return nil
	}
	w.entries++
	if w.layer {
		if done, err := w.hides(src, dst, base, st); done || err != nil {
			return err
		}
	}
	if w.o.Into && dst != nil {
		if err := w.vacate(dst, base, kind != unix.S_IFDIR); err != nil {
			return err
		}
	}
	if kind != unix.S_IFDIR {
		w.owners(src, base, st)
	}
	switch kind {
	case unix.S_IFDIR:
		return w.subdirectory(src, dst, base)
	case unix.S_IFREG:
		return w.regular(src, dst, base, st)
	case unix.S_IFLNK:
		return w.symlink(src, dst, base, st)
	}
	return w.special(src, dst, base, st)
}

// gitDir is left out by Options.Filter.
const gitDir = ".git"

// filtered tells what a task's own directory does not bring into a cell.
func filtered(dir *directory, base string, kind uint32) bool {
	if base == gitDir {
		return true
	}
	if kind != unix.S_IFLNK {
		return false
	}
	target, err := readlink(dir.fd, base)
	return err != nil || LeadsOut(path.Join(".", dir.path("")), target)
}

// LeadsOut tells whether a link with this target, lying in the directory dir
// of a tree (slash separated, "." for its root), leads out of the tree.
func LeadsOut(dir, target string) bool {
	if strings.HasPrefix(target, "/") {
		return true
	}
	to := path.Join(dir, target)
	return to == ".." || strings.HasPrefix(to, "../")
}

func (w *walker) subdirectory(src, dst *directory, base string) error {
	return src.within(base, func(from *directory) error {
		if dst == nil {
			return w.directory(from, nil)
		}
		if err := unix.Mkdirat(dst.fd, base, 0o700); err != nil && (err != unix.EEXIST || !w.o.Into) {
			return src.fault("make", base, err)
		}
		return dst.within(base, func(to *directory) error { return w.merged(from, to) })
	})
}

// merged copies one directory into another, which an opaque one of a layer
// empties first.
func (w *walker) merged(src, dst *directory) error {
	if w.layer {
		attrs, err := attributesOf(src.fd)
		if err != nil {
			return src.fault("read the attributes of", "", err)
		}
		if opaque(attrs) {
			if err := Empty(dst.fd); err != nil {
				return dst.fault("empty", "", err)
			}
		}
	}
	return w.directory(src, dst)
}

func (w *walker) symlink(src, dst *directory, base string, st *unix.Stat_t) error {
	target, err := readlink(src.fd, base)
	if err != nil {
		return src.fault("read link", base, err)
	}
	w.note(src, base, st)
	w.noteBytes([]byte(target))
	if dst == nil {
		return nil
	}
	if err := unix.Symlinkat(target, dst.fd, base); err != nil {
		return src.fault("link", base, err)
	}
	return w.place(src, dst, base, st)
}

// special copies named pipes, sockets and devices: they carry no bytes.
func (w *walker) special(src, dst *directory, base string, st *unix.Stat_t) error {
	w.note(src, base, st)
	w.noteBytes(fmt.Appendf(nil, "%d", st.Rdev))
	if kind := st.Mode & unix.S_IFMT; kind == unix.S_IFCHR || kind == unix.S_IFBLK {
		w.hazard("device", src, base)
	}
	if dst == nil {
		return nil
	}
	err := unix.Mknodat(dst.fd, base, st.Mode&(unix.S_IFMT|0o7777), int(st.Rdev))
	if err == unix.EPERM {
		w.hazard("device left out of the view", src, base)
		return nil
	}
	if err != nil {
		return src.fault("make", base, err)
	}
	return w.place(src, dst, base, st)
}

// place sets owner, mode and times of an entry that cannot be opened.
func (w *walker) place(src, dst *directory, base string, st *unix.Stat_t) error {
	err := w.own(st, func(to Owner) error {
		return unix.Fchownat(dst.fd, base, int(to.UID), int(to.GID), unix.AT_SYMLINK_NOFOLLOW)
	})
	if err != nil {
		return src.fault("set the owner of", base, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		// Not a link, and nobody but us can reach dir: nothing to follow.
		if err := unix.Fchmodat(dst.fd, base, st.Mode&0o7777, 0); err != nil {
			return src.fault("set the mode of", base, err)
		}
	}
	return w.setTimes(dst.fd, base, unix.AT_SYMLINK_NOFOLLOW, src, base, st)
}

// attributes sets owner, extended attributes, mode and times of the copy, in
// the order in which none undoes another.
func (w *walker) attributes(dst int, src *directory, base string, st *unix.Stat_t, attrs []xattr) error {
	err := w.own(st, func(to Owner) error { return unix.Fchown(dst, int(to.UID), int(to.GID)) })
	if err != nil {
		return src.fault("set the owner of", base, err)
	}
	w.setXattrs(dst, src, base, attrs)
	if err := unix.Fchmod(dst, st.Mode&0o7777); err != nil {
		return src.fault("set the mode of", base, err)
	}
	return w.setTimes(dst, "", unix.AT_EMPTY_PATH, src, base, st)
}

// own gives the copy its owner. Where the namespace has few ids, one that it
// only shows for others cannot be given: then the image's user owns the copy.
func (w *walker) own(st *unix.Stat_t, chown func(Owner) error) error {
	to := w.owner(st)
	err := chown(to)
	if err != unix.EINVAL {
		return err
	}
	if to.UID == overflowID {
		to.UID = w.o.Give.UID
	}
	if to.GID == overflowID {
		to.GID = w.o.Give.GID
	}
	return chown(to)
}

// owner of the copy: the caller's files go to the image's user.
func (w *walker) owner(st *unix.Stat_t) Owner {
	to := Owner{st.Uid, st.Gid}
	if to.UID == 0 {
		to.UID = w.o.Give.UID
	}
	if to.GID == 0 {
		to.GID = w.o.Give.GID
	}
	return to
}

// note adds an entry's name and attributes to the digest, and when it was changed
// last to that of the times; base is "" for the directory itself. In walk order
// names and depths say what is where.
func (w *walker) note(d *directory, base string, st *unix.Stat_t) {
	depth := d.depth
	if base == "" {
		base = d.base
	} else {
		depth++
	}
	w.noteBytes(fmt.Appendf(nil, "%d %q %o %d:%d ", depth, base, st.Mode, st.Uid, st.Gid))
	fmt.Fprintf(w.times, "%d %q %d.%09d\n", depth, base, st.Mtim.Sec, st.Mtim.Nsec)
}

// noteBytes adds bytes with their length, so that no two trees can run
// together to the same stream.
func (w *walker) noteBytes(b []byte) {
	fmt.Fprintf(w.digest, "%d:", len(b))
	w.digest.Write(b)
}

// readNames lists a directory, sorted bytewise.
func readNames(dir int) ([]string, error) {
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOATIME, 0)
	if err == unix.EPERM {
		fd, err = unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "directory")
	defer f.Close()
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

// openQuietly opens without following a link, without waiting for the other
// end of a pipe, and without touching the time of last access where we may.
func openQuietly(dir int, base string, flags int) (int, error) {
	flags |= unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY
	fd, err := unix.Openat(dir, base, flags|unix.O_NOATIME, 0)
	if err == unix.EPERM {
		fd, err = unix.Openat(dir, base, flags, 0)
	}
	return fd, err
}

func readlink(dir int, base string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir, base, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

var errChanged = errors.New("it changed while it was copied")
