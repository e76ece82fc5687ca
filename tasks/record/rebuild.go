package record

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
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

// foundRow is what a rebuild takes from one record.
type foundRow struct {
	*SummaryRow
	dir     string
	err     error // why it cannot be used
	began   time.Time
	ended   time.Time
	version string // of the program that wrote it; "": it does not say
}

// walk reads the records one after another and parses them side by side; what
// is made of them does not depend on which is parsed first.
func (b *rebuilder) walk() error {
	var found []*foundRow
	var parsing sync.WaitGroup
	room := make(chan struct{}, runtime.GOMAXPROCS(0)) // for the text of records
	err := walkRecords(b.root, func(in *os.Root, name string) {
		row := &foundRow{dir: path.Dir(name)}
		found = append(found, row)
		room <- struct{}{}
		var text []byte
		if text, row.err = readPlain(in, TaskFile, MaxRecord); row.err != nil {
			<-room
			return
		}
		parsing.Go(func() {
			defer func() { <-room }()
			row.parse(text)
		})
	}, b.drop)
	parsing.Wait()
	for _, row := range found {
		b.add(row)
	}
	return err
}

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

// parse takes from a record what a summary says of it.
func (f *foundRow) parse(text []byte) {
	r, err := Parse(text)
	if err != nil {
		f.err = err
		return
	}
	f.SummaryRow = NewSummaryRow(r, (&Row{Dir: f.dir}).Replicate(), "")
	f.version = cmp.Or(r.Environment.Text(Version), r.Environment.Text("coder_eval"))
	began, _ := r.Get(FieldStartedAt).Text()
	at, ok := Time(began).Time()
	if !ok {
		return
	}
	f.began, f.ended = at, at
	if seconds, ok := r.Get(FieldDuration).Number(); ok && seconds > 0 && seconds < 1e9 {
		f.ended = at.Add(time.Duration(seconds * float64(time.Second)))
	}
}

// add takes a row, but for a copy of one.
func (b *rebuilder) add(row *foundRow) {
	if row.err != nil {
		b.drop(path.Join(row.dir, TaskFile), row.err)
		return
	}
	id := row.Identity
	if other := b.rows[id]; other != nil {
		// A copy beside the row is no second row.
		if other.dir == id.String() || row.dir != id.String() {
			b.drop(path.Join(row.dir, TaskFile), fmt.Errorf("%s is the row %s already", other.dir, id))
			return
		}
		b.drop(path.Join(other.dir, TaskFile), fmt.Errorf("%s is the row %s", row.dir, id))
	}
	b.rows[id] = row
	b.version = cmp.Or(b.version, row.version)
	if row.began.IsZero() {
		return
	}
	if b.first.IsZero() || row.began.Before(b.first) {
		b.first = row.began
	}
	if row.ended.After(b.last) {
		b.last = row.ended
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
	doc, before := s.Document(), old.Document()
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
