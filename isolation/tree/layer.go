package tree

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Layer is what WriteLayer found in the upper directory of an overlay.
type Layer struct {
	Entries int
	Bytes   int64 // of regular files
	// Changed and Deleted are absolute paths, files above all: of directories
	// only those that hold nothing. Both together are capped.
	Changed []string
	Deleted []string
	More    int // paths beyond the cap
	// Sums are of the files that LayerOptions.SumFrom asks for, at most maxSums.
	Sums []FileSum
}

// LayerOptions say what WriteLayer does beside writing.
type LayerOptions struct {
	// Notice is told of every path that is changed, deleted, or a directory that
	// hides all that lies below it, without a slash in front; nil: nobody is told.
	Notice func(path string)
	// SumFrom asks for the sums of files that take so many bytes on the disk, and
	// have as many; 0: of none.
	SumFrom int64
	// Hollow are the files whose bytes are not in the directory; nil: there are
	// none.
	Hollow Elsewhere
}

const (
	// maxPaths caps Layer.Changed and Layer.Deleted together, maxPathBytes
	// their bytes: they cross to the host in one message.
	maxPaths     = 500
	maxPathBytes = 48 << 10
	// maxLayer caps the bytes of a layer's files as a reader sees them: the
	// holes of a file count, because an archive has none.
	maxLayer = 64 << 30
	// maxLayerPath caps a path in a layer, in bytes.
	maxLayerPath = 64 << 10
)

// What an OCI layer has for what an overlay's upper directory says otherwise.
const (
	whiteoutPrefix = ".wh."
	opaqueName     = ".wh..wh..opq"
)

// Attributes of an overlay mounted with userxattr.
const (
	opaqueXattr   = overlayPrefix + "opaque"
	whiteoutXattr = overlayPrefix + "whiteout"
	// escapedPrefix begins what a cell set itself under overlayPrefix.
	escapedPrefix = overlayPrefix + "overlay."
)

// literalRecord marks a file whose own name begins with whiteoutPrefix, so
// that it is not taken for a whiteout. No other program knows the record.
const literalRecord = "PODGRADE.literal"

// xattrRecord holds an attribute in hexadecimal whose name no archive can hold.
const xattrRecord = "PODGRADE.xattr."

// WriteLayer writes the upper directory dir of an overlay as the one archive
// that stands for it: entries sorted by name, nothing of this host or of the
// time of writing in it, whiteouts as OCI layers have them. Of the root itself
// only what it holds counts.
func WriteLayer(ctx context.Context, to io.Writer, dir int, o LayerOptions) (Layer, error) {
	if o.Notice == nil {
		o.Notice = func(string) {}
	}
	l := &layerWriter{ctx: ctx, tar: tar.NewWriter(to), links: map[FileID]string{}, summed: map[string]int{}, o: o}
	root, err := rootOf(dir)
	if err != nil {
		return l.layer, err
	}
	err = root.each(ctx, func(base string, st *unix.Stat_t) error { return l.entry(root, base, st) })
	l.layer.Sums = slices.DeleteFunc(l.layer.Sums, func(f FileSum) bool { return len(f.Paths) == 0 })
	return l.layer, errors.Join(err, l.tar.Close())
}

type layerWriter struct {
	ctx       context.Context // of the whole walk
	tar       *tar.Writer
	links     map[FileID]string
	layer     Layer
	pathBytes int
	summed    map[string]int // where in layer.Sums a file is, by its first name
	o         LayerOptions
}

func (l *layerWriter) changed(list *[]string, path string) {
	if !strings.HasSuffix(path, "/") { // a directory that is there now takes nothing away
		l.o.Notice(path)
	}
	path = cut("/" + path)
	if len(l.layer.Changed)+len(l.layer.Deleted) >= maxPaths || l.pathBytes+len(path) > maxPathBytes {
		l.layer.More++
		return
	}
	l.pathBytes += len(path)
	*list = append(*list, path)
}

func (l *layerWriter) entry(d *directory, base string, st *unix.Stat_t) error {
	path := d.path(base)
	if len(path) > maxLayerPath {
		return d.fault("keep", base, fmt.Errorf("its path has %d bytes, a layer's have at most %d", len(path), maxLayerPath))
	}
	l.layer.Entries++
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return d.within(base, func(sub *directory) error { return l.directory(sub, path, st) })
	case unix.S_IFREG:
		return l.regular(d, base, path)
	case unix.S_IFLNK:
		target, err := readlink(d.fd, base)
		if err != nil {
			return d.fault("read link", base, err)
		}
		l.changed(&l.layer.Changed, path)
		h := l.header(path, tar.TypeSymlink, st)
		h.Linkname = target
		return l.write(d, base, h)
	case unix.S_IFIFO:
		l.changed(&l.layer.Changed, path)
		return l.write(d, base, l.header(path, tar.TypeFifo, st))
	case unix.S_IFCHR:
		if st.Rdev == 0 {
			return l.whiteout(d, base, path)
		}
	}
	return d.fault("keep", base, fmt.Errorf("it is of a type (%o) that no layer has", st.Mode&unix.S_IFMT))
}

func (l *layerWriter) whiteout(d *directory, base, path string) error {
	l.changed(&l.layer.Deleted, path)
	name := strings.TrimSuffix(path, base) + whiteoutPrefix + base
	return l.write(d, base, &tar.Header{Format: tar.FormatPAX, Typeflag: tar.TypeReg, Name: name, ModTime: time.Unix(0, 0)})
}

func (l *layerWriter) directory(d *directory, path string, st *unix.Stat_t) error {
	attrs, err := attributesOf(d.fd)
	if err != nil {
		return d.fault("read the attributes of", "", err)
	}
	h := l.header(path+"/", tar.TypeDir, st)
	if err := addXattrs(h, attrs); err != nil {
		return d.fault("keep", "", err)
	}
	if err := l.write(d, "", h); err != nil {
		return err
	}
	if opaque(attrs) {
		l.o.Notice(path)
		h := &tar.Header{Format: tar.FormatPAX, Typeflag: tar.TypeReg, Name: path + "/" + opaqueName, ModTime: time.Unix(0, 0)}
		if err := l.write(d, "", h); err != nil {
			return err
		}
	}
	before := l.layer.Entries
	err = d.each(l.ctx, func(base string, st *unix.Stat_t) error { return l.entry(d, base, st) })
	if l.layer.Entries == before {
		l.changed(&l.layer.Changed, path+"/")
	}
	return err
}

func (l *layerWriter) regular(d *directory, base, path string) error {
	file, st, err := d.open(base)
	if err != nil {
		return err
	}
	defer file.Close()
	attrs, err := attributesOf(int(file.Fd()))
	if err != nil {
		return d.fault("read the attributes of", base, err)
	}
	if isWhiteout(attrs) && st.Size == 0 {
		return l.whiteout(d, base, path)
	}
	l.changed(&l.layer.Changed, path)
	if st.Nlink > 1 {
		id := FileID{st.Dev, st.Ino}
		if first, known := l.links[id]; known {
			h := l.header(path, tar.TypeLink, &st)
			h.Linkname = first
			l.alsoNamed(first, path)
			return l.write(d, base, h)
		}
		l.links[id] = path
	}
	h := l.header(path, tar.TypeReg, &st)
	h.Size = st.Size
	if err := addXattrs(h, attrs); err != nil {
		return d.fault("keep", base, err)
	}
	if l.layer.Bytes += st.Size; l.layer.Bytes > maxLayer {
		return d.fault("keep", base, fmt.Errorf("with it the changes have more than %d GiB", maxLayer>>30))
	}
	if err := l.write(d, base, h); err != nil {
		return err
	}
	if err := l.bytes(file, path, &st); err != nil {
		return d.fault("read", base, err)
	}
	return nil
}

func (l *layerWriter) header(path string, kind byte, st *unix.Stat_t) *tar.Header {
	h := &tar.Header{
		Format: tar.FormatPAX, Typeflag: kind, Name: path, Mode: int64(st.Mode & 0o7777),
		Uid: int(st.Uid), Gid: int(st.Gid), ModTime: time.Unix(st.Mtim.Unix()),
	}
	if base := path[strings.LastIndex(strings.TrimSuffix(path, "/"), "/")+1:]; strings.HasPrefix(base, whiteoutPrefix) {
		h.PAXRecords = map[string]string{literalRecord: "1"}
	}
	return h
}

func (l *layerWriter) write(d *directory, base string, h *tar.Header) error {
	if err := l.tar.WriteHeader(h); err != nil {
		return d.fault("keep", base, err)
	}
	return nil
}

// readerUntil reads while somebody waits.
type readerUntil struct {
	ctx context.Context
	r   io.Reader
}

func (r *readerUntil) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// addXattrs puts the attributes that a cell sees into a header.
func addXattrs(h *tar.Header, attrs []xattr) error {
	for _, a := range attrs {
		name := a.name
		switch rest, escaped := strings.CutPrefix(name, escapedPrefix); {
		case escaped:
			name = overlayPrefix + rest
		case name == overlayPrefix+"redirect" || name == overlayPrefix+"metacopy":
			return fmt.Errorf("it has the attribute %q, which no layer can say", name)
		case strings.HasPrefix(name, overlayPrefix):
			continue
		}
		putXattr(h, name, a.value)
	}
	return nil
}

func opaque(attrs []xattr) bool {
	for _, a := range attrs {
		if a.name == opaqueXattr {
			return string(a.value) == "y" // "x" says something else
		}
	}
	return false
}

func isWhiteout(attrs []xattr) bool {
	for _, a := range attrs {
		if a.name == whiteoutXattr {
			return true
		}
	}
	return false
}
