package record

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// ErrCounts: the counts of a summary contradict each other.
var ErrCounts = errors.New("its counts do not add up")

// ReadSummary reads a run's summary. Rows may be of any version; what they
// lack is not there. The error wraps fs.ErrNotExist when there is no summary,
// and ErrCounts when the counts do not add up.
func ReadSummary(runDir string) (*Summary, error) {
	root, err := os.OpenRoot(runDir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return readSummary(root)
}

func readSummary(root *os.Root) (*Summary, error) {
	doc, rows, err := readRun(root)
	if err != nil {
		return nil, err
	}
	if err := checkCounts(doc); err != nil {
		return nil, fmt.Errorf("%s: %w", RunFile, err)
	}
	s := &Summary{RunID: doc.Text(runID), Framework: doc.Text(runFramework), Environment: objectOf(doc.Value(runEnvironment)), kept: doc}
	s.Start, s.End = timeOf(doc, runStart), timeOf(doc, runEnd)
	if n := integerOf(doc, runParallel); n != nil && *n > 0 && *n < 1<<20 {
		s.MaxParallel = int(*n)
	}
	s.Skipped = skippedOf(doc)
	for i, raw := range rows {
		row, ok := nested(raw).(*Object)
		if !ok {
			return nil, fmt.Errorf("%s: row %d is not an object", RunFile, i)
		}
		s.Rows = append(s.Rows, rowFrom(row))
	}
	return s, nil
}

func rowFrom(doc *Object) *SummaryRow {
	row := &SummaryRow{}
	row.set(doc)
	return row
}

// checkCounts holds the invariant of spec/run-record.md 6.1: every row is in
// one bucket.
func checkCounts(doc *Object) error {
	all := integerOf(doc, runTasks)
	if all == nil {
		return nil // of an interrupted or a very old run
	}
	sum := int64(0)
	for _, key := range []string{runSucceeded, runFailed, runErrored, runUngraded} {
		if n := integerOf(doc, key); n != nil {
			sum += *n
		}
	}
	if sum != *all {
		return fmt.Errorf("%w: %s is %d, its parts are %d", ErrCounts, runTasks, *all, sum)
	}
	return nil
}

func timeOf(doc *Object, key string) time.Time {
	at, _ := Time(doc.Text(key)).Time()
	return at
}

// skippedOf leaves out entries that are none.
func skippedOf(doc *Object) []Skipped {
	var all []Skipped
	entries, _ := doc.Value(runSkipped).Elements()
	for _, raw := range entries {
		entry := objectOf(raw)
		path, isPath := entry.Value("path").Text()
		reason, isReason := entry.Value("reason").Text()
		if isPath && isReason {
			all = append(all, Skipped{Path: path, Reason: reason})
		}
	}
	return all
}
