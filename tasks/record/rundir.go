package record

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
)

// ErrNotARun: the directory holds neither a run's summary nor row records.
var ErrNotARun = errors.New("it holds neither a run's " + RunFile + " nor row records of a run")

// Bounds of the search for row records: a run without a summary is one that
// was interrupted, and the search is for one record only.
const (
	mostEntries = 200_000
	mostRecords = 1000
	deepest     = highest
)

// RowsOfRun tells whether the directory is that of a run, and how many rows it
// has: by the run's summary, else by the row records that lie where this run
// would have put them (spec/run-record.md 1). ErrNotARun when it is none. A
// directory that merely has a run somewhere below is none.
func RowsOfRun(root *os.Root) (int, error) {
	_, rows, err := readRun(root)
	if err == nil {
		return len(rows), nil
	}
	if n, walkErr := countRows(root); walkErr != nil || n > 0 {
		return n, walkErr
	}
	if errors.Is(err, fs.ErrNotExist) {
		return 0, ErrNotARun
	}
	return 0, fmt.Errorf("%w (%v)", ErrNotARun, err)
}

// countRows counts the records that name the place where they lie.
func countRows(root *os.Root) (rows int, err error) {
	entries, records := 0, 0
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		entries++
		switch {
		case entries > mostEntries || records > mostRecords:
			return fs.SkipAll
		case err != nil && name == ".":
			return err
		case err != nil:
			return fs.SkipDir
		case entry.IsDir() && (ofAgents(entry.Name()) || strings.Count(name, "/") >= deepest):
			return fs.SkipDir
		case entry.Name() != TaskFile:
			return nil
		}
		records++
		if isRowOf(root, path.Dir(name)) {
			rows++
		}
		return nil
	})
	return rows, err
}

// isRowOf tells whether the record in the row directory belongs there.
func isRowOf(root *os.Root, dir string) bool {
	data, err := readPlain(root, path.Join(dir, TaskFile), MaxRecord)
	if err != nil {
		return false
	}
	record, err := Parse(data)
	if err != nil {
		return false
	}
	row := &Row{Dir: dir}
	return Identity{VariantID: record.VariantID, TaskID: record.TaskID, Replicate: row.Replicate()}.String() == dir
}
