package tree

import (
	"archive/tar"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// UnpackOptions say what an archive may hold.
type UnpackOptions struct {
	// Plain: what Pack wrote with Plain. What is made belongs to the caller, and
	// nobody else may write it.
	Plain bool `json:"plain,omitempty"`
	// Layer: what WriteLayer wrote; it becomes the upper directory of an overlay
	// again.
	Layer bool `json:"layer,omitempty"`
	Omission
	// Most refuses more than this.
	Most Bound `json:"most"`
}

// deepestArchive is how deep a tree an archive may hold. Each level costs the
// walk of each path below it.
const deepestArchive = 10_000

// Unpack makes the tree that an archive of Pack, or of WriteLayer, stands for in
// the empty directory dst, which nobody else may reach meanwhile. The archive
// may come from anybody. So it is taken only in the order in which it is
// written: a directory before what it holds, names ascending. Then no name can
// come twice, and every entry is made in a directory that was made just before,
// by its descriptor: no path is resolved, and no link is followed.
func Unpack(ctx context.Context, from io.Reader, dst int, o UnpackOptions) error {
	root, err := rootOf(dst)
	if err != nil {
		return err
	}
	u := &unpacker{ctx: ctx, o: o, tar: tar.NewReader(&readerUntil{ctx, from}), levels: []level{{dir: root}}, buf: make([]byte, 256<<10)}
	for {
		h, err := u.tar.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = u.entry(h)
		}
		if err != nil {
			return errors.Join(err, u.abandon())
		}
	}
	for len(u.levels) > 0 {
		if err := u.up(); err != nil {
			return errors.Join(err, u.abandon())
		}
	}
	return nil
}

// level is a directory on the way down to where entries are made.
type level struct {
	dir    *directory
	header *tar.Header // nil: it keeps what it has
	last   string      // the last name that was made in it
}

type unpacker struct {
	ctx     context.Context // of the whole walk
	o       UnpackOptions
	tar     *tar.Reader
	levels  []level
	entries int
	bytes   int64
	buf     []byte
}

// wrong refuses an entry.
func wrong(h *tar.Header, format string, args ...any) error {
	return fmt.Errorf("the entry %q %s", cut(h.Name), fmt.Sprintf(format, args...))
}

func (u *unpacker) entry(h *tar.Header) error {
	if err := u.check(h); err != nil {
		return err
	}
	if h.Name == rootName && !u.o.Layer && u.entries == 1 {
		if h.Typeflag != tar.TypeDir {
			return wrong(h, "should be a directory")
		}
		u.levels[0].header = h
		return nil
	}
	base, err := u.to(h)
	if err != nil {
		return err
	}
	if u.o.Layer {
		if done, err := u.hides(h, base); done || err != nil {
			return err
		}
	}
	if err := u.next(h, base); err != nil {
		return err
	}
	if u.unwanted(h, base) {
		return wrong(h, "is none that podgrade packs here")
	}
	if err := u.make(h, base); err != nil {
		return fmt.Errorf("make %q: %w", cut(h.Name), err)
	}
	return nil
}

// check refuses what no archive of ours has.
func (u *unpacker) check(h *tar.Header) error {
	if u.entries++; u.o.Most.Entries > 0 && u.entries > u.o.Most.Entries {
		return fmt.Errorf("it holds more than %d entries", u.o.Most.Entries)
	}
	if u.bytes += h.Size; h.Size < 0 || u.o.Most.Bytes > 0 && u.bytes > u.o.Most.Bytes {
		return fmt.Errorf("its files have more than %d bytes", u.o.Most.Bytes)
	}
	if h.Mode&^0o7777 != 0 || h.Uid < 0 || h.Gid < 0 || h.Size > 0 && h.Typeflag != tar.TypeReg {
		return wrong(h, "has a mode, an owner or a size that no archive of podgrade has")
	}
	for name := range h.PAXRecords {
		if !u.allows(name) {
			return wrong(h, "has the record %q, which no archive of podgrade has", cut(name))
		}
	}
	return nil
}

// allows tells whether an entry may have the record.
func (u *unpacker) allows(name string) bool {
	switch name {
	case "path", "linkpath", "size", "uid", "gid", "mtime":
		return true
	case literalRecord:
		return u.o.Layer
	case socketRecord:
		return !u.o.Layer && !u.o.Plain
	case sparseRecord:
		return !u.o.Layer
	}
	return !u.o.Plain && (strings.HasPrefix(name, plainXattrRecord) || strings.HasPrefix(name, xattrRecord))
}

// to goes to the directory that an entry lies in, which is one on the way to
// the last one, and returns the entry's name in it.
func (u *unpacker) to(h *tar.Header) (base string, err error) {
	name := h.Name
	if h.Typeflag == tar.TypeDir {
		name = strings.TrimSuffix(name, "/")
	}
	if len(name) > maxLayerPath {
		return "", wrong(h, "has a path of %d bytes, the limit is %d", len(name), maxLayerPath)
	}
	parts := strings.Split(name, "/")
	for _, part := range parts {
		if part == "" || part == "." || part == ".." || strings.ContainsRune(part, 0) {
			return "", wrong(h, "has a path that leads elsewhere")
		}
	}
	parents, base := parts[:len(parts)-1], parts[len(parts)-1]
	if len(parents) >= deepestArchive {
		return "", wrong(h, "lies deeper than %d directories", deepestArchive)
	}
	shared := 0
	for shared < len(parents) && shared+1 < len(u.levels) && u.levels[shared+1].dir.base == parents[shared] {
		shared++
	}
	if shared < len(parents) {
		return "", wrong(h, "is out of order: the directory that it lies in does not come before it")
	}
	for len(u.levels) > len(parents)+1 {
		if err := u.up(); err != nil {
			return "", err
		}
	}
	return base, nil
}

// unwanted tells of what Pack leaves out.
func (u *unpacker) unwanted(h *tar.Header, base string) bool {
	return u.o.NoLinks && h.Typeflag == tar.TypeSymlink || u.o.omits(base, len(u.levels) == 1, h.Typeflag == tar.TypeDir)
}

// next refuses a name that does not come after the last one of its directory.
func (u *unpacker) next(h *tar.Header, base string) error {
	top := &u.levels[len(u.levels)-1]
	if top.last != "" && base <= top.last {
		return wrong(h, "is out of order, or comes twice")
	}
	top.last = base
	return nil
}

// up leaves a directory: only now it gets its mode and its times, which what is
// made in it would change.
func (u *unpacker) up() error {
	top := u.levels[len(u.levels)-1]
	u.levels = u.levels[:len(u.levels)-1]
	var err error
	if top.header != nil {
		if err = u.dress(top.dir.fd, top.header); err != nil {
			err = fmt.Errorf("make %q: %w", cut(top.header.Name), err)
		}
	}
	if top.dir.up != nil {
		err = errors.Join(err, top.dir.leave())
	}
	return err
}

// abandon closes what is open.
func (u *unpacker) abandon() error {
	for i := len(u.levels) - 1; i > 0; i-- {
		if fd := u.levels[i].dir.fd; fd >= 0 {
			unix.Close(fd)
		}
	}
	u.levels = nil
	return nil
}

func (u *unpacker) make(h *tar.Header, base string) error {
	d := u.levels[len(u.levels)-1].dir
	switch h.Typeflag {
	case tar.TypeDir:
		if err := unix.Mkdirat(d.fd, base, 0o700); err != nil {
			return err
		}
		sub, err := d.enter(base)
		if err == nil {
			u.levels = append(u.levels, level{dir: sub, header: h})
		}
		return err
	case tar.TypeReg:
		return u.file(d, h, base)
	case tar.TypeSymlink:
		if u.o.Plain && LeadsOut(pathOfDir(d), h.Linkname) {
			return errors.New("it is a link that leads out of its tree")
		}
		if err := unix.Symlinkat(h.Linkname, d.fd, base); err != nil {
			return err
		}
		return u.place(d, h, base)
	}
	if u.o.Plain {
		return errors.New("it is neither a file nor a directory nor a link")
	}
	switch h.Typeflag {
	case tar.TypeLink:
		return u.link(d, h, base)
	case tar.TypeFifo:
		kind := uint32(unix.S_IFIFO)
		if h.PAXRecords[socketRecord] != "" {
			kind = unix.S_IFSOCK
		}
		return u.node(d, h, base, kind)
	case tar.TypeChar:
		if !u.o.Layer && h.Devmajor == 0 && h.Devminor == 0 {
			return u.node(d, h, base, unix.S_IFCHR)
		}
	}
	return errors.New("it is of a type that no tree of podgrade has")
}

// pathOfDir is a directory's path in its tree, "." for the root.
func pathOfDir(d *directory) string {
	if path := d.path(""); path != "" {
		return path
	}
	return "."
}

func (u *unpacker) node(d *directory, h *tar.Header, base string, kind uint32) error {
	if err := unix.Mknodat(d.fd, base, kind|0o600, 0); err != nil {
		return err
	}
	return u.place(d, h, base)
}

// link makes a further name of a file that was made before.
func (u *unpacker) link(d *directory, h *tar.Header, base string) error {
	parts := strings.Split(h.Linkname, "/")
	first := parts[len(parts)-1]
	if len(parts) > deepestArchive {
		return errors.New("its first name lies too deep")
	}
	for _, part := range parts {
		if part == "" || part == "." || part == ".." || strings.ContainsRune(part, 0) {
			return errors.New("its first name leads elsewhere")
		}
	}
	from, err := openBelow(u.levels[0].dir.fd, parts[:len(parts)-1])
	if err != nil {
		return fmt.Errorf("its first name is not there: %w", err)
	}
	defer unix.Close(from)
	var st unix.Stat_t
	if err := unix.Fstatat(from, first, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("its first name is not there: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return errors.New("its first name is no file")
	}
	return unix.Linkat(from, first, d.fd, base, 0)
}

func (u *unpacker) file(d *directory, h *tar.Header, base string) error {
	fd, err := unix.Openat(d.fd, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), base)
	defer file.Close()
	if size := h.PAXRecords[sparseRecord]; size != "" {
		err = u.runs(file, h.Size, size)
	} else {
		_, err = io.CopyBuffer(onlyWriter{file}, u.tar, u.buf)
	}
	if err != nil {
		return err
	}
	return u.dress(fd, h)
}

// onlyWriter keeps a copy from using more of the buffer's file than Write.
type onlyWriter struct{ io.Writer }

// largestSparse is the largest size of a file with holes, in bytes.
const largestSparse = 1 << 44

// runs writes the runs of a file with holes, which must ascend.
func (u *unpacker) runs(file *os.File, left int64, size string) error {
	whole, err := strconv.ParseInt(size, 10, 64)
	if err != nil || whole < 0 || whole > largestSparse {
		return fmt.Errorf("its size with holes is %q", cut(size))
	}
	for end := int64(0); left > 0; {
		var head [runHeader]byte
		if _, err := io.ReadFull(u.tar, head[:]); err != nil {
			return err
		}
		offset, length := int64(binary.BigEndian.Uint64(head[:8])), int64(binary.BigEndian.Uint64(head[8:]))
		left -= runHeader
		if offset < end || length <= 0 || length > left || offset > whole-length {
			return errors.New("its runs of data overlap, or lie outside of it")
		}
		if _, err := file.Seek(offset, io.SeekStart); err != nil {
			return err
		}
		if _, err := io.CopyBuffer(onlyWriter{file}, io.LimitReader(u.tar, length), u.buf); err != nil {
			return err
		}
		end, left = offset+length, left-length
	}
	return file.Truncate(whole)
}

// dress gives what is open its owner, attributes, mode and times, in the order
// in which none undoes another.
func (u *unpacker) dress(fd int, h *tar.Header) error {
	mode := uint32(h.Mode)
	if u.o.Plain {
		mode = mode&0o755 | 0o600
		if h.Typeflag == tar.TypeDir {
			mode |= 0o700
		}
	} else if err := unix.Fchown(fd, h.Uid, h.Gid); err != nil {
		return fmt.Errorf("give it to user %d, group %d: %w", h.Uid, h.Gid, err)
	}
	for _, record := range slices.Sorted(maps.Keys(h.PAXRecords)) {
		name, value, ok, err := xattrOf(record, h.PAXRecords[record])
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if u.o.Layer && strings.HasPrefix(name, overlayPrefix) {
			name = escapedPrefix + strings.TrimPrefix(name, overlayPrefix)
		}
		if err := unix.Fsetxattr(fd, name, []byte(value), 0); err != nil {
			return fmt.Errorf("set its attribute %q: %w", cut(name), err)
		}
	}
	if err := unix.Fchmod(fd, mode); err != nil {
		return err
	}
	return unix.UtimesNanoAt(fd, "", times(h), unix.AT_EMPTY_PATH)
}

// xattrOf reads the record of an attribute; ok is false for another record. An
// attribute that is its host's, and not the tree's, is refused.
func xattrOf(record, text string) (name, value string, ok bool, err error) {
	if hexed, found := strings.CutPrefix(record, xattrRecord); found {
		n, nameErr := hex.DecodeString(hexed)
		v, valueErr := hex.DecodeString(text)
		if err := errors.Join(nameErr, valueErr); err != nil {
			return "", "", false, fmt.Errorf("an attribute cannot be read: %w", err)
		}
		name, value = string(n), string(v)
	} else if name, found = strings.CutPrefix(record, plainXattrRecord); !found {
		return "", "", false, nil
	} else {
		value = text
	}
	if !travels(name) || strings.ContainsRune(name, 0) {
		return "", "", false, fmt.Errorf("its attribute %q is none that travels", cut(name))
	}
	return name, value, true, nil
}

func times(h *tar.Header) []unix.Timespec {
	t := unix.Timespec{Sec: h.ModTime.Unix(), Nsec: int64(h.ModTime.Nanosecond())}
	return []unix.Timespec{t, t}
}

// place sets owner, mode and times of what cannot be opened.
func (u *unpacker) place(d *directory, h *tar.Header, base string) error {
	if !u.o.Plain {
		if err := unix.Fchownat(d.fd, base, h.Uid, h.Gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return fmt.Errorf("give it to user %d, group %d: %w", h.Uid, h.Gid, err)
		}
	}
	if h.Typeflag != tar.TypeSymlink {
		if err := unix.Fchmodat(d.fd, base, uint32(h.Mode), 0); err != nil {
			return err
		}
	}
	return unix.UtimesNanoAt(d.fd, base, times(h), unix.AT_SYMLINK_NOFOLLOW)
}

// hides makes what an overlay's upper directory has for an entry of a layer that
// only takes away; done is false for every other.
func (u *unpacker) hides(h *tar.Header, base string) (done bool, err error) {
	hidden, isWhiteout := strings.CutPrefix(base, whiteoutPrefix)
	if !isWhiteout || h.PAXRecords[literalRecord] != "" {
		return false, nil
	}
	if h.Typeflag != tar.TypeReg || h.Size != 0 {
		return true, wrong(h, "hides something, and should be an empty file")
	}
	top := &u.levels[len(u.levels)-1]
	if base == opaqueName {
		if top.last != "" || top.dir.up == nil {
			return true, wrong(h, "is out of order")
		}
		return true, unix.Fsetxattr(top.dir.fd, opaqueXattr, []byte("y"), 0)
	}
	if hidden == "" || hidden == "." || hidden == ".." {
		return true, wrong(h, "hides what cannot be hidden")
	}
	if err := u.next(h, hidden); err != nil {
		return true, err
	}
	if err := unix.Mknodat(top.dir.fd, hidden, unix.S_IFCHR, 0); err != nil {
		return true, fmt.Errorf("hide %q: %w", cut(hidden), err)
	}
	return true, nil
}
