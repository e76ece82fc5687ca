package regrade

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"podgrade/tasks/record"
)

// TestAFullDiskIsToldFromAClosedOne: what helps against one does not against the
// other.
func TestAFullDiskIsToldFromAClosedOne(t *testing.T) {
	for why, full := range map[error]bool{syscall.ENOSPC: true, syscall.EDQUOT: true, syscall.EACCES: false, fs.ErrPermission: false} {
		err := &os.PathError{Op: "write", Path: "task.json", Err: why}
		do, warning := writeRemedy(err, "grade it again"), whyUnwritten(err)
		if strings.Contains(do, "free some space") != full || strings.Contains(do, "writable") == full || !strings.HasSuffix(do, " and grade it again") {
			t.Errorf("%v: %s", why, do)
		}
		if strings.Contains(warning, "free some space") != full || !strings.Contains(warning, why.Error()) {
			t.Errorf("%v: %s", why, warning)
		}
	}
	link := fmt.Errorf("task.json is a symbolic link: %w", record.ErrNotPlain)
	if do := WriteRemedy(link, "/the/run", "try again"); !strings.Contains(do, "move away") || strings.Contains(do, "writable") {
		t.Errorf("%s", do)
	}
}
