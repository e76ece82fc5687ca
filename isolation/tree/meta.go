package tree

import (
	"crypto/sha256"
	"fmt"
	"io/fs"

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
// report has no digest.
func Metadata(src, dst int, o Options) (Report, error) {
	w := &walker{o: o, digest: sha256.New(), links: map[FileID]string{}, dstRoot: dst, meta: true}
	report, err := w.report(w.directory(src, dst, "", 0))
	report.Digest = ""
	if err == nil && len(report.Hazards) > 0 {
		err = fmt.Errorf("%w: %s", errChanged, report.Hazards[0])
	}
	return report, err
}

// standIn makes the new file fd stand for the file name.
func standIn(fd int, name string, size int64) error {
	path := "/" + name
	if len(path) >= unix.PathMax {
		return &fs.PathError{Op: "stand in for", Path: name, Err: unix.ENAMETOOLONG}
	}
	err := unix.Ftruncate(fd, size)
	if err == nil {
		err = unix.Fsetxattr(fd, metacopyXattr, nil, 0)
	}
	if err == nil {
		err = unix.Fsetxattr(fd, redirectXattr, []byte(path), 0)
	}
	if err != nil {
		return &fs.PathError{Op: "stand in for", Path: name, Err: err}
	}
	return nil
}

// Like gives the directory dst, which is ours, the owner, the extended
// attributes, the mode and the times of src, as Copy does with its root.
func Like(src, dst int, o Options) error {
	w := &walker{o: o, digest: sha256.New(), dstRoot: dst}
	var st unix.Stat_t
	if err := unix.Fstat(src, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: ".", Err: err}
	}
	return w.attributes(dst, ".", &st, w.xattrs(src, "."))
}
