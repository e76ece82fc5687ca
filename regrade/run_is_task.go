package regrade

import (
	"errors"
	"os"
	"path/filepath"

	"podgrade/tasks/record"
)

// refuseTaskDirOfRun refuses a task directory that is a run's too: the answers and
// verdicts of its rows would be seen by whatever sees the directory. A run below
// the task directory is left out of it instead.
func refuseTaskDirOfRun(dir, run string) error {
	if dir == "" || !isTreeOfRun(dir, run) {
		return nil
	}
	return &Error{Kind: Refused, Tried: "use the task directory", On: dir, Why: errors.New("it is a run directory too, and holds the answers of its rows"),
		Do: "put the task file and what it uses into a directory of their own; a row that is there already is graded with podgrade evaluate " + filepath.Join("THAT_DIRECTORY", "FILE") + " ROW"}
}

func isTreeOfRun(dir, run string) bool {
	info, err := os.Stat(dir)
	if err != nil {
		return false // whoever reads it says so
	}
	if other, err := os.Stat(run); err == nil && os.SameFile(info, other) {
		return true
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false
	}
	defer root.Close()
	return record.HoldsRun(root, ".")
}
