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
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
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
	// type, mode, owner as seen in the walking namespace, content or link
	// target). Times do not count, and blocks of zeros only by the file's size.
	Digest string
	// Hazards name what a view of the tree may show otherwise than the tree
	// itself, at most MaxHazards of them, each cut after MaxHazard bytes.
	Hazards []string
	// Skipped is how many directories were left out because of Options.Skip.
	Skipped int
}

// MaxHazards caps Report.Hazards, MaxHazard the bytes of each: names are the
// choice of whoever made the tree, and may be as long as it is deep.
const (
	MaxHazards = 20
	MaxHazard  = 1 << 10
)

// MaxDepth is how deep a tree may be. PATH_MAX does not bound it, because the
// walk uses descriptors, and a hostile tree may be as deep as it likes.
const MaxDepth = 2000

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
	// Skip are directories that are left out wherever they are met.
	Skip []FileID
}

// FileID is a file's identity.
type FileID struct{ Dev, Ino uint64 }

// ErrTooDeep is returned for a tree deeper than MaxDepth.
var ErrTooDeep = fmt.Errorf("the tree is more than %d directories deep", MaxDepth)

// Copy copies the tree below the directory src into the empty directory dst:
// links, hard links, times, modes, owners, sparse files, extended attributes,
// named pipes and sockets. The root of dst gets the mode, owner and times of
// the root of src.
func Copy(src, dst int, o Options) (Report, error) {
	w := &walker{o: o, digest: sha256.New(), links: map[FileID]string{}, buf: make([]byte, 256<<10), dstRoot: dst}
	return w.report(w.directory(src, dst, "", 0))
}

// Digest walks the tree below src without copying it.
func Digest(src int, o Options) (Report, error) {
	w := &walker{o: o, digest: sha256.New(), links: map[FileID]string{}, buf: make([]byte, 256<<10), dstRoot: -1}
	return w.report(w.directory(src, -1, "", 0))
}

type walker struct {
	o       Options
	digest  hash.Hash
	entries int
	bytes   int64
	hazards []string
	skipped int
	links   map[FileID]string // first name of a file with several
	buf     []byte
	dstRoot int  // -1: no copy
	meta    bool // the copy has all but the bytes, see Metadata
}

func (w *walker) report(err error) (Report, error) {
	return Report{Entries: w.entries, Bytes: w.bytes, Digest: hex.EncodeToString(w.digest.Sum(nil)), Hazards: w.hazards, Skipped: w.skipped}, err
}

func (w *walker) hazard(format string, args ...any) {
	if len(w.hazards) >= MaxHazards {
		return
	}
	h := fmt.Sprintf(format, args...)
	if len(h) > MaxHazard {
		h = strings.ToValidUTF8(h[:MaxHazard], "") + "..."
	}
	w.hazards = append(w.hazards, h)
}

// overflowID is what the kernel shows for an owner or a group that the walking
// namespace has no id for. An overlay cannot write what such an owner has.
const overflowID = 65534

func (w *walker) owners(name string, st *unix.Stat_t) {
	if st.Uid == overflowID {
		w.hazard("owner outside of the id map: %q", name)
	}
	if st.Gid == overflowID {
		w.hazard("group outside of the id map: %q", name)
	}
}

// directory copies what is in src, then gives dst the attributes of src: last,
// because copying into it changes its times.
func (w *walker) directory(src, dst int, name string, depth int) error {
	if depth > MaxDepth {
		return ErrTooDeep
	}
	var st unix.Stat_t
	if err := unix.Fstat(src, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	w.note(name, &st)
	w.owners(name, &st)
	names, err := readNames(src)
	if err != nil {
		return &fs.PathError{Op: "list", Path: name, Err: err}
	}
	for _, n := range names {
		if err := w.entry(src, dst, n, path.Join(name, n), depth); err != nil {
			return err
		}
	}
	attrs := w.xattrs(src, name)
	if dst < 0 {
		return nil
	}
	return w.attributes(dst, name, &st, attrs)
}

func (w *walker) entry(srcDir, dstDir int, base, name string, depth int) error {
	var st unix.Stat_t
	if err := unix.Fstatat(srcDir, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		if err == unix.ENOENT {
			return nil // gone since it was listed
		}
		return &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	kind := st.Mode & unix.S_IFMT
	if w.o.Filter && w.filtered(srcDir, base, name, kind) {
		return nil
	}
	if kind == unix.S_IFDIR && slices.Contains(w.o.Skip, FileID{st.Dev, st.Ino}) {
		w.skipped++
		w.hazard("hidden directory: %q", name)
		return nil
	}
	w.entries++
	if kind != unix.S_IFDIR {
		w.owners(name, &st)
	}
	switch kind {
	case unix.S_IFDIR:
		return w.subdirectory(srcDir, dstDir, base, name, depth)
	case unix.S_IFREG:
		return w.regular(srcDir, dstDir, base, name, &st)
	case unix.S_IFLNK:
		return w.symlink(srcDir, dstDir, base, name, &st)
	}
	return w.special(dstDir, base, name, &st)
}

// gitDir is left out by Options.Filter.
const gitDir = ".git"

// filtered tells what a task's own directory does not bring into a cell.
func (w *walker) filtered(dir int, base, name string, kind uint32) bool {
	if base == gitDir {
		return true
	}
	if kind != unix.S_IFLNK {
		return false
	}
	target, err := readlink(dir, base)
	return err != nil || LeadsOut(path.Dir(name), target)
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

func (w *walker) subdirectory(srcDir, dstDir int, base, name string, depth int) error {
	src, err := openQuietly(srcDir, base, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(src)
	dst := -1
	if dstDir >= 0 {
		if err := unix.Mkdirat(dstDir, base, 0o700); err != nil {
			return &fs.PathError{Op: "make", Path: name, Err: err}
		}
		if dst, err = unix.Openat(dstDir, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err != nil {
			return &fs.PathError{Op: "open", Path: name, Err: err}
		}
		defer unix.Close(dst)
	}
	return w.directory(src, dst, name, depth+1)
}

func (w *walker) symlink(srcDir, dstDir int, base, name string, st *unix.Stat_t) error {
	target, err := readlink(srcDir, base)
	if err != nil {
		return &fs.PathError{Op: "read link", Path: name, Err: err}
	}
	w.note(name, st)
	w.noteBytes([]byte(target))
	if dstDir < 0 {
		return nil
	}
	if err := unix.Symlinkat(target, dstDir, base); err != nil {
		return &fs.PathError{Op: "link", Path: name, Err: err}
	}
	return w.place(dstDir, base, name, st)
}

// special copies named pipes, sockets and devices: they carry no bytes.
func (w *walker) special(dstDir int, base, name string, st *unix.Stat_t) error {
	w.note(name, st)
	w.noteBytes(fmt.Appendf(nil, "%d", st.Rdev))
	if kind := st.Mode & unix.S_IFMT; kind == unix.S_IFCHR || kind == unix.S_IFBLK {
		w.hazard("device: %q", name)
	}
	if dstDir < 0 {
		return nil
	}
	err := unix.Mknodat(dstDir, base, st.Mode&(unix.S_IFMT|0o7777), int(st.Rdev))
	if err == unix.EPERM {
		w.hazard("device left out of the view: %q", name)
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "make", Path: name, Err: err}
	}
	return w.place(dstDir, base, name, st)
}

// place sets owner, mode and times of an entry that cannot be opened.
func (w *walker) place(dir int, base, name string, st *unix.Stat_t) error {
	err := w.own(st, func(to Owner) error {
		return unix.Fchownat(dir, base, int(to.UID), int(to.GID), unix.AT_SYMLINK_NOFOLLOW)
	})
	if err != nil {
		return &fs.PathError{Op: "set the owner of", Path: name, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		// Not a link, and nobody but us can reach dir: nothing to follow.
		if err := unix.Fchmodat(dir, base, st.Mode&0o7777, 0); err != nil {
			return &fs.PathError{Op: "set the mode of", Path: name, Err: err}
		}
	}
	times := []unix.Timespec{st.Atim, st.Mtim}
	if err := unix.UtimesNanoAt(dir, base, times, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return &fs.PathError{Op: "set the times of", Path: name, Err: err}
	}
	return nil
}

// attributes sets owner, extended attributes, mode and times of dst, in the
// order in which none undoes another.
func (w *walker) attributes(dst int, name string, st *unix.Stat_t, attrs []xattr) error {
	err := w.own(st, func(to Owner) error { return unix.Fchown(dst, int(to.UID), int(to.GID)) })
	if err != nil {
		return &fs.PathError{Op: "set the owner of", Path: name, Err: err}
	}
	w.setXattrs(dst, name, attrs)
	if err := unix.Fchmod(dst, st.Mode&0o7777); err != nil {
		return &fs.PathError{Op: "set the mode of", Path: name, Err: err}
	}
	return setTimes(dst, name, st)
}

func setTimes(fd int, name string, st *unix.Stat_t) error {
	times := []unix.Timespec{st.Atim, st.Mtim}
	if err := unix.UtimesNanoAt(fd, "", times, unix.AT_EMPTY_PATH); err != nil {
		return &fs.PathError{Op: "set the times of", Path: name, Err: err}
	}
	return nil
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

// note adds an entry's name and attributes to the digest.
func (w *walker) note(name string, st *unix.Stat_t) {
	w.noteBytes(fmt.Appendf(nil, "%q %o %d:%d ", name, st.Mode, st.Uid, st.Gid))
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
