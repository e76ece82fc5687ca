package regrade

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"podgrade/tasks/record"
)

// TestADiskThatFailsIsNoRefusal: the record may be read the next time.
func TestADiskThatFailsIsNoRefusal(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want Kind
	}{
		"an error of the disk":  {&fs.PathError{Op: "read", Path: record.TaskFile, Err: syscall.EIO}, Infrastructure},
		"a server that is gone": {fmt.Errorf("reading: %w", &fs.PathError{Op: "openat", Path: record.TaskFile, Err: syscall.ESTALE}), Infrastructure},
		"somebody else's file":  {&fs.PathError{Op: "openat", Path: record.TaskFile, Err: syscall.EACCES}, Refused},
		"a link":                {fmt.Errorf("task.json is a symbolic link: %w", record.ErrNotPlain), Refused},
		"no JSON":               {fmt.Errorf("%w: line 1", record.ErrJSON), Refused},
		"a field":               {errors.New("the field task_id should be a string"), Refused},
	} {
		if got := kindOfReading(test.err); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}
