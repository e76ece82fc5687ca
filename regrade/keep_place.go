package regrade

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"podgrade/tasks/record"
)

// openKeeper makes the directory of the row below the operator's, before
// anything starts. What is there is never written over, and nothing is made
// where it must not be.
func (g *grading) openKeeper() (*keeper, error) {
	base := g.options.KeepWrites
	if base == "" {
		return nil, nil
	}
	failed := func(why error, do string) error {
		return &Error{Kind: User, Tried: "keep what is written in", On: base, Why: why, Do: do}
	}
	where, err := resolvedNew(base)
	if err != nil {
		return nil, failed(err, "name a directory that you can write to")
	}
	dir := filepath.Join(where, g.rowIdentity().String())
	if err := g.mayKeep(dir); err != nil {
		return nil, failed(err, "name a directory elsewhere")
	}
	keptDirs.Lock()
	defer keptDirs.Unlock()
	keptDirs.note(dir)
	row, err := makeKept(where, g.rowIdentity())
	if err != nil {
		keptDirs.remove(dir)
		return nil, failed(err, "name a directory that you can write to")
	}
	root, err := openEmpty(row.Dir)
	if err != nil {
		row.Close()
		keptDirs.remove(dir)
		return nil, failed(fmt.Errorf("%s: %w", row.Dir, err), "name a new directory, or remove what an earlier grade kept there")
	}
	return &keeper{row: row, root: root}, nil
}

// resolvedNew is where a directory is, or would be, with all links resolved.
func resolvedNew(name string) (string, error) {
	there, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	for missing := ""; ; {
		resolved, err := filepath.EvalSymlinks(there)
		if err == nil {
			return filepath.Join(resolved, missing), nil
		}
		if !errors.Is(err, fs.ErrNotExist) || filepath.Dir(there) == there {
			return "", err
		}
		there, missing = filepath.Dir(there), filepath.Join(filepath.Base(there), missing)
	}
}

// mayKeep refuses to keep anything in evidence, of this row or another, in what
// commands of a grade are shown, and in what they must not see.
func (g *grading) mayKeep(dir string) error {
	around, err := evidenceAround(dir)
	if err != nil {
		return err
	}
	for _, other := range append(g.hidden(), g.row.Dir, g.workspace, g.accepted.TaskDir(), g.accepted.Reference(), around) {
		if other == "" {
			continue
		}
		if resolved, err := filepath.EvalSymlinks(other); err == nil {
			other = resolved
		}
		if isBelow(dir, other) {
			return fmt.Errorf("it lies in %s, which no grade changes", other)
		}
	}
	return nil
}

// isBelow tells whether a path is a directory or lies in it; both are resolved.
func isBelow(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// evidenceAround is the run or the row in which a directory lies, or would; ""
// when it lies in none.
func evidenceAround(dir string) (string, error) {
	for ; ; dir = filepath.Dir(dir) {
		root, err := os.OpenRoot(dir)
		if err == nil {
			is := record.HoldsRun(root, ".")
			root.Close()
			if is || isRow(dir) {
				return dir, nil
			}
		} else if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			return "", err
		}
		if filepath.Dir(dir) == dir {
			return "", nil
		}
	}
}

func isRow(dir string) bool {
	row, err := record.OpenRow(dir)
	if err != nil {
		return false
	}
	defer row.Close()
	_, _, err = row.Read()
	return err == nil
}

// makeKept makes the directory of a row in one that is resolved.
func makeKept(where string, id record.Identity) (*record.Row, error) {
	if err := os.MkdirAll(where, 0o755); err != nil {
		return nil, err
	}
	if now, err := filepath.EvalSymlinks(where); err != nil || now != where {
		return nil, errors.Join(fmt.Errorf("%s changed while it was made", where), err)
	}
	return record.Create(where, id)
}

// openEmpty opens a directory that holds nothing, and makes that for the files.
func openEmpty(dir string) (*os.Root, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	if err = emptyRoot(root); err == nil {
		err = root.Mkdir(keptFiles, 0o755)
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return root, nil
}

// emptyRoot refuses a directory that holds something.
func emptyRoot(root *os.Root) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	if _, err := dir.Readdirnames(1); !errors.Is(err, io.EOF) {
		return errors.Join(errors.New("it is not empty"), err)
	}
	return nil
}

// keptDirs are the directories of --keep-writes that this process has made: rows
// that are graded side by side share them.
var keptDirs = &madeDirs{made: map[string]bool{}}

type madeDirs struct {
	sync.Mutex
	made map[string]bool
}

// note takes down what has to be made for a directory.
func (m *madeDirs) note(dir string) {
	for ; filepath.Dir(dir) != dir; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			return
		}
		m.made[dir] = true
	}
}

// remove removes a directory, and those above it that it alone was made for.
func (m *madeDirs) remove(dir string) {
	for ; m.made[dir] && (os.Remove(dir) == nil || isGone(dir)); dir = filepath.Dir(dir) {
		delete(m.made, dir)
	}
}

func isGone(dir string) bool {
	_, err := os.Lstat(dir)
	return errors.Is(err, fs.ErrNotExist)
}
