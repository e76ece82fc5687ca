package criteria

import (
	"context"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"time"

	"podgrade/tasks"
	"podgrade/tasks/criteria/python"
)

// uipathOutput is where the CLI writes its results, in the sandbox.
const uipathOutput = "__uipath/podgrade-eval.json"

// uipathTimeout bounds one evaluation; the format has no key for it.
const uipathTimeout = 30 * time.Minute

// uipathEval runs the uipath CLI of the cell and compares its metrics with
// their minimums (task-file 7.16).
func (j *judging) uipathEval(ctx context.Context, c *tasks.UiPathEval) (outcome, error) {
	line := "rm -f " + uipathOutput + " && mkdir -p __uipath && " + shellLine([]string{
		programUiPath, "eval", c.AgentName, c.EvalSet, "--no-report", "--output-file", uipathOutput,
	})
	r, err := j.run(ctx, line, uipathTimeout)
	if err != nil {
		return outcome{}, err
	}
	if r.code == noProgram {
		return outcome{}, j.lacking(programUiPath, "uipath_eval needs the uipath CLI in the image, and there is none; use an image that has it")
	}
	if r.code != 0 {
		text := fmt.Sprintf("uipath eval ended with exit code %d", r.code)
		return outcome{err: text, details: text + "\n" + j.networkNote(r.exit) + cutNote(r.stderr, streamLimit)}, nil
	}
	value, err := j.json(ctx, uipathOutput)
	if bad, ok := err.(*python.JSONError); ok {
		return outcome{}, troublef(bad.Class, "the results of uipath eval: %v", bad)
	}
	if err != nil {
		return outcome{}, err
	}
	results, ok := value.(*python.Dict)
	if !ok {
		return outcome{}, troublef("ValueError", "the results of uipath eval are no JSON object")
	}
	return thresholdsMet(c.Thresholds, metricsOf(results)), nil
}

// thresholdsMet scores the share of metrics that reach their minimum.
func thresholdsMet(thresholds, metrics map[string]float64) outcome {
	if len(thresholds) == 0 {
		return outcome{score: 1, details: "No metric has a minimum."}
	}
	met := 0
	p := &parts{}
	for _, name := range slices.Sorted(maps.Keys(thresholds)) {
		value, ok := metrics[name]
		switch {
		case !ok:
			p.line(fmt.Sprintf("%s: not measured, minimum %s", name, python.FormatFloat(thresholds[name])), "", nil)
		default:
			p.line(fmt.Sprintf("%s: %s, minimum %s", name, python.FormatFloat(value), python.FormatFloat(thresholds[name])), "", nil)
			if value >= thresholds[name] {
				met++
			}
		}
	}
	p.scores = append(p.scores, float64(met)/float64(len(thresholds)))
	return p.outcome()
}

// metricsOf gives the mean score of each evaluator over all evaluations; a
// document without evaluations is taken to be the metrics themselves.
func metricsOf(results *python.Dict) map[string]float64 {
	metrics := map[string]float64{}
	evaluations, ok := get(results, "evaluationSetResults").([]any)
	if !ok || len(evaluations) == 0 {
		for _, name := range results.Keys() {
			if value, ok := asFloat(get(results, name)); ok {
				metrics[name] = value
			}
		}
		return metrics
	}
	scores := map[string][]float64{}
	for _, evaluation := range evaluations {
		runs, _ := get(evaluation, "evaluationRunResults").([]any)
		for _, run := range runs {
			name, ok := get(run, "evaluatorName").(string)
			if !ok {
				name, ok = get(run, "evaluatorId").(string)
			}
			if score, isNumber := asFloat(get(get(run, "result"), "score")); ok && isNumber {
				scores[name] = append(scores[name], score)
			}
		}
	}
	for name, values := range scores {
		metrics[name] = tasks.Sum(values) / float64(len(values))
	}
	return metrics
}

// get gives the value of a key, nil when v is no mapping or has none.
func get(v any, key string) any {
	dict, ok := v.(*python.Dict)
	if !ok {
		return nil
	}
	value, _ := dict.Get(key)
	return value
}

// asFloat gives a number, or a boolean as 0 or 1.
func asFloat(v any) (float64, bool) {
	switch v := v.(type) {
	case bool:
		return binary(v), true
	case int64:
		return float64(v), true
	case *big.Int:
		f, _ := new(big.Float).SetInt(v).Float64()
		return f, true
	case float64:
		return v, true
	}
	return 0, false
}
