package record

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
)

// RemoveOthers removes the aggregates of variants and of suites that no row of the
// summary belongs to: those of rows which were there once, and are to be run again.
func RemoveOthers(runDir string, s *Summary) error {
	root, err := os.OpenRoot(runDir)
	if err != nil {
		return err
	}
	defer root.Close()
	var variants, suites []string
	for _, row := range s.Rows {
		variants = append(variants, row.VariantID)
	}
	for _, suite := range s.Suites() {
		suites = append(suites, path.Join(suite.Path()...))
	}
	return errors.Join(
		removeAggregates(root, "*/"+VariantFile, VariantPage, variants),
		removeAggregates(root, "*/*/"+SuiteFile, SuitePage, suites))
}

// removeAggregates removes the files that a pattern finds, each with its page, whose
// directory is none of those that stay.
func removeAggregates(root *os.Root, pattern, page string, stay []string) error {
	names, err := fs.Glob(root.FS(), pattern)
	for _, name := range names {
		dir := path.Dir(name)
		if info, statErr := root.Lstat(name); statErr != nil || !info.Mode().IsRegular() || slices.Contains(stay, dir) {
			continue
		}
		err = errors.Join(err, root.Remove(name))
		if removed := root.Remove(path.Join(dir, page)); !errors.Is(removed, fs.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}
	return err
}
