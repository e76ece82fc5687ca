package tree

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"
)

// CopyFile copies one regular file from a directory into another, with its owner,
// attributes, mode and times, over whatever has its name there.
func CopyFile(ctx context.Context, src, dst int, base string) error {
	w := newWalker(ctx, Options{Into: true})
	from, err := rootOf(src)
	if err != nil {
		return err
	}
	to, err := rootOf(dst)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(src, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return from.fault("stat", base, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return from.fault("copy", base, fmt.Errorf("it is no regular file"))
	}
	if err := w.vacate(to, base, true); err != nil {
		return err
	}
	return w.regular(from, to, base, &st)
}
