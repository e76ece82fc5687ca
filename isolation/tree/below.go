package tree

import "golang.org/x/sys/unix"

// openBelow opens a directory below root, one part of the way at a time and
// following no link, so that the length of the way does not matter.
func openBelow(root int, parts []string) (int, error) {
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	dir, err := unix.Openat(root, ".", flags, 0)
	if err != nil {
		return -1, err
	}
	for _, part := range parts {
		next, err := unix.Openat(dir, part, flags, 0)
		unix.Close(dir)
		if err != nil {
			return -1, err
		}
		dir = next
	}
	return dir, nil
}
