package record

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Errors of Rebuild.
var (
	ErrNoRows    = errors.New("it holds no readable row record")
	ErrIsRow     = errors.New("it is a row directory, not a run")
	ErrInsideRun = errors.New("it lies inside of a run")
	ErrTooMany   = fmt.Errorf("it holds more than %d files and directories", mostEntries)
)

// Dropped is a record that a rebuild could not use, and why.
type Dropped struct {
	Path string // relative to the run directory
	Why  error
}

// Rebuild makes the summary of a run anew from the records on the disk
// (spec/run-record.md 6.5). It writes nothing. Records that cannot be read are
// dropped and reported. What no record says, as the times of the run, comes
// from the summary that is there, if it can be read; unknown keys of it stay.
func Rebuild(runDir string) (*Summary, []Dropped, error) {
	dir, err := resolved(runDir)
	if err != nil {
		return nil, nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	old, err := oldSummary(root, dir)
	if err != nil {
		return nil, nil, err
	}
	b := &rebuilder{root: root, old: old, rows: map[Identity]*foundRow{}}
	if err := b.walk(); err != nil {
		return nil, nil, err
	}
	if len(b.rows) == 0 {
		return nil, b.dropped, fmt.Errorf("%s: %w", dir, ErrNoRows)
	}
	return b.summary(filepath.Base(dir)), b.dropped, nil
}

// oldSummary is what the run's summary says, an empty one when it says nothing
// that can be read. A directory that is no run of its own is refused: its rows
// are counted elsewhere.
func oldSummary(root *os.Root, dir string) (*Summary, error) {
	if _, err := root.Lstat(TaskFile); err == nil {
		return nil, fmt.Errorf("%s: %w", dir, ErrIsRow)
	}
	old, err := readSummary(root)
	if err == nil {
		return old, nil
	}
	if owner, err := OwningRun(dir); err == nil {
		return nil, fmt.Errorf("%s: %w: %s", dir, ErrInsideRun, owner)
	}
	return &Summary{}, nil
}

// rebuilder collects the rows of a run. Only their lines are kept: a run has
// many records, and some are large.
type rebuilder struct {
	root    *os.Root
	old     *Summary
	rows    map[Identity]*foundRow
	dropped []Dropped
	first   time.Time
	last    time.Time
	version string
}

type foundRow struct {
	*SummaryRow
	dir string
}

func (b *rebuilder) walk() error { return walkRecords(b.root, b.read, b.drop) }

// RowDirs returns the row directories of a run, relative to it and sorted; of
// a row directory, itself as ".".
func RowDirs(runDir string) ([]string, error) {
	root, err := os.OpenRoot(runDir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var dirs []string
	err = walkRecords(root, func(_ *os.Root, name string) { dirs = append(dirs, path.Dir(name)) }, func(string, error) {})
	return dirs, err
}

// OpenRowDir opens a row directory that RowDirs gave. No link is followed.
func OpenRowDir(runDir, dir string) (*Row, error) {
	outer, err := resolved(runDir)
	if err != nil {
		return nil, err
	}
	var elements []string
	if dir != "." {
		elements = strings.Split(dir, "/")
	}
	root, err := below(outer, elements, existing)
	if err != nil {
		return nil, err
	}
	return &Row{Dir: filepath.Join(outer, dir), root: root}, nil
}

func (b *rebuilder) drop(name string, why error) {
	b.dropped = append(b.dropped, Dropped{Path: name, Why: why})
}

func (b *rebuilder) read(in *os.Root, name string) {
	data, err := readPlain(in, TaskFile, MaxRecord)
	if err != nil {
		b.drop(name, err)
		return
	}
	r, err := Parse(data)
	if err != nil {
		b.drop(name, err)
		return
	}
	dir := path.Dir(name)
	row := &Row{Dir: dir}
	id := Identity{VariantID: r.VariantID, TaskID: r.TaskID, Replicate: row.Replicate()}
	if other := b.rows[id]; other != nil {
		// A copy beside the row is no second row.
		if other.dir == id.String() || dir != id.String() {
			b.drop(name, fmt.Errorf("%s is the row %s already", other.dir, id))
			return
		}
		b.drop(path.Join(other.dir, TaskFile), fmt.Errorf("%s is the row %s", dir, id))
	}
	b.rows[id] = &foundRow{NewSummaryRow(r, id.Replicate, ""), dir}
	b.note(r)
}

// note remembers when the first row began and the last one ended.
func (b *rebuilder) note(r *Record) {
	if b.version == "" {
		b.version = cmp.Or(r.Environment.Text(Version), r.Environment.Text("coder_eval"))
	}
	text, _ := r.Get(FieldStartedAt).Text()
	begin, ok := Time(text).Time()
	if !ok {
		return
	}
	end := begin
	if seconds, ok := r.Get(FieldDuration).Number(); ok && seconds > 0 && seconds < 1e9 {
		end = begin.Add(time.Duration(seconds * float64(time.Second)))
	}
	if b.first.IsZero() || begin.Before(b.first) {
		b.first = begin
	}
	if end.After(b.last) {
		b.last = end
	}
}

func (b *rebuilder) summary(id string) *Summary {
	s := b.old
	before := map[Identity]*SummaryRow{}
	for _, row := range s.Rows {
		before[row.Identity] = row
	}
	s.RunID, s.Rows = id, nil
	if s.Start.IsZero() || s.End.IsZero() || s.End.Before(s.Start) {
		s.Start, s.End = b.first, b.last
	}
	if s.Framework == "" {
		s.Framework = b.version
	}
	for _, found := range b.rows {
		if old := before[found.Identity]; old != nil {
			found.keep(old)
		}
		s.Rows = append(s.Rows, found.SummaryRow)
	}
	slices.SortFunc(s.Rows, func(a, b *SummaryRow) int {
		return cmp.Or(strings.Compare(a.VariantID, b.VariantID), strings.Compare(a.TaskID, b.TaskID), a.Replicate-b.Replicate)
	})
	return s
}

// onlyInSummary are the keys of a row that its record cannot give.
var onlyInSummary = []string{rowTags, rowTaskPath, rowSimulatorCost}

// keep takes over what only the older row knows: keys that no record gives,
// and keys that this program does not know.
func (s *SummaryRow) keep(old *SummaryRow) {
	doc, before := s.document(), old.document()
	for _, name := range onlyInSummary {
		if value := before.Value(name); !value.IsNull() && (doc.Value(name).IsNull() || doc.Value(name).Length() == 0) {
			doc.Set(name, value)
		}
	}
	for _, name := range before.Names() {
		if _, known := doc.Get(name); !known && !isStamp(name) {
			doc.Set(name, before.Value(name))
		}
	}
	cost := plus(plus(numberOf(doc, rowAgentCost), numberOf(doc, rowJudgeCost)), numberOf(doc, rowSimulatorCost))
	doc.Set(rowTotalCost, cost)
	s.set(doc)
}
