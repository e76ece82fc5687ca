package tree

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// maxXattr is the largest value that Linux file systems keep.
const maxXattr = 64 << 10

// overlayPrefix begins the attributes by which an overlay mounted with userxattr
// hides, redirects and replaces what is in its layers.
const overlayPrefix = "user.overlay."

type xattr struct {
	name  string
	value []byte
}

// xattrs reads the extended attributes of a file, sorted by name, and notes
// them in the digest. Which those are is for the kernel to say: what the
// walking namespace may not see is not copied.
func (w *walker) xattrs(d *directory, src int, base string) []xattr {
	var attrs []xattr
	for _, attr := range xattrNames(src) {
		if strings.HasPrefix(attr, overlayPrefix) {
			w.hazard("overlay attribute", d, base)
		}
		value := make([]byte, maxXattr)
		size, err := unix.Fgetxattr(src, attr, value)
		if err != nil {
			w.hazard(fmt.Sprintf("attribute %q that cannot be read", attr), d, base)
			continue
		}
		attrs = append(attrs, xattr{attr, value[:size]})
	}
	slices.SortFunc(attrs, func(a, b xattr) int { return strings.Compare(a.name, b.name) })
	for _, a := range attrs {
		w.noteBytes([]byte(a.name))
		w.noteBytes(a.value)
	}
	return attrs
}

// xattrNames lists the attributes of a file; none where it has none, or the file
// system keeps none.
func xattrNames(fd int) []string {
	list := make([]byte, 1<<10)
	n, err := unix.Flistxattr(fd, list)
	if err == unix.ERANGE {
		list = make([]byte, maxXattr)
		n, err = unix.Flistxattr(fd, list)
	}
	if err != nil || n == 0 {
		return nil
	}
	return strings.Split(strings.TrimRight(string(list[:n]), "\x00"), "\x00")
}

// setXattrs gives a copy its attributes. One that cannot be set is a hazard,
// not an error: a file system that keeps none still gives a view.
func (w *walker) setXattrs(dst int, d *directory, base string, attrs []xattr) {
	if w.layer {
		attrs = seenAttributes(attrs)
	}
	if w.fill {
		attrs = withoutOverlays(attrs)
	}
	for _, a := range attrs {
		if err := unix.Fsetxattr(dst, a.name, a.value, 0); err != nil {
			w.hazard(fmt.Sprintf("attribute %q left out of the view", a.name), d, base)
		}
	}
}
