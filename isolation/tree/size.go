package tree

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// Bound is how large a tree may be; 0 is no bound.
type Bound struct {
	Entries int   // files, directories, links and the rest, without the root
	Bytes   int64 // that a copy writes: holes do not count
}

// Exceeds tells which part of the bound the tree below src exceeds, in words;
// "": none. It looks at names and sizes only, and no further than it must, so
// that asking costs little beside a copy of the tree.
func Exceeds(ctx context.Context, src int, o Options, b Bound) (string, error) {
	m := measurer{ctx: ctx, skip: o.Skip, filter: o.Filter, bound: b}
	root, err := rootOf(src)
	if err == nil {
		err = m.directory(root)
	}
	if errors.Is(err, errExceeds) {
		return m.text, nil
	}
	return "", err
}

// Size is how large the tree below src is.
func Size(ctx context.Context, src int) (Bound, error) {
	m := measurer{ctx: ctx}
	root, err := rootOf(src)
	if err == nil {
		err = m.directory(root)
	}
	return Bound{Entries: m.entries, Bytes: m.bytes}, err
}

var errExceeds = errors.New("the tree is larger than its bound")

type measurer struct {
	ctx     context.Context // of the whole walk
	skip    []FileID
	filter  bool
	bound   Bound
	entries int
	bytes   int64
	text    string
}

func (m *measurer) directory(d *directory) error {
	return d.each(m.ctx, func(base string, st *unix.Stat_t) error {
		if m.filter && base == gitDir {
			return nil
		}
		kind := st.Mode & unix.S_IFMT
		if kind == unix.S_IFDIR && slices.Contains(m.skip, FileID{st.Dev, st.Ino}) {
			return nil
		}
		if err := m.count(kind, st); err != nil || kind != unix.S_IFDIR {
			return err
		}
		return d.within(base, m.directory)
	})
}

// blockUnit is what st_blocks counts, whatever the file system's own is.
const blockUnit = 512

func (m *measurer) count(kind uint32, st *unix.Stat_t) error {
	m.entries++
	if kind == unix.S_IFREG {
		m.bytes += min(st.Size, st.Blocks*blockUnit)
	}
	switch {
	case m.bound.Entries > 0 && m.entries > m.bound.Entries:
		m.text = fmt.Sprintf("more than %d entries", m.bound.Entries)
	case m.bound.Bytes > 0 && m.bytes > m.bound.Bytes:
		m.text = fmt.Sprintf("more than %d MiB", m.bound.Bytes>>20)
	default:
		return nil
	}
	return errExceeds
}

// SharesBlocks tells whether a copy of a file of src in the directory dst can
// share the file's blocks (reflink). It tries with files of its own in dst,
// where it leaves nothing.
func SharesBlocks(src, dst int) bool {
	var from, to unix.Stat_t
	if unix.Fstat(src, &from) != nil || unix.Fstat(dst, &to) != nil || from.Dev != to.Dev {
		return false
	}
	files := [2]int{-1, -1}
	for i := range files {
		fd, err := unix.Openat(dst, ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return false
		}
		defer unix.Close(fd)
		files[i] = fd
	}
	if _, err := unix.Write(files[0], make([]byte, block)); err != nil {
		return false
	}
	return unix.IoctlFileClone(files[1], files[0]) == nil
}
