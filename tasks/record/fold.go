package record

import (
	"math"
	"slices"

	"podgrade/tasks"
)

// severity orders what replicates came to: the worst of them is what their
// task came to. A task of which a replicate was not graded has not succeeded
// yet; one of which a replicate failed has failed.
var severity = map[Category]int{Succeeded: 0, Ungraded: 1, Failed: 2, Errored: 3}

// folded is a task of one variant: its replicates as one (spec/run-record.md
// 6.4).
type folded struct {
	variant, task string
	status        Status
	score         *float64 // mean; an errored replicate counts as 0
	measured      bool     // a replicate has a score
	duration      float64  // sum over replicates without an error
	tokens        *int64   // sum
	turns         *int64   // mean
	iterations    int      // mean
	similarity    *float64 // of the first replicate that has one
	replicates    int
	scores        []float64
}

// fold folds rows of one variant and task.
func fold(rows []*SummaryRow) *folded {
	f := &folded{variant: rows[0].VariantID, task: rows[0].TaskID, status: rows[0].Status, replicates: len(rows)}
	var turns, turned, iterations float64
	for _, row := range rows {
		if severity[row.Status.Category()] > severity[f.status.Category()] {
			f.status = row.Status
		}
		if score := row.counted(); score != nil {
			f.scores = append(f.scores, *score)
		}
		f.measured = f.measured || row.Score != nil
		if row.Status.Category() != Errored {
			f.duration += row.Duration
		}
		if row.Tokens != nil {
			sum := *row.Tokens
			if f.tokens != nil {
				sum += *f.tokens
			}
			f.tokens = &sum
		}
		if row.Turns != nil {
			turns, turned = turns+float64(*row.Turns), turned+1
		}
		iterations += float64(row.Iterations)
		if f.similarity == nil {
			f.similarity = row.Similarity
		}
	}
	f.score = mean(f.scores)
	if turned > 0 {
		rounded := int64(math.RoundToEven(turns / turned))
		f.turns = &rounded
	}
	f.iterations = int(math.RoundToEven(iterations / float64(len(rows))))
	return f
}

// counted is the score with which a row counts in a mean: an error is a miss,
// and what nobody measured is left out.
func (s *SummaryRow) counted() *float64 {
	if s.Score == nil && s.Status.Category() == Errored {
		return new(float64)
	}
	return s.Score
}

// mean is nil of nothing.
func mean(values []float64) *float64 {
	if len(values) == 0 {
		return nil
	}
	m := tasks.Sum(values) / float64(len(values))
	return &m
}

// grouped returns the rows by a key, the groups in the order in which they are
// first seen, each in the order of its replicates.
func grouped(rows []*SummaryRow, key func(*SummaryRow) string) [][]*SummaryRow {
	at := map[string]int{}
	var groups [][]*SummaryRow
	for _, row := range rows {
		k := key(row)
		i, seen := at[k]
		if !seen {
			i = len(groups)
			at[k] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], row)
	}
	for _, group := range groups {
		slices.SortStableFunc(group, func(a, b *SummaryRow) int { return a.Replicate - b.Replicate })
	}
	return groups
}

func variantOf(row *SummaryRow) string { return row.VariantID }

func taskOf(row *SummaryRow) string { return row.TaskID }
