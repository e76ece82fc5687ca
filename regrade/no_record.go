package regrade

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"podgrade/tasks/record"
)

// triedGrade is what a grade tries.
const triedGrade = "grade"

// withoutRecord says of a directory that was named as a row, and holds no
// record, what it is instead and what to name.
func withoutRecord(tried, dir string) *Error {
	e := &Error{Kind: User, Tried: tried, On: dir, Why: record.ErrNoRecord, Do: "name a row directory: RUN/VARIANT/TASK/NN"}
	above := filepath.Dir(filepath.Dir(filepath.Dir(dir)))
	rows := rowsBelow(dir)
	switch {
	case len(rows) == 1:
		e.Why, e.Do = errors.New("it is a run and not a row"), "name its row: "+filepath.Join(dir, rows[0])
	case rows != nil:
		e.Why = fmt.Errorf("it is a run of %d rows, and not a row", len(rows))
		e.Do = "name one of them, such as " + filepath.Join(dir, rows[0])
	case looksLikeRun(dir):
		e.Why = errors.New("it is a run of which no row has a record yet")
		e.Do = "end it: podgrade run --resume --run-dir " + dir + ", with its task files and options"
	case looksLikeRun(above):
		e.Why = errors.New("it has no record: its row was not executed to the end")
		e.Do = "execute it: podgrade run --resume --run-dir " + above + ", with its task files and options"
	default:
		if run := firstRunIn(dir); run != "" {
			e.Why, e.Do = errors.New("it holds runs, and is neither a run nor a row"), "name one of them, such as "+run
		} else if tried == triedGrade {
			e.Do += "; or grade a tree that no run left by a task file: podgrade evaluate TASK " + dir
		}
	}
	return e
}

// looksLikeRun tells whether a directory holds a file that only a run's has.
func looksLikeRun(dir string) bool {
	for _, name := range []string{record.FingerprintFile, record.RunFile} {
		if info, err := os.Lstat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() {
			return true
		}
	}
	return false
}

// firstRunIn is a run that lies in a directory; "" where there is none.
func firstRunIn(dir string) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	for _, entry := range entries {
		if path := filepath.Join(dir, entry.Name()); entry.IsDir() && looksLikeRun(path) {
			return path
		}
	}
	return ""
}

// notOpened says why a row directory that the operator named cannot be opened.
func notOpened(dir string, why error) *Error {
	e := &Error{Kind: User, Tried: "open the row directory", On: dir, Why: why, Do: "name a directory with a " + record.TaskFile}
	info, err := os.Stat(dir)
	switch {
	case err != nil || !info.Mode().IsRegular():
	case filepath.Base(dir) == record.TaskFile:
		e.Why, e.Do = errors.New("it is the record of a row, and not its directory"), "name the directory: "+filepath.Dir(dir)
	default:
		e.Why, e.Do = errors.New("it is a file"), "name a row or run directory; a task file comes first, and one row or run follows it: podgrade evaluate TASK DIR"
	}
	return e
}

// CheckThere refuses names of nothing before any row is graded: who has mistyped
// one, as that of a task file, may not want the others graded without it.
func CheckThere(paths []string) error {
	for _, path := range paths {
		_, err := os.Stat(path)
		switch {
		case path == "":
			return notOpened(path, record.ErrNoName)
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
			return nothingThere(path, err)
		}
	}
	return nil
}

// CheckNamed looks at all that was named before any of it is graded: a file
// among row directories is a mistake of the command line.
func CheckNamed(dirs []string) error {
	for _, dir := range dirs {
		if info, err := os.Stat(dir); err == nil && !info.IsDir() {
			return notOpened(dir, errors.New("it is no directory"))
		}
	}
	return nil
}

// nothingThere says of a path that leads to nothing what it was meant to be.
func nothingThere(path string, err error) *Error {
	if slices.Contains(taskFileEndings, filepath.Ext(path)) {
		return &Error{Kind: User, Tried: "grade by the task file", On: path, Why: errors.New("there is no such task file"), Do: "name one that is there, and one row or run after it: podgrade evaluate TASK DIR"}
	}
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return notOpened(path, err)
}

// taskFileEndings end the names of task files.
var taskFileEndings = []string{".yaml", ".yml"}
