package criteria

import (
	"errors"
	"fmt"

	"podgrade/tasks"
)

// Verdict is what the results of one row add up to.
type Verdict struct {
	WeightedScore float64
	// Passed: every criterion with a weight above 0 passed. The weighted score
	// never decides it (task-file 7.0).
	Passed bool
}

// ErrCount is wrapped when results and criteria are not one to one.
var ErrCount = errors.New("number of results differs from number of criteria")

// Gate folds results. A task whose criteria all have weight 0 passes with
// score 0.0; so does one without criteria, which callers refuse before.
func Gate(list []tasks.Criterion, results []Result) (Verdict, error) {
	if len(list) != len(results) {
		return Verdict{}, fmt.Errorf("%w: %d results, %d criteria", ErrCount, len(results), len(list))
	}
	verdict := Verdict{Passed: true}
	scores, weights := make([]float64, len(list)), make([]float64, len(list))
	for i, criterion := range list {
		weight := criterion.Common().Weight
		scores[i], weights[i] = results[i].Score*weight, weight
		if weight > 0 && !results[i].Passed() {
			verdict.Passed = false
		}
	}
	verdict.WeightedScore = mean(scores, weights)
	return verdict, nil
}

// EarlyGate is the gate of a row that an armed criterion stopped (run-record
// 2.3): only the armed criteria count, each as 1 or 0 by its own threshold,
// and their weighted mean must reach threshold. Without an armed criterion it
// is an error; when their weights sum to 0 the gate is closed.
func EarlyGate(list []tasks.Criterion, results []Result, threshold float64) (bool, error) {
	if len(list) != len(results) {
		return false, fmt.Errorf("%w: %d results, %d criteria", ErrCount, len(results), len(list))
	}
	var scores, weights []float64
	for i, criterion := range list {
		common := criterion.Common()
		if common.StopEarly == nil {
			continue
		}
		score := 0.0
		if results[i].Passed() {
			score = common.Weight
		}
		scores, weights = append(scores, score), append(weights, common.Weight)
	}
	if len(weights) == 0 {
		return false, errors.New("the row was stopped early and no criterion of its task is armed; grade it with the task file that it was run with")
	}
	return tasks.Sum(weights) > 0 && mean(scores, weights) >= threshold, nil
}

// mean is the sum of scores over the sum of weights, 0 when the latter is 0.
func mean(scores, weights []float64) float64 {
	total := tasks.Sum(weights)
	if total == 0 {
		return 0
	}
	return tasks.Sum(scores) / total
}
