package regrade

import (
	"errors"
	"syscall"
)

// isFull tells a write for which the disk, or the user's quota of it, has no
// room: no permission helps there.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// writeRemedy is the one thing to do about a row directory that takes no file.
func writeRemedy(why error, again string) string {
	if isFull(why) {
		return "free some space on its disk and " + again
	}
	return "make the row directory writable and " + again
}

// whyUnwritten is why a file was not written, for a warning, with what helps on a
// full disk.
func whyUnwritten(err error) string {
	if isFull(err) {
		return err.Error() + "; free some space on its disk"
	}
	return err.Error()
}
