package record

import (
	"os"
	"time"
)

// Keys of run.json that only a whole summary has.
const (
	runID          = "run_id"
	runStart       = "start_time"
	runEnd         = "end_time"
	runDuration    = "total_duration_seconds"
	runSkipped     = "skipped_tasks"
	runParallel    = "max_parallel"
	runFramework   = "framework_version"
	runIncomplete  = "tasks_cost_incomplete"
	runCostKnown   = "cost_complete"
	runAgentCost   = "agent_cost_usd"
	runTotalCost   = "total_cost_usd"
	runExtraCost   = "eval_overhead_cost_usd"
	runEnvironment = FieldEnvironment
)

// Skipped is a task file that took no part in the run.
type Skipped struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// Summary is a run as run.json holds it (spec/run-record.md 6).
type Summary struct {
	RunID       string
	Start, End  time.Time
	MaxParallel int // 0 counts as 1
	Skipped     []Skipped
	Rows        []*SummaryRow
	Framework   string  // version of the program that ran it
	Environment *Object // nil: empty

	kept *Object // the summary that this one replaces: unknown keys of it stay
}

// Write writes run.json, all of it or nothing, and returns when it is on the
// disk. Nothing but a regular file is replaced.
func (s *Summary) Write(runDir string) error {
	root, err := os.OpenRoot(runDir)
	if err != nil {
		return err
	}
	defer root.Close()
	if _, err := root.Lstat(RunFile); err == nil {
		unlock, err := lock(root, RunFile)
		if err != nil {
			return err
		}
		defer unlock()
	}
	return writeDurably(root, RunFile, s.document().Bytes())
}

// NotRun counts the rows that the run has not come to.
func (s *Summary) NotRun() int {
	if s.Environment == nil {
		return 0
	}
	n, _ := s.Environment.Value(RowsNotRun).Int()
	return int(max(0, n))
}

// Counts are the numbers of rows by what they came to.
func (s *Summary) Counts() Counts { return s.counts().public() }

func (s *Summary) counts() *counts {
	c := &counts{}
	for _, row := range s.Rows {
		c.add(row.Status, row.Score != nil)
	}
	return c
}

func (s *Summary) document() *Object {
	doc := NewObject()
	if s.kept != nil {
		doc = s.kept
	}
	doc.Set(runID, s.RunID)
	doc.Set(runStart, TimeOf(s.Start))
	doc.Set(runEnd, TimeOf(s.End))
	// Of the times as they are written, so that a reader computes the same.
	took := s.End.Truncate(time.Microsecond).Sub(s.Start.Truncate(time.Microsecond))
	doc.Set(runDuration, max(0, took.Seconds()))
	c := s.counts()
	c.stored(doc)
	doc.Set(runSkipped, s.Skipped)
	doc.Set(runParallel, max(1, s.MaxParallel))
	rows := make([]any, len(s.Rows))
	for i, row := range s.Rows {
		rows[i] = row.text
	}
	doc.Set(runRows, rows)
	doc.Set(runFramework, s.Framework)
	environment := s.Environment
	if environment == nil {
		environment = NewObject()
	}
	doc.Set(runEnvironment, environment)
	c.computed(doc)
	s.costs(doc)
	return doc
}

// Cost is what all rows together cost, in USD; nil when no price is known.
// When it is not complete, some of it is missing.
func (s *Summary) Cost() (total *float64, complete bool) {
	doc := NewObject()
	s.costs(doc)
	complete, _ = doc.Value(runCostKnown).Bool()
	return numberOf(doc, runTotalCost), complete
}

// costs are sums over the rows of which a price is known; null when there is
// none, which is not the same as nothing to pay.
func (s *Summary) costs(doc *Object) {
	incomplete := 0
	var agent, total, extra *float64
	for _, row := range s.Rows {
		row := row.Document()
		if complete, ok := row.Value(rowCostKnown).Bool(); ok && !complete {
			incomplete++
		}
		agent = plus(agent, numberOf(row, rowAgentCost))
		total = plus(total, numberOf(row, rowTotalCost))
		extra = plus(plus(extra, numberOf(row, rowJudgeCost)), numberOf(row, rowSimulatorCost))
	}
	doc.Set(runIncomplete, incomplete)
	doc.Set(runCostKnown, incomplete == 0)
	doc.Set(runAgentCost, agent)
	doc.Set(runTotalCost, total)
	doc.Set(runExtraCost, extra)
}

// plus adds what is known.
func plus(a, b *float64) *float64 {
	if a == nil || b == nil {
		if a == nil {
			return b
		}
		return a
	}
	sum := *a + *b
	return &sum
}
