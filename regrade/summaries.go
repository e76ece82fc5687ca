package regrade

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"podgrade/regrade/report"
	"podgrade/tasks/record"
)

// summariesEvery is how often the summaries of the runs of many rows are written
// while the rows are graded.
const summariesEvery = time.Second

// summariesShare is the part of the time, 1 of so many, that writing them may
// take: a large run on a slow disk waits for longer.
const summariesShare = 50

// summaries brings the summaries of runs up to date after grades. Each costs
// reading and writing all rows of its run, so for many rows it is done once in a
// while, and at the end; the files of suites, variants and the experiment, which cost
// reading all records too, only there. A kill before that leaves files that are behind
// the records, which are the truth: a resume, report --rebuild and the next grade of
// the rows mend them.
type summaries struct {
	owners record.Owners
	every  time.Duration
	warn   func(text string)
	missed func(*record.Suite) // nil: nobody wants to know

	mu      sync.Mutex
	pending map[string]map[record.Identity]string // row directories by run
	rows    map[string][]record.Identity          // all that were graded, by run
	written time.Time
	took    time.Duration // the last writing of them
}

func newSummaries(every time.Duration, warn func(text string)) *summaries {
	if every == 0 {
		every = summariesEvery
	}
	return &summaries{every: every, warn: warn, pending: map[string]map[record.Identity]string{}, rows: map[string][]record.Identity{}, written: time.Now()}
}

// graded notes a row whose record holds a new verdict.
func (s *summaries) graded(rowDir string, id record.Identity) {
	run, err := s.owners.Of(rowDir)
	if err != nil {
		s.warn(fmt.Sprintf("%s: no %s was brought up to date: %v", id, record.RunFile, err))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending[run] == nil {
		s.pending[run] = map[record.Identity]string{}
	}
	s.pending[run][id] = rowDir
	s.rows[run] = append(s.rows[run], id)
	if time.Since(s.written) >= max(s.every, summariesShare*s.took) {
		s.writeLocked()
	}
}

// write writes what is left, and then the aggregates of the runs, which cost
// reading all of their records.
func (s *summaries) write() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writeLocked()
	for _, run := range slices.Sorted(maps.Keys(s.rows)) {
		refreshAggregates(run, s.rows[run], s.missed, s.warn)
	}
}

// refreshAggregates makes the files of suites, variants and the experiment anew after
// rows of a run were graded, and tells of suites of theirs that missed a threshold.
// It is best effort, as the summary is.
func refreshAggregates(run string, rows []record.Identity, missed func(*record.Suite), warn func(text string)) {
	suites, err := report.RefreshAggregates(run, rows)
	if err != nil {
		warn(fmt.Sprintf("not all files of suites, variants and the experiment in %s were brought up to date: %s", run, whyUnwritten(err)))
	}
	for _, suite := range suites {
		if missed != nil {
			missed(suite)
		}
	}
}

func (s *summaries) writeLocked() {
	began := time.Now()
	for run, rows := range s.pending {
		if err := refreshSummary(run, rows); err != nil {
			s.warn(fmt.Sprintf("not all of %s was brought up to date: %v", record.RunFile, err))
		}
	}
	clear(s.pending)
	s.written = time.Now()
	s.took = s.written.Sub(began)
}

// refreshSummary brings rows of a run up to date in its summary, from the
// records as they are now.
func refreshSummary(run string, rows map[record.Identity]string) error {
	var updates []record.Update
	var errs error
	for id, dir := range rows {
		rec, err := readRow(dir)
		if err != nil {
			errs = errors.Join(errs, fmt.Errorf("%s: %w", id, err))
			continue
		}
		updates = append(updates, record.UpdateOf(id, rec))
	}
	if len(updates) == 0 {
		return errs
	}
	if err := record.RefreshRun(run, updates...); err != nil {
		errs = errors.Join(errs, err)
	}
	return errors.Join(errs, report.Refresh(run))
}

func readRow(dir string) (*record.Record, error) {
	row, err := record.OpenRow(dir)
	if err != nil {
		return nil, err
	}
	defer row.Close()
	rec, _, err := row.Read()
	return rec, err
}
