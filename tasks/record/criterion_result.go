package record

import "strings"

// CriterionResult is one entry of success_criteria_results, of any version
// (spec/run-record.md 2.4).
type CriterionResult struct {
	Type        string
	Description string
	Score       float64
	Details     string // "" when there are none
	Error       string // what kept the check from working; else ""
	Broken      bool   // the check itself did not work
	Evaluated   bool
	Passed      bool // the score reaches the threshold
	Gating      bool // it counts for the verdict
	// Expected and Observed are labels; nil but in a classification.
	Expected, Observed *string
}

// defaultPass is the threshold of a result that does not say its own.
const defaultPass = 0.9

// CriterionResults returns the results of the row's criteria.
func (r *Record) CriterionResults() []CriterionResult {
	entries, _ := r.Get(FieldCriteriaResults).Elements()
	results := make([]CriterionResult, len(entries))
	for i, raw := range entries {
		results[i] = criterionResultOf(objectOf(raw))
	}
	return results
}

func criterionResultOf(o *Object) CriterionResult {
	c := CriterionResult{
		Type: o.Text("criterion_type"), Description: o.Text("description"),
		Details: o.Text("details"), Error: o.Text("error"), Broken: !o.Value("error").IsNull(),
		Evaluated: o.Text("evaluation_status") != "not_evaluated", Gating: true,
		Expected: textOf(o, "expected_label"), Observed: textOf(o, "observed_label"),
	}
	if score := numberOf(o, "score"); score != nil {
		c.Score = *score
	}
	least := defaultPass
	if n := numberOf(o, "pass_threshold"); n != nil {
		least = *n
	}
	c.Passed = c.Score >= least
	if gating, ok := o.Value("gating").Bool(); ok {
		c.Gating = gating
	}
	return c
}

// Reason is one line on why the result is as it is; "" when it does not say.
func (c CriterionResult) Reason() string {
	text := c.Error
	if text == "" {
		text = c.Details
	}
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// String is the result on one line.
func (c CriterionResult) String() string {
	line := c.Type + ": " + c.Description
	if reason := c.Reason(); reason != "" {
		line += ": " + reason
	}
	return line
}

func textOf(o *Object, name string) *string {
	if text, ok := o.Value(name).Text(); ok {
		return &text
	}
	return nil
}
