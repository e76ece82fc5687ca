package tree

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"
)

// What an overlay mounted with userxattr reads of a file that stands for one
// in a data-only layer: that it holds no bytes, and where the bytes are, as a
// path from that layer's root.
const (
	metacopyXattr = overlayPrefix + "metacopy"
	redirectXattr = overlayPrefix + "redirect"
)

// Metadata copies the tree below src into the empty directory dst without the
// bytes of its files: each is a sparse file of its size that tells an overlay
// to find the bytes below src. So owners are given as Copy gives them, at a
// cost that does not depend on how large the files are.
//
// It is for trees without hazards, which Digest tells, and fails for others:
// what an agent set on a file must not be taken for what is set here. The
// report has neither digest.
func Metadata(ctx context.Context, src, dst int, o Options) (Report, error) {
	w := newWalker(ctx, o)
	w.meta = true
	report, err := w.walk(src, dst)
	report.Digest, report.Times = "", ""
	if err == nil && len(report.Hazards) > 0 {
		err = fmt.Errorf("%w: %s", errChanged, report.Hazards[0])
	}
	return report, err
}

// standIn makes the new file fd stand for a file of the tree.
func standIn(fd int, d *directory, base string, size int64) error {
	path := "/" + d.path(base)
	if len(path) >= unix.PathMax {
		return d.fault("stand in for", base, unix.ENAMETOOLONG)
	}
	err := unix.Ftruncate(fd, size)
	if err == nil {
		err = unix.Fsetxattr(fd, metacopyXattr, nil, 0)
	}
	if err == nil {
		err = unix.Fsetxattr(fd, redirectXattr, []byte(path), 0)
	}
	if err != nil {
		return d.fault("stand in for", base, err)
	}
	return nil
}

// Like gives the directory dst, which is ours, the owner, the extended
// attributes, the mode and the times of src, as Copy does with its root.
func Like(src, dst int, o Options) error {
	w := newWalker(context.Background(), o)
	from, err := rootOf(src)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(src, &st); err != nil {
		return from.fault("stat", "", err)
	}
	return w.attributes(dst, from, "", &st, w.xattrs(from, src, ""))
}
