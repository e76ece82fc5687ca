package record

import "cmp"

// Experiment compares the variants of a run, as experiment.json holds it.
type Experiment struct {
	ID            string                          `json:"experiment_id"`
	Description   string                          `json:"description"`
	VariantIDs    []string                        `json:"variant_ids"`
	Tasks         []*TaskComparison               `json:"task_summaries"`
	Variants      map[string]*Variant             `json:"variant_aggregates"`
	TotalDuration float64                         `json:"total_duration_seconds"`
	Scores        map[string]map[string][]float64 `json:"per_replicate_scores"`
}

// TaskComparison is one task under all variants.
type TaskComparison struct {
	TaskID      string         `json:"task_id"`
	Results     []*VariantTask `json:"variant_results"`
	BestVariant string         `json:"best_variant"`
	IsTie       bool           `json:"is_tie"`
	ScoreSpread float64        `json:"score_spread"`
	Replicates  int            `json:"replicate_count"`
}

// VariantTask is one task under one variant, its replicates as one.
type VariantTask struct {
	VariantID  string   `json:"variant_id"`
	TaskID     string   `json:"task_id"`
	Score      *float64 `json:"weighted_score"` // null when no replicate was graded
	Status     string   `json:"final_status"`
	Duration   float64  `json:"duration_seconds"`
	Tokens     *int64   `json:"total_tokens"`
	Iterations int      `json:"iteration_count"`
	Turns      *int64   `json:"total_assistant_turns"`
	Similarity *float64 `json:"reference_similarity"`
	Replicate  int      `json:"replicate_index"` // 0: it stands for all
	Replicates int      `json:"replicate_count"`
}

// Experiment compares the variants of the run.
func (s *Summary) Experiment(id, description string) *Experiment {
	e := &Experiment{
		ID: id, Description: description, Variants: map[string]*Variant{},
		TotalDuration: max(0, s.End.Sub(s.Start).Seconds()), Scores: map[string]map[string][]float64{},
	}
	for _, v := range s.Variants() {
		e.VariantIDs = append(e.VariantIDs, v.VariantID)
		e.Variants[v.VariantID] = v
		e.Scores[v.VariantID] = map[string][]float64{}
	}
	for _, rows := range grouped(s.Rows, taskOf) {
		comparison := &TaskComparison{TaskID: rows[0].TaskID}
		for _, replicates := range grouped(rows, variantOf) {
			f := fold(replicates)
			e.Scores[f.variant][f.task] = f.scores
			comparison.add(f)
		}
		comparison.compare()
		e.Tasks = append(e.Tasks, comparison)
	}
	return e
}

func (c *TaskComparison) add(f *folded) {
	c.Results = append(c.Results, &VariantTask{
		VariantID: f.variant, TaskID: f.task, Score: f.score, Status: string(f.status), Duration: f.duration,
		Tokens: f.tokens, Iterations: f.iterations, Turns: f.turns, Similarity: f.similarity, Replicates: f.replicates,
	})
	c.Replicates = max(c.Replicates, f.replicates)
}

// compare finds the variant with the highest score; of equals, the one whose
// id is the largest (spec/run-record.md 6.4). What has no score is below all.
func (c *TaskComparison) compare() {
	best := c.Results[0]
	var low, high *float64
	for _, result := range c.Results {
		if order := compareScores(result.Score, best.Score); order > 0 || order == 0 && result.VariantID > best.VariantID {
			best = result
		}
		if result.Score != nil && (low == nil || *result.Score < *low) {
			low = result.Score
		}
		if result.Score != nil && (high == nil || *result.Score > *high) {
			high = result.Score
		}
	}
	for _, result := range c.Results {
		if result != best && compareScores(result.Score, best.Score) == 0 {
			c.IsTie = true
		}
	}
	c.BestVariant = best.VariantID
	if low != nil {
		c.ScoreSpread = *high - *low
	}
}

func compareScores(a, b *float64) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return cmp.Compare(*a, *b)
}

// Write writes experiment.json into the run directory.
func (e *Experiment) Write(runDir string) error {
	return WriteBelow(runDir, nil, ExperimentFile, Encode(e))
}
