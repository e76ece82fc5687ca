package record

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// ErrForeign: a directory that was named for a run holds something else.
var ErrForeign = errors.New("it holds no run, and something else")

// RunFiles are the names of the files that a run consists of beside its rows, at
// its top and above its rows (spec/run-record.md 1).
func RunFiles() []string {
	return []string{
		RunFile, RunPage, VariantFile, VariantPage, ExperimentFile, ExperimentPage,
		ExperimentLog, SuiteFile, SuitePage, JUnitFile, FingerprintFile,
	}
}

// Foreign names what lies in a run directory and is no part of the run, relative
// to it: whoever removes the run would lose it. A directory without anything of the
// run is named as a whole. All that lies in a row directory is the row's.
func Foreign(root *os.Root) ([]string, error) {
	f := &foreign{}
	names, _, err := f.below(root, ".", 0)
	return names, err
}

type foreign struct{ entries int }

// below looks at one directory. own: something of the run lies in it.
func (f *foreign) below(dir *os.Root, name string, depth int) (names []string, own bool, err error) {
	entries, err := listed(dir)
	if err != nil {
		return nil, false, err
	}
	if f.entries += len(entries); f.entries > mostEntries {
		return nil, false, ErrTooMany
	}
	for _, entry := range entries {
		at := path.Join(name, entry.Name())
		switch {
		case isOfRun(entry, depth):
			own = true
		case entry.IsDir() && depth < deepest && !HoldsRun(dir, entry.Name()):
			found, has, err := f.enter(dir, entry.Name(), at, depth+1)
			if err != nil {
				return nil, false, err
			}
			names, own = append(names, found...), own || has
		default:
			names = append(names, at)
		}
	}
	return names, own, nil
}

// isOfRun tells whether an entry is a file of the run, or holds what was imported
// with it.
func isOfRun(entry fs.DirEntry, depth int) bool {
	if entry.IsDir() {
		return depth == 0 && entry.Name() == ImportedDir
	}
	return entry.Type().IsRegular() && (slices.Contains(RunFiles(), entry.Name()) || isDraft(entry.Name()) || entry.Name() == ClaimFile)
}

func (f *foreign) enter(dir *os.Root, base, name string, depth int) (names []string, own bool, err error) {
	next, err := enter(dir, base, existing)
	if err != nil {
		return []string{name}, false, nil // what cannot be looked at is nobody's
	}
	defer next.Close()
	if isRowDir(next, name) {
		return nil, true, nil
	}
	names, own, err = f.below(next, name, depth)
	if err == nil && !own && len(names) > 0 {
		names = []string{name}
	}
	return names, own, err
}

// isRowDir tells whether a directory of a run is that of a row: by its place,
// which ends in a number below variant and task, and by what lies in it.
func isRowDir(dir *os.Root, name string) bool {
	base := path.Base(name)
	if strings.Count(name, "/") < 2 || len(base) < 2 || strings.Trim(base, "0123456789") != "" {
		return false
	}
	row := &Row{root: dir}
	if row.Abandoned() {
		return true
	}
	for _, file := range []string{TaskFile, MalformedFile} {
		if _, err := dir.Lstat(file); err == nil {
			return true
		}
	}
	return false
}

// OnlyARun refuses a directory that holds no run, and something else, which would
// be taken for a part of a run that is begun there: ErrForeign. Where there is
// nothing, there is nothing to refuse.
func OnlyARun(dir string) error {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	if HoldsRun(root, ".") {
		return nil
	}
	if _, err := RowsOfRun(root); err == nil {
		return nil
	}
	names, err := Foreign(root)
	if err != nil {
		return err
	}
	if len(names) > 0 {
		return &ForeignError{Names: names}
	}
	return nil
}

// ForeignError says what was found that belongs to no run. It is ErrForeign.
type ForeignError struct{ Names []string }

// Named lists the first of the names.
func (e *ForeignError) Named() string {
	const most = 5
	if len(e.Names) <= most {
		return strings.Join(e.Names, ", ")
	}
	return strings.Join(e.Names[:most], ", ") + " and more"
}

func (e *ForeignError) Error() string { return ErrForeign.Error() + ": " + e.Named() }

// Unwrap makes it ErrForeign.
func (e *ForeignError) Unwrap() error { return ErrForeign }
