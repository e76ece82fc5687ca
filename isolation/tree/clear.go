package tree

import (
	"context"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// ignored tells whether one of the patterns (path.Match) matches a base name.
func ignored(patterns []string, base string) bool {
	for _, p := range patterns {
		if matched, err := path.Match(p, base); err == nil && matched {
			return true
		}
	}
	return false
}

// CheckPatterns refuses what is no pattern.
func CheckPatterns(patterns []string) error {
	for _, p := range patterns {
		if _, err := path.Match(p, ""); err != nil {
			return err
		}
	}
	return nil
}

// Clear removes everything in the directory dir but what o ignores or skips,
// with the directories that lead there.
func Clear(ctx context.Context, dir int, o Options) error {
	root, err := rootOf(dir)
	if err == nil {
		_, err = clearDirectory(ctx, root, o)
	}
	return err
}

// clearDirectory tells whether it left something in d.
func clearDirectory(ctx context.Context, d *directory, o Options) (left bool, err error) {
	err = d.each(ctx, func(base string, st *unix.Stat_t) error {
		isDirectory := st.Mode&unix.S_IFMT == unix.S_IFDIR
		if ignored(o.Ignore, base) || isDirectory && slices.Contains(o.Skip, FileID{st.Dev, st.Ino}) {
			left = true
			return nil
		}
		flags := 0
		if isDirectory {
			flags = unix.AT_REMOVEDIR
			kept := false
			if err := d.within(base, func(sub *directory) (err error) { kept, err = clearDirectory(ctx, sub, o); return err }); err != nil {
				return err
			}
			if kept {
				left = true
				return nil
			}
		}
		if err := unix.Unlinkat(d.fd, base, flags); err != nil && err != unix.ENOENT {
			return d.fault("remove", base, err)
		}
		return nil
	})
	return left, err
}
