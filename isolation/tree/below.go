package tree

import (
	"strings"

	"golang.org/x/sys/unix"
)

type placeBelow struct {
	dir  int
	base string
}

// openBelow opens the parent directory of name below root, one part at a time
// and following no link, so that the length of name does not matter.
func openBelow(root int, name string) (placeBelow, error) {
	dir, err := unix.Dup(root)
	if err != nil {
		return placeBelow{}, err
	}
	unix.CloseOnExec(dir)
	for {
		part, rest, more := strings.Cut(name, "/")
		if !more {
			return placeBelow{dir: dir, base: part}, nil
		}
		next, err := unix.Openat(dir, part, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		unix.Close(dir)
		if err != nil {
			return placeBelow{}, err
		}
		dir, name = next, rest
	}
}
