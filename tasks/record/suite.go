package record

import (
	"path"
	"slices"
	"strings"
)

// Suite is the roll-up of a dataset task under one variant, as suite.json
// holds it.
type Suite struct {
	SuiteID      string                `json:"suite_id"`
	VariantID    string                `json:"variant_id"`
	Rows         int                   `json:"rows_total"`
	PassedRows   int                   `json:"rows_passed"`
	FailedRows   int                   `json:"rows_failed"`
	ErroredRows  int                   `json:"rows_error"`
	UngradedRows int                   `json:"rows_not_graded"`
	PassRate     *float64              `json:"pass_rate"`
	AverageScore *float64              `json:"average_weighted_score"`
	Criteria     []*CriterionStats     `json:"criterion_stats"`
	Samples      []*FailedSample       `json:"failed_samples"` // at most mostSamples
	Aggregates   []*CriterionAggregate `json:"criterion_aggregates"`
	// Passed: every threshold was reached. It decides the exit code.
	Passed     bool `json:"passed"`
	GradedRows int  `json:"rows_graded"`
}

// CriterionStats are about all results of one type of criterion.
type CriterionStats struct {
	Type    string  `json:"criterion_type"`
	Rows    int     `json:"rows_evaluated"`
	Average float64 `json:"average_score"`
	Errors  int     `json:"error_count"`
	scores  []float64
}

// FailedSample is a row that did not pass, and why.
type FailedSample struct {
	RowID     *string  `json:"row_id"`
	TaskID    string   `json:"task_id"`
	Status    string   `json:"final_status"`
	Score     *float64 `json:"weighted_score"`
	Reasons   []string `json:"failure_reasons"`
	Error     *string  `json:"error_message"`
	Record    string   `json:"task_json_relpath"`
	Replicate int      `json:"replicate_index"`
}

// mostSamples bounds Suite.Samples.
const mostSamples = 20

// Suites returns the roll-up of each suite under each variant, in the order of
// the rows.
func (s *Summary) Suites() []*Suite {
	var all []*Suite
	var rows []*SummaryRow
	for _, row := range s.Rows {
		if row.SuiteID != "" {
			rows = append(rows, row)
		}
	}
	for _, group := range grouped(rows, func(r *SummaryRow) string { return r.VariantID + "\x00" + r.SuiteID }) {
		all = append(all, suiteOf(group))
	}
	return all
}

func suiteOf(rows []*SummaryRow) *Suite {
	s := &Suite{SuiteID: rows[0].SuiteID, VariantID: rows[0].VariantID, Rows: len(rows)}
	c := &counts{}
	var scores []float64
	for _, row := range rows {
		c.add(row.Status, row.Score != nil)
		if row.Score != nil {
			scores = append(scores, *row.Score)
		}
		s.sample(row)
	}
	public := c.public()
	s.PassedRows, s.FailedRows, s.ErroredRows, s.UngradedRows = public.Succeeded, public.Failed, public.Errored, public.Ungraded
	s.PassRate, s.GradedRows = public.PassRate, c.graded()
	s.AverageScore = mean(scores)
	s.Criteria = statsByType(rows)
	s.Aggregates = aggregatesOf(rows)
	s.Passed = true
	for _, aggregate := range s.Aggregates {
		s.Passed = s.Passed && aggregate.Passed
	}
	return s
}

// sample keeps a row that failed or ended in an error. One that nobody graded
// has failed nothing.
func (s *Suite) sample(row *SummaryRow) {
	category := row.Status.Category()
	if category != Failed && category != Errored || len(s.Samples) == mostSamples {
		return
	}
	sample := &FailedSample{
		TaskID: row.TaskID, Status: string(row.Status), Score: row.Score, Reasons: []string{},
		Record: path.Join(row.Identity.String(), TaskFile), Replicate: row.Replicate,
	}
	if row.RowID != "" {
		sample.RowID = &row.RowID
	}
	if message := row.Document().Text(FieldErrorMessage); message != "" {
		sample.Error = &message
	}
	for _, fact := range row.results {
		if fact.result && fact.Gating && !fact.Passed {
			sample.Reasons = append(sample.Reasons, fact.String())
		}
	}
	s.Samples = append(s.Samples, sample)
}

// Path are the names of the directories that lead from the run to the suite.
func (s *Suite) Path() []string {
	return append([]string{s.VariantID}, strings.Split(s.SuiteID, "/")...)
}

// Write writes suite.json below the run directory.
func (s *Suite) Write(runDir string) error {
	if _, err := s.elements(); err != nil {
		return err
	}
	return WriteBelow(runDir, s.Path(), SuiteFile, Encode(s))
}

// elements are those of Path; an error when they cannot name directories.
func (s *Suite) elements() ([]string, error) {
	if _, err := (Identity{VariantID: s.VariantID, TaskID: s.SuiteID}).elements(); err != nil {
		return nil, err
	}
	return s.Path(), nil
}

// criterionFacts are what a suite needs of one criterion of one row.
type criterionFacts struct {
	CriterionResult
	thresholds []threshold
	result     bool // there is one at this place
}

type threshold struct {
	metric string
	least  float64
}

// criterionFactsOf joins the task's criteria with the row's results, by their
// place.
func criterionFactsOf(r *Record, task *Object) []criterionFacts {
	declared, _ := task.Value("success_criteria").Elements()
	results := r.CriterionResults()
	facts := make([]criterionFacts, max(len(declared), len(results)))
	for i, raw := range declared {
		criterion := objectOf(raw)
		facts[i].Type, facts[i].Description = criterion.Text("type"), criterion.Text("description")
		limits := objectOf(criterion.Value("suite_thresholds"))
		for _, name := range limits.Names() {
			if least := numberOf(limits, name); least != nil {
				facts[i].thresholds = append(facts[i].thresholds, threshold{name, *least})
			}
		}
	}
	for i, result := range results {
		facts[i].CriterionResult, facts[i].result = result, true
		// A line is enough, and a suite has many rows.
		facts[i].Details, facts[i].Error = "", cut(result.Reason())
	}
	return facts
}

// statsByType sums the results up by the type of their criteria, sorted.
func statsByType(rows []*SummaryRow) []*CriterionStats {
	var all []*CriterionStats
	for _, row := range rows {
		for _, fact := range row.results {
			if !fact.result {
				continue
			}
			at := slices.IndexFunc(all, func(s *CriterionStats) bool { return s.Type == fact.Type })
			if at < 0 {
				at = len(all)
				all = append(all, &CriterionStats{Type: fact.Type})
			}
			all[at].Rows++
			all[at].scores = append(all[at].scores, fact.Score)
			if fact.Broken {
				all[at].Errors++
			}
		}
	}
	for _, stats := range all {
		stats.Average = *mean(stats.scores)
	}
	slices.SortFunc(all, func(a, b *CriterionStats) int { return strings.Compare(a.Type, b.Type) })
	return all
}
