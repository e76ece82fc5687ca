package regrade

import (
	"time"

	"podgrade/tasks/record"
)

// EventKind says what happened to a row.
type EventKind string

// The kinds of events, each at most once for a row and a turn of it but for
// RowOutput.
const (
	RowStarted  EventKind = "row_started"  // the agent's phase begins
	RowOutput   EventKind = "row_output"   // a line that the agent printed, many times
	RowExecuted EventKind = "row_executed" // it ended, and the record is written
	RowGrading  EventKind = "row_grading"  // the grade begins
	RowGraded   EventKind = "row_graded"   // the verdict is in the record: exactly one for each grade
	RowChecked  EventKind = "row_checked"  // it was graded again, and nothing was written
	RowKept     EventKind = "row_kept"     // finished before: nothing is done
	RowFailed   EventKind = "row_failed"   // podgrade failed; the row can be done again
)

// StreamStderr is the Stream of a RowOutput that is no standard output.
const StreamStderr = streamStderr

// Event is one thing that happened to a row. Its strings are not neutralised.
type Event struct {
	Kind    EventKind
	At      time.Time
	Row     record.Identity
	Dir     string
	Last    bool          // nothing more happens to the row
	Took    time.Duration // RowExecuted, RowGraded, RowChecked
	Status  record.Status // RowExecuted, RowGraded and RowKept
	Score   *float64      // of a verdict
	Verdict *Verdict      // RowGraded, RowChecked
	Message string        // RowExecuted: why the status is no better; not made safe to print
	Err     error         // RowFailed
	Stream  string        // RowOutput: where it was printed
	Text    string        // RowOutput; not made safe to print
}

// observe tells what happened, where anybody wants to know.
func observe(to func(Event), e Event) {
	if to != nil {
		e.At = time.Now()
		to(e)
	}
}
