package record

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"
)

// rowFiles are what one execution, and the grades of it, put into a row beside
// the record.
var rowFiles = []string{
	ExecuteFile, TaskLog, GradeLog, ContainerLog, GradeCellLog, ExecuteCellFile, GradeCellFile, RowPage,
	ExecuteEnvelope, GradeEnvelope, ClaimFile,
}

// attachedDirs are the directories of a row whose files are drafts at first.
var attachedDirs = []string{CriterionLogs, GradeChanges}

// rowDirs are all directories beside them.
var rowDirs = append([]string{ArtifactsDir, WorkspaceDraft}, attachedDirs...)

// Clear removes what an earlier execution left in the row, the record first:
// a crash in between leaves a row that was not executed, never one without what
// it was. Directories are emptied by empty, whoever owns what is in them; a
// link is removed and not followed. What nobody here has made stays.
func (r *Row) Clear(empty func(dir *os.File) error) error {
	if err := r.root.Remove(TaskFile); err == nil {
		err = syncDir(r.root)
		if err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, name := range rowFiles {
		if err := r.clearFile(name); err != nil {
			return err
		}
	}
	for _, name := range rowDirs {
		if err := r.clearDir(name, empty); err != nil {
			return err
		}
	}
	return nil
}

func (r *Row) clearFile(name string) error {
	if _, err := replaceable(r.root, name); err != nil {
		return err
	}
	if err := r.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (r *Row) clearDir(name string, empty func(*os.File) error) error {
	info, err := r.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.IsDir():
		return r.root.Remove(name)
	}
	dir, err := r.root.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	if opened, err := dir.Stat(); err != nil || !os.SameFile(info, opened) {
		return fmt.Errorf("%s changed while it was opened: %w", name, ErrNotPlain)
	}
	if err := empty(dir); err != nil {
		return err
	}
	return r.root.Remove(name)
}

// Abandoned tells whether an execution began in the row and did not end: there
// is no record, and something else.
func (r *Row) Abandoned() bool {
	for _, name := range slices.Concat(rowDirs, rowFiles) {
		if _, err := r.root.Lstat(name); err == nil {
			return true
		}
	}
	return false
}

// SetAside renames a record that cannot be read, so that nobody takes it for
// one, and a person can look at it.
func (r *Row) SetAside() error {
	if _, err := replaceable(r.root, TaskFile); err != nil {
		return err
	}
	return r.root.Rename(TaskFile, MalformedFile)
}
