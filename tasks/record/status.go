package record

import "fmt"

// Status is a row's final_status (spec/run-record.md 3).
type Status string

// The statuses. This is their only definition.
const (
	Success             Status = "SUCCESS"
	Failure             Status = "FAILURE"
	MaxTurnsExhausted   Status = "MAX_TURNS_EXHAUSTED"
	Timeout             Status = "TIMEOUT"
	TokenBudgetExceeded Status = "TOKEN_BUDGET_EXCEEDED"
	CostBudgetExceeded  Status = "COST_BUDGET_EXCEEDED"
	Error               Status = "ERROR"
	BuildFailed         Status = "BUILD_FAILED"
	NotGraded           Status = "NOT_GRADED"
)

// Category is what a status counts as in a summary.
type Category string

// The categories. Every status has exactly one.
const (
	Succeeded Category = "succeeded"
	Failed    Category = "failed"
	Errored   Category = "error"
	Ungraded  Category = "ungraded"
)

// statusFacts is all that podgrade knows about one status.
type statusFacts struct {
	status   Status
	category Category
	fact     bool // an execution fact: a grade must preserve it
	icon     string
}

// statuses is exhaustive; spec/regrade.md 0.1 is its source.
var statuses = []statusFacts{
	{Success, Succeeded, false, "+"},
	{Failure, Failed, false, "-"},
	{MaxTurnsExhausted, Failed, false, "M"},
	{Timeout, Failed, true, "T"},
	{TokenBudgetExceeded, Failed, true, "#"},
	{CostBudgetExceeded, Failed, true, "$"},
	{Error, Errored, true, "!"},
	{BuildFailed, Errored, true, "B"},
	{NotGraded, Ungraded, false, "?"},
}

// ParseStatus returns the status that a record names.
func ParseStatus(name string) (Status, error) {
	for _, f := range statuses {
		if string(f.status) == name {
			return f.status, nil
		}
	}
	return "", fmt.Errorf("final_status %q is none of the %d known statuses", clip(name), len(statuses))
}

func (s Status) facts() statusFacts {
	for _, f := range statuses {
		if f.status == s {
			return f
		}
	}
	return statusFacts{status: s, category: Errored, icon: "!"}
}

// Category tells what the status counts as; an unknown status is an error.
func (s Status) Category() Category { return s.facts().category }

// ExecutionFact tells whether the status says how the agent's run ended, so
// that a grade must keep it (spec/regrade.md 0.2).
func (s Status) ExecutionFact() bool { return s.facts().fact }

// Icon is the one character that stands for the status in a table.
func (s Status) Icon() string { return s.facts().icon }

// clip shortens a string of a record for an error text.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}
