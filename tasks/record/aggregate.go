package record

import (
	"math"
	"slices"
	"strings"
)

// CriterionAggregate is about one criterion, by its place in the task, over
// all rows of a suite.
type CriterionAggregate struct {
	Type        string             `json:"criterion_type"`
	Description string             `json:"description"`
	Excluded    int                `json:"rows_excluded"` // rows without a result at this place
	Metrics     map[string]float64 `json:"metrics"`
	Checks      []ThresholdCheck   `json:"threshold_checks"`
	Passed      bool               `json:"passed"`
	Details     any                `json:"details"`
	Error       *string            `json:"error"`
}

// ThresholdCheck compares a metric with the smallest value that passes.
type ThresholdCheck struct {
	Metric string   `json:"metric"`
	Least  float64  `json:"min_value"`
	Actual *float64 `json:"actual_value"` // null: there is no such metric
	Passed bool     `json:"passed"`
}

// classification are the details of a criterion that gives labels.
type classification struct {
	Labels    []string     `json:"labels"`
	PerLabel  []labelStats `json:"per_label"`
	Confusion []confusion  `json:"confusion"`
	Pairs     int          `json:"total_pairs"`
}

type labelStats struct {
	Label     string  `json:"label"`
	Precision float64 `json:"precision"`
	Recall    float64 `json:"recall"`
	F1        float64 `json:"f1"`
	Support   int     `json:"support"`
}

type confusion struct {
	Expected string `json:"expected"`
	Observed string `json:"observed"`
	Count    int    `json:"count"`
}

// pair is what a row should have been called, and what it was called.
type pair struct{ expected, observed string }

// aggregatesOf returns one aggregate for each place that has a result or a
// threshold.
func aggregatesOf(rows []*SummaryRow) []*CriterionAggregate {
	places := 0
	for _, row := range rows {
		places = max(places, len(row.results))
	}
	var all []*CriterionAggregate
	for place := range places {
		if a := aggregateAt(rows, place); a != nil {
			all = append(all, a)
		}
	}
	return all
}

func aggregateAt(rows []*SummaryRow, place int) *CriterionAggregate {
	a := &CriterionAggregate{Metrics: map[string]float64{}, Details: map[string]any{}}
	var scores []float64
	var pairs []pair
	var thresholds []threshold
	for _, row := range rows {
		if place >= len(row.results) {
			continue
		}
		fact := row.results[place]
		if a.Type == "" {
			a.Type, a.Description = fact.Type, fact.Description
		}
		if len(thresholds) == 0 {
			thresholds = fact.thresholds
		}
		if !fact.result {
			continue
		}
		scores = append(scores, fact.Score)
		if fact.Expected != nil && fact.Observed != nil {
			pairs = append(pairs, pair{*fact.Expected, *fact.Observed})
		}
	}
	if len(scores) == 0 && len(thresholds) == 0 {
		return nil
	}
	a.Excluded = len(rows) - len(scores)
	if len(scores) > 0 {
		baseMetrics(a.Metrics, scores)
		a.Metrics["completion_rate"] = float64(len(scores)) / float64(len(rows))
		if len(pairs) > 0 {
			a.Details = classify(a.Metrics, pairs)
		}
	}
	a.check(thresholds, len(scores) > 0)
	return a
}

// baseMetrics are those that every criterion has.
func baseMetrics(into map[string]float64, scores []float64) {
	sorted := slices.Sorted(slices.Values(scores))
	average := *mean(scores)
	var squares float64
	for _, score := range scores {
		squares += (score - average) * (score - average)
	}
	middle := len(sorted) / 2
	median := sorted[middle]
	if len(sorted)%2 == 0 {
		median = (sorted[middle-1] + sorted[middle]) / 2
	}
	into["count"] = float64(len(scores))
	into["mean"] = average
	into["median"] = median
	into["std"] = math.Sqrt(squares / float64(len(scores)))
	into["min"] = sorted[0]
	into["max"] = sorted[len(sorted)-1]
}

// classify adds precision, recall and F1 of each label, and their means. What
// would be divided by zero is 0.
func classify(into map[string]float64, pairs []pair) classification {
	c := classification{Labels: labelsOf(pairs), Confusion: confusions(pairs), Pairs: len(pairs)}
	var f1s, weighted, hits float64
	for _, p := range pairs {
		if p.expected == p.observed {
			hits++
		}
	}
	for _, label := range c.Labels {
		stats := statsOfLabel(label, pairs)
		c.PerLabel = append(c.PerLabel, stats)
		into["precision."+label] = stats.Precision
		into["recall."+label] = stats.Recall
		into["f1."+label] = stats.F1
		f1s += stats.F1
		weighted += stats.F1 * float64(stats.Support)
	}
	n := float64(len(pairs))
	accuracy := hits / n
	into["accuracy"] = accuracy
	into["macro_f1"] = f1s / float64(len(c.Labels))
	into["weighted_f1"] = weighted / n
	// Each miss is one false positive and one false negative, so precision and
	// recall over all labels are both the accuracy.
	into["micro_f1"] = ratio(2*accuracy*accuracy, accuracy+accuracy)
	return c
}

func labelsOf(pairs []pair) []string {
	var labels []string
	for _, p := range pairs {
		labels = append(labels, p.expected, p.observed)
	}
	slices.Sort(labels)
	return slices.Compact(labels)
}

func statsOfLabel(label string, pairs []pair) labelStats {
	var hit, predicted, support float64
	for _, p := range pairs {
		if p.observed == label {
			predicted++
		}
		if p.expected == label {
			support++
		}
		if p.observed == label && p.expected == label {
			hit++
		}
	}
	s := labelStats{Label: label, Precision: ratio(hit, predicted), Recall: ratio(hit, support), Support: int(support)}
	s.F1 = ratio(2*s.Precision*s.Recall, s.Precision+s.Recall)
	return s
}

func ratio(part, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return part / whole
}

func confusions(pairs []pair) []confusion {
	counts := map[pair]int{}
	for _, p := range pairs {
		counts[p]++
	}
	var cells []confusion
	for p, n := range counts {
		cells = append(cells, confusion{p.expected, p.observed, n})
	}
	slices.SortFunc(cells, func(a, b confusion) int {
		if order := strings.Compare(a.Expected, b.Expected); order != 0 {
			return order
		}
		return strings.Compare(a.Observed, b.Observed)
	})
	return cells
}

// check compares with the thresholds. Without any the criterion passes; with
// some and no row to measure it fails.
func (a *CriterionAggregate) check(thresholds []threshold, measured bool) {
	a.Passed = true
	if len(thresholds) > 0 && !measured {
		text := "the criterion has suite_thresholds, and no row has a result for it"
		a.Passed, a.Error = false, &text
	}
	for _, limit := range thresholds {
		check := ThresholdCheck{Metric: limit.metric, Least: limit.least}
		if actual, ok := a.Metrics[limit.metric]; ok {
			check.Actual, check.Passed = &actual, actual >= limit.least
		}
		a.Passed = a.Passed && check.Passed
		a.Checks = append(a.Checks, check)
	}
}
