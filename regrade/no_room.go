package regrade

import (
	"errors"
	"syscall"

	"podgrade/tasks/record"
)

// isFull tells a write for which the disk, or the user's quota of it, has no
// room: no permission helps there.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// WriteRemedy is the one thing to do about a directory in which a file could not
// be written.
func WriteRemedy(why error, dir, again string) string {
	switch {
	case isFull(why):
		return "free some space on its disk and " + again
	case errors.Is(why, record.ErrNotPlain):
		return "move away what is there in its place, and " + again
	}
	return "make " + dir + " writable and " + again
}

// writeRemedy is that of a row directory.
func writeRemedy(why error, again string) string {
	return WriteRemedy(why, "the row directory", again)
}

// whyUnwritten is why a file was not written, for a warning, with what helps on a
// full disk.
func whyUnwritten(err error) string {
	if isFull(err) {
		return err.Error() + "; free some space on its disk"
	}
	return err.Error()
}
