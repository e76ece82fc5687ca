package regrade

import (
	"errors"
	"fmt"
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
// while, and at the end. A kill before that leaves a summary that is behind its
// records, which are the truth: a resume, report --rebuild and the next grade of
// the rows mend it.
type summaries struct {
	owners record.Owners
	every  time.Duration
	warn   func(text string)

	mu      sync.Mutex
	pending map[string]map[record.Identity]string // row directories by run
	written time.Time
	took    time.Duration // the last writing of them
}

func newSummaries(every time.Duration, warn func(text string)) *summaries {
	if every == 0 {
		every = summariesEvery
	}
	return &summaries{every: every, warn: warn, pending: map[string]map[record.Identity]string{}, written: time.Now()}
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
	if time.Since(s.written) >= max(s.every, summariesShare*s.took) {
		s.writeLocked()
	}
}

// write writes what is left.
func (s *summaries) write() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writeLocked()
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
