package tree

import (
	"context"
	"strings"

	"golang.org/x/sys/unix"
)

// Apply changes the root file system dst as the upper directory layer of an
// overlay says, owners and all: for a store that cannot mount it as a layer.
// hollow are the files whose bytes are not in the layer; nil: there are none.
func Apply(ctx context.Context, layer, dst int, hollow Elsewhere) error {
	w := newWalker(ctx, Options{Into: true})
	w.layer, w.elsewhere = true, hollow
	_, err := w.walk(layer, dst)
	return err
}

// hides does what an entry of a layer does that only takes away; done is false
// for every other.
func (w *walker) hides(src, dst *directory, base string, st *unix.Stat_t) (done bool, err error) {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFCHR:
		if st.Rdev != 0 {
			return false, nil
		}
	case unix.S_IFREG:
		if hidden, err := isWhiteoutFile(src, base, st); err != nil || !hidden {
			return false, err
		}
	default:
		return false, nil
	}
	return true, w.vacate(dst, base, true)
}

func isWhiteoutFile(d *directory, base string, st *unix.Stat_t) (bool, error) {
	if st.Size != 0 {
		return false, nil
	}
	fd, err := openQuietly(d.fd, base, unix.O_RDONLY)
	if err != nil {
		return false, d.fault("open", base, err)
	}
	defer unix.Close(fd)
	attrs, err := attributesOf(fd)
	if err != nil {
		return false, d.fault("read the attributes of", base, err)
	}
	return isWhiteout(attrs), nil
}

// vacate removes what is at the place of an entry of a layer; a directory only
// when the entry is none.
func (w *walker) vacate(d *directory, base string, directories bool) error {
	err := unix.Unlinkat(d.fd, base, 0)
	if err == nil || err == unix.ENOENT || err == unix.EISDIR && !directories {
		return nil
	}
	if err != unix.EISDIR {
		return d.fault("remove", base, err)
	}
	err = d.within(base, func(sub *directory) error { return Empty(sub.fd) })
	if err == nil {
		err = unix.Unlinkat(d.fd, base, unix.AT_REMOVEDIR)
	}
	if err != nil {
		return d.fault("remove", base, err)
	}
	return nil
}

// seenAttributes are a file's as a cell sees them: none of the overlay's own.
func seenAttributes(attrs []xattr) []xattr {
	var seen []xattr
	for _, a := range attrs {
		rest, escaped := strings.CutPrefix(a.name, escapedPrefix)
		switch {
		case escaped:
			seen = append(seen, xattr{overlayPrefix + rest, a.value})
		case !strings.HasPrefix(a.name, overlayPrefix):
			seen = append(seen, a)
		}
	}
	return seen
}
