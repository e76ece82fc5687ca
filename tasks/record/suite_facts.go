package record

// criterionFacts are what a suite needs of one criterion's result.
type criterionFacts struct {
	kind     string // criterion_type
	score    float64
	failed   bool // the check itself did not work
	passed   bool
	gating   bool
	reason   string
	observed *string
	expected *string
}

func criterionFactsOf(r *Record, task *Object) []criterionFacts { return nil }
