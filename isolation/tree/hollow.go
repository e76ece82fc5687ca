package tree

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// Elsewhere knows the files of an upper directory that are hollow there: holes of
// their size, whose bytes lie elsewhere. A hollow file is so by each of its names.
type Elsewhere interface {
	// Has tells whether the file at a path is hollow.
	Has(path string) bool
	// Below tells whether there is a hollow file below a directory.
	Below(dir string) bool
	// Open opens the bytes of a hollow file.
	Open(path string) (*os.File, error)
}

// Hollow makes a file of an upper directory hollow, if its bytes are those of
// same. All else of the file stays: mode, owner, attributes, times, other names.
func Hollow(ctx context.Context, layer int, name string, same *os.File) (done bool, err error) {
	dir, err := openBelow(layer, strings.Split(path.Dir(name), "/"))
	if err != nil {
		return false, &os.PathError{Op: "open", Path: cut(name), Err: err}
	}
	defer unix.Close(dir)
	fd, err := openQuietly(dir, path.Base(name), unix.O_RDWR)
	if err != nil {
		return false, &os.PathError{Op: "open", Path: cut(name), Err: err}
	}
	file := os.NewFile(uintptr(fd), name)
	defer file.Close()
	equal, err := sameBytes(ctx, file, same)
	if err == nil && equal {
		err = hollow(fd)
	}
	if err != nil {
		return false, &os.PathError{Op: "share the bytes of", Path: cut(name), Err: err}
	}
	return equal, nil
}

// hollow takes a file's bytes away. The kernel takes capabilities and
// set-user-id bits along.
func hollow(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	before, err := attributesOf(fd)
	if err != nil {
		return err
	}
	if err := errors.Join(unix.Ftruncate(fd, 0), unix.Ftruncate(fd, st.Size)); err != nil {
		return err
	}
	after, err := attributesOf(fd)
	if err != nil {
		return err
	}
	for _, a := range missingIn(after, before) {
		if err := unix.Fsetxattr(fd, a.name, a.value, 0); err != nil {
			return err
		}
	}
	if err := unix.Fchmod(fd, st.Mode&0o7777); err != nil {
		return err
	}
	return unix.UtimesNanoAt(fd, "", []unix.Timespec{st.Atim, st.Mtim}, unix.AT_EMPTY_PATH)
}

// missingIn are those of all that a file has no more.
func missingIn(attrs, all []xattr) (gone []xattr) {
	have := map[string]bool{}
	for _, a := range attrs {
		have[a.name] = true
	}
	for _, a := range all {
		if !have[a.name] {
			gone = append(gone, a)
		}
	}
	return gone
}

// sameBytes compares two regular files from their beginnings.
func sameBytes(ctx context.Context, a, b *os.File) (bool, error) {
	one, err := a.Stat()
	if err != nil {
		return false, err
	}
	other, err := b.Stat()
	if err != nil || !one.Mode().IsRegular() || !other.Mode().IsRegular() || one.Size() != other.Size() {
		return false, err
	}
	const chunk = 256 << 10
	left, right := make([]byte, chunk), make([]byte, chunk)
	for at := int64(0); at < one.Size(); at += chunk {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		n := min(chunk, one.Size()-at)
		_, err := io.ReadFull(io.NewSectionReader(a, at, n), left[:n])
		if err == nil {
			_, err = io.ReadFull(io.NewSectionReader(b, at, n), right[:n])
		}
		if err != nil {
			return false, err
		}
		if !bytes.Equal(left[:n], right[:n]) {
			return false, nil
		}
	}
	return true, nil
}

// Fill makes in the empty directory dst what an overlay needs above the upper
// directory layer: its hollow files with their bytes, and the directories on the
// way to them.
func Fill(ctx context.Context, layer, dst int, hollow Elsewhere) error {
	w := newWalker(ctx, Options{})
	w.elsewhere, w.fill = hollow, true
	_, err := w.walk(layer, dst)
	return err
}

// fills tells whether Fill makes an entry.
func (w *walker) fills(d *directory, base string, kind uint32) bool {
	switch kind {
	case unix.S_IFDIR:
		return w.elsewhere.Below(d.path(base))
	case unix.S_IFREG:
		return w.elsewhere.Has(d.path(base))
	}
	return false
}

// bytesOf is the descriptor that the bytes of a file are read from, and what
// closes it again.
func (w *walker) bytesOf(fd int, d *directory, base string) (int, func(), error) {
	if w.elsewhere == nil || !w.elsewhere.Has(d.path(base)) {
		return fd, func() {}, nil
	}
	file, err := w.elsewhere.Open(d.path(base))
	if err != nil {
		return fd, nil, d.fault("read", base, err)
	}
	return int(file.Fd()), func() { file.Close() }, nil
}

// withoutOverlays are attributes without those by which an overlay says what a
// directory does to what is below it.
func withoutOverlays(attrs []xattr) (left []xattr) {
	for _, a := range attrs {
		if !strings.HasPrefix(a.name, overlayPrefix) || strings.HasPrefix(a.name, escapedPrefix) {
			left = append(left, a)
		}
	}
	return left
}
