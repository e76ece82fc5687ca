package tree

import "golang.org/x/sys/unix"

// SetMaxDepth sets how deep a tree may be.
func SetMaxDepth(depth int) { maxDepth = depth }

// SetUtimes replaces how a copy gets its times.
func SetUtimes(set func(dir int, name string, times []unix.Timespec, flags int) error) {
	setUtimes = set
}
