package tree

import (
	"archive/tar"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// PackOptions say what of a tree goes into an archive.
type PackOptions struct {
	// Plain is for what nobody's owners matter of, a task directory or the files
	// of a row: files, directories and links, as the caller's own.
	Plain bool `json:"plain,omitempty"`
	// Filter drops .git directories and links that lead out of the tree.
	Filter bool `json:"filter,omitempty"`
	Omission
	// Skip are directories and files that are left out wherever they are met.
	Skip []FileID `json:"skip,omitempty"`
	// Most refuses a larger tree.
	Most Bound `json:"most"`
}

// Packed is what Pack wrote.
type Packed struct {
	Entries int   `json:"entries"` // with the root
	Bytes   int64 `json:"bytes"`   // of regular files, without holes
	// Left are entries that were left out although nobody asked for that:
	// attributes that belong to the host, and, of a plain tree, what is neither
	// file nor directory nor link; at most MaxHazards of them.
	Left []string `json:"left,omitempty"`
}

// Records of an archive of Pack that no other program knows.
const (
	socketRecord = "PODGRADE.socket" // the named pipe is a socket
	sparseRecord = "PODGRADE.sparse" // size of a file of which only the runs of data follow
)

// Pack writes the tree below dir as an archive from which Unpack makes the same
// tree: names, types, modes, owners as the walking namespace sees them, times,
// content, hard links, holes and attributes. The same tree gives the same
// bytes: entries are sorted, and nothing of this host or of the time of writing
// is in them.
func Pack(ctx context.Context, to io.Writer, dir int, o PackOptions) (Packed, error) {
	p := &packer{ctx: ctx, o: o, tar: tar.NewWriter(to), links: map[FileID]string{}, buf: make([]byte, 256<<10)}
	root, err := rootOf(dir)
	if err == nil {
		err = p.directory(root)
	}
	if err == nil {
		err = p.tar.Close()
	}
	return p.packed, err
}

type packer struct {
	ctx    context.Context // of the whole walk
	o      PackOptions
	tar    *tar.Writer
	links  map[FileID]string
	packed Packed
	buf    []byte
	held   []*tar.Header // of directories, until there is something in them
}

// leave notes what is left out.
func (p *packer) leave(what string, d *directory, base string) {
	if len(p.packed.Left) < MaxHazards {
		p.packed.Left = append(p.packed.Left, cut(fmt.Sprintf("%s: %q", what, d.shown(base))))
	}
}

// rootName is the entry of the root itself.
const rootName = "./"

func (p *packer) directory(d *directory) error {
	var st unix.Stat_t
	if err := unix.Fstat(d.fd, &st); err != nil {
		return d.fault("stat", "", err)
	}
	name := rootName
	if d.up != nil {
		name = d.path("") + "/"
	}
	h := p.header(name, tar.TypeDir, &st)
	if err := p.attributes(h, d, d.fd, ""); err != nil {
		return err
	}
	if len(p.o.Only) > 0 && d.up != nil {
		p.held = append(p.held, h)
	} else if err := p.write(d, "", h); err != nil {
		return err
	}
	err := d.each(p.ctx, func(base string, st *unix.Stat_t) error {
		if p.skips(d, base, st) {
			return nil
		}
		return p.entry(d, base, st)
	})
	if n := len(p.held); n > 0 && p.held[n-1] == h {
		p.held = p.held[:n-1]
	}
	return err
}

func (p *packer) skips(d *directory, base string, st *unix.Stat_t) bool {
	kind := st.Mode & unix.S_IFMT
	switch {
	case p.o.omits(base, d.up == nil, kind == unix.S_IFDIR):
		return true
	case p.o.Filter && filtered(d, base, kind):
		return true
	case p.o.NoLinks && kind == unix.S_IFLNK:
		p.leave("link", d, base)
		return true
	}
	return (kind == unix.S_IFDIR || kind == unix.S_IFREG) && slices.Contains(p.o.Skip, FileID{st.Dev, st.Ino})
}

func (p *packer) entry(d *directory, base string, st *unix.Stat_t) error {
	path := d.path(base)
	if len(path) > maxLayerPath {
		return d.fault("pack", base, fmt.Errorf("its path has %d bytes, an archive's have at most %d", len(path), maxLayerPath))
	}
	kind := st.Mode & unix.S_IFMT
	switch kind {
	case unix.S_IFDIR:
		return d.within(base, p.directory)
	case unix.S_IFREG:
		return p.regular(d, base, path, st)
	case unix.S_IFLNK:
		target, err := readlink(d.fd, base)
		if err != nil {
			return d.fault("read link", base, err)
		}
		h := p.header(path, tar.TypeSymlink, st)
		h.Linkname = target
		return p.write(d, base, h)
	}
	if p.o.Plain {
		p.leave("neither file nor directory nor link", d, base)
		return nil
	}
	switch {
	case kind == unix.S_IFIFO:
		return p.write(d, base, p.header(path, tar.TypeFifo, st))
	case kind == unix.S_IFSOCK:
		h := p.header(path, tar.TypeFifo, st)
		h.PAXRecords = map[string]string{socketRecord: "1"}
		return p.write(d, base, h)
	case kind == unix.S_IFCHR && st.Rdev == 0: // the one device that a cell can make
		return p.write(d, base, p.header(path, tar.TypeChar, st))
	}
	return d.fault("pack", base, errors.New("it is a device"))
}

func (p *packer) regular(d *directory, base, path string, listed *unix.Stat_t) error {
	file, st, err := d.open(base)
	if err != nil {
		return err
	}
	defer file.Close()
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Ino != listed.Ino {
		return d.fault("pack", base, errChanged)
	}
	if st.Nlink > 1 && !p.o.Plain {
		id := FileID{st.Dev, st.Ino}
		if first, known := p.links[id]; known {
			h := p.header(path, tar.TypeLink, &st)
			h.Linkname = first
			return p.write(d, base, h)
		}
		p.links[id] = path
	}
	h := p.header(path, tar.TypeReg, &st)
	if err := p.attributes(h, d, int(file.Fd()), base); err != nil {
		return err
	}
	h.Size = st.Size
	sparse := st.Blocks*blockUnit < st.Size
	if sparse {
		if h.Size, err = p.sizeOfRuns(int(file.Fd()), st.Size); err != nil {
			return d.fault("read", base, err)
		}
		if h.PAXRecords == nil {
			h.PAXRecords = map[string]string{}
		}
		h.PAXRecords[sparseRecord] = strconv.FormatInt(st.Size, 10)
	}
	if p.packed.Bytes += h.Size; p.o.Most.Bytes > 0 && p.packed.Bytes > p.o.Most.Bytes {
		return d.fault("pack", base, fmt.Errorf("with it the tree has more than %d MiB", p.o.Most.Bytes>>20))
	}
	if err := p.write(d, base, h); err != nil {
		return err
	}
	if err := p.content(file, &st, h.Size, sparse); err != nil {
		return d.fault("read", base, err)
	}
	return nil
}

// content writes what the header has announced.
func (p *packer) content(file *os.File, st *unix.Stat_t, announced int64, sparse bool) error {
	if sparse {
		err := p.eachRun(int(file.Fd()), st.Size, func(offset int64, data []byte) error {
			announced -= runHeader + int64(len(data))
			return p.writeRun(offset, data)
		})
		if errors.Is(err, tar.ErrWriteTooLong) || err == nil && announced != 0 {
			return errChanged
		}
		return err
	}
	n, err := io.CopyBuffer(p.tar, &readerUntil{p.ctx, io.LimitReader(file, announced)}, p.buf)
	if err == nil && n != announced {
		err = errChanged
	}
	return err
}

// runHeader comes before each run of data in a file with holes: where it lies
// and how long it is, both big endian.
const runHeader = 16

func (p *packer) sizeOfRuns(fd int, size int64) (total int64, err error) {
	err = p.eachRun(fd, size, func(_ int64, data []byte) error {
		total += runHeader + int64(len(data))
		return nil
	})
	return total, err
}

func (p *packer) writeRun(offset int64, data []byte) error {
	var head [runHeader]byte
	binary.BigEndian.PutUint64(head[:8], uint64(offset))
	binary.BigEndian.PutUint64(head[8:], uint64(len(data)))
	if _, err := p.tar.Write(head[:]); err != nil {
		return err
	}
	_, err := p.tar.Write(data)
	return err
}

// eachRun calls f for the runs of blocks that are not all zeros, whether a file
// system keeps the others as holes or not.
func (p *packer) eachRun(fd int, size int64, f func(offset int64, data []byte) error) error {
	for at := nextData(fd, 0, size); at < size; at = nextData(fd, at, size) {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		chunk := p.buf[:min(int64(len(p.buf)), size-at)]
		if err := readFull(fd, chunk, at); err != nil {
			return err
		}
		for offset := int64(0); len(chunk) > 0; {
			n := run(chunk)
			if !isZero(chunk[:min(n, block)]) {
				if err := f(at+offset, chunk[:n]); err != nil {
					return err
				}
			}
			chunk, offset = chunk[n:], offset+int64(n)
		}
		at += min(int64(len(p.buf)), size-at)
	}
	return nil
}

func isZero(b []byte) bool { return string(b) == string(zeros[:len(b)]) }

// header is an entry's, whoever owns it.
func (p *packer) header(path string, kind byte, st *unix.Stat_t) *tar.Header {
	h := &tar.Header{
		Format: tar.FormatPAX, Typeflag: kind, Name: path, Mode: int64(st.Mode & 0o7777),
		Uid: int(st.Uid), Gid: int(st.Gid), ModTime: time.Unix(st.Mtim.Unix()),
	}
	if p.o.Plain {
		h.Uid, h.Gid, h.Mode = 0, 0, h.Mode&0o777
	}
	return h
}

// attributes puts those into a header that travel.
func (p *packer) attributes(h *tar.Header, d *directory, fd int, base string) error {
	if p.o.Plain {
		return nil
	}
	attrs, err := attributesOf(fd)
	if err != nil {
		return d.fault("read the attributes of", base, err)
	}
	for _, a := range attrs {
		if !travels(a.name) {
			p.leave(fmt.Sprintf("attribute %q", a.name), d, base)
			continue
		}
		putXattr(h, a.name, a.value)
	}
	return nil
}

// putXattr puts an attribute into a header.
func putXattr(h *tar.Header, name string, value []byte) {
	if h.PAXRecords == nil {
		h.PAXRecords = map[string]string{}
	}
	if strings.Contains(name, "=") {
		h.PAXRecords[xattrRecord+hex.EncodeToString([]byte(name))] = hex.EncodeToString(value)
		return
	}
	h.PAXRecords[plainXattrRecord+name] = string(value)
}

// plainXattrRecord begins the records of attributes, as other programs write
// them.
const plainXattrRecord = "SCHILY.xattr."

// travels tells whether an attribute is a tree's own, and not its host's.
func travels(name string) bool {
	switch name {
	case capabilityXattr, "system.posix_acl_access", "system.posix_acl_default":
		return true
	}
	return strings.HasPrefix(name, "user.")
}

// write writes a header, and before it those of the directories that it lies in.
func (p *packer) write(d *directory, base string, h *tar.Header) error {
	held := p.held
	p.held = nil
	for _, above := range held {
		if err := p.write(d, base, above); err != nil {
			return err
		}
	}
	if p.packed.Entries++; p.o.Most.Entries > 0 && p.packed.Entries > p.o.Most.Entries {
		return d.fault("pack", base, fmt.Errorf("the tree has more than %d entries", p.o.Most.Entries))
	}
	if err := p.tar.WriteHeader(h); err != nil {
		return d.fault("pack", base, err)
	}
	return nil
}
