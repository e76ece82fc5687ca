package regrade

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"podgrade/tasks/record"
)

// Target is a row that is to be graded.
type Target struct {
	Dir   string
	Given *Given // the task it is graded by instead of the recorded one; nil: that
	Err   error  // why it cannot be graded at all
}

// Targets returns the rows that the directories hold: of a row itself, of a run
// those of all its rows that an agent worked in. What is neither is a target
// too, so that its grade says what it is. A row that is named more than once, by
// whatever path, is one target.
func Targets(dirs []string) []Target {
	var targets []Target
	known := map[string]bool{}
	add := func(t Target) {
		at, err := filepath.EvalSymlinks(absolute(t.Dir))
		if err != nil {
			at = t.Dir
		}
		if !known[at] {
			known[at], targets = true, append(targets, t)
		}
	}
	for _, dir := range dirs {
		rows := rowsBelow(dir)
		if rows == nil {
			add(Target{Dir: dir})
			continue
		}
		for _, row := range rows {
			add(Target{Dir: filepath.Join(dir, row), Err: nothingLeft(dir, row)})
		}
	}
	return targets
}

// IsRun tells whether the directory is none of a row, and holds rows.
func IsRun(dir string) bool { return rowsBelow(dir) != nil }

// rowsBelow are the row directories of a run, relative to it; nil for anything
// else.
func rowsBelow(dir string) []string {
	if _, err := os.Lstat(filepath.Join(dir, record.TaskFile)); err == nil {
		return nil
	}
	rows, err := record.RowDirs(dir)
	if err != nil || len(rows) == 0 {
		return nil
	}
	return rows
}

// nothingLeft says why a row of a run has nothing that could be graded: its cell
// was dead or its build failed before an agent worked. Its diagnosis stays.
func nothingLeft(run, dir string) error {
	rec, err := readRowOf(run, dir)
	if err != nil || rec.HasVerdict() || dueOf(rec, true) == dueGrade {
		return nil // the grade itself says what is wrong with a record
	}
	return nothingToGrade(filepath.Join(run, dir), rec, "podgrade run TASKS --run-dir "+run+" --resume --retry error, with the task files of the run")
}

// nothingToGrade is the error of a row that nothing can be graded of.
func nothingToGrade(row string, rec *record.Record, do string) error {
	why := "before an agent worked"
	if rec.Iterations > 0 {
		why = "while its agent worked, by what the host or the set-up did"
	}
	return &Error{Kind: TaskFault, Tried: "grade", On: row,
		Why: fmt.Errorf("it ended as %s %s, so there is nothing to grade", rec.Status, why),
		Do:  "execute it again: " + do}
}

// readRowOf reads the record of a row of a run.
func readRowOf(run, dir string) (*record.Record, error) {
	row, err := record.OpenRowDir(run, dir)
	if err != nil {
		return nil, err
	}
	defer row.Close()
	rec, _, err := row.Read()
	return rec, err
}

// errNoSuchRow is why a task file says nothing about a run.
var errNoSuchRow = errors.New("none of the run's rows is of a task of the file")
