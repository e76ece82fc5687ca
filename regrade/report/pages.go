package report

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"podgrade/tasks/record"
)

// VariantPage is variant.md.
func VariantPage(v *record.Variant) []byte {
	p := &page{}
	p.line("# Variant %s", code(v.VariantID))
	p.table("", "")
	variantRows(p, v)
	return []byte(p.String())
}

func variantRows(p *page, v *record.Variant) {
	p.row("tasks", strconv.Itoa(v.Tasks))
	p.row("replicates", strconv.Itoa(v.Replicates))
	p.row("succeeded", strconv.Itoa(v.Succeeded))
	p.row("failed", strconv.Itoa(v.Failed))
	p.row("error", strconv.Itoa(v.Errored))
	p.row("not graded", strconv.Itoa(v.Ungraded))
	p.row("pass rate", percent(v.PassRate))
	p.row("average score", score(v.AverageScore))
	p.row("average time", seconds(v.AverageDuration))
	p.row("tokens", tokens(v.TotalTokens))
}

func tokens(n *int64) string {
	if n == nil {
		return "not known"
	}
	return strconv.FormatInt(*n, 10)
}

// ExperimentPage is experiment.md: the variants side by side.
func ExperimentPage(e *record.Experiment) []byte {
	p := &page{}
	p.line("# Experiment %s", code(e.ID))
	if e.Description != "" {
		p.line("\n%s", code(e.Description))
	}
	p.table("variant", "tasks", "pass rate", "average score", "average time", "tokens")
	for _, id := range e.VariantIDs {
		v := e.Variants[id]
		p.row(code(id), strconv.Itoa(v.Tasks), percent(v.PassRate), score(v.AverageScore), seconds(v.AverageDuration), tokens(v.TotalTokens))
	}
	p.line("\n## Tasks")
	p.table("task", "variant", "status", "score", "replicates", "best")
	for _, task := range e.Tasks {
		for _, result := range task.Results {
			best := ""
			switch {
			case result.VariantID != task.BestVariant:
			case task.IsTie:
				best = "tie"
			default:
				best = "best"
			}
			p.row(code(task.TaskID), code(result.VariantID), state(record.Status(result.Status)), score(result.Score), strconv.Itoa(result.Replicates), best)
		}
	}
	return []byte(p.String())
}

// SuitePage is suite.md.
func SuitePage(s *record.Suite) []byte {
	p := &page{}
	p.line("# Suite %s", code(s.SuiteID))
	p.table("", "")
	p.row("variant", code(s.VariantID))
	p.row("rows", strconv.Itoa(s.Rows))
	p.row("passed", strconv.Itoa(s.PassedRows))
	p.row("failed", strconv.Itoa(s.FailedRows))
	p.row("error", strconv.Itoa(s.ErroredRows))
	p.row("not graded", strconv.Itoa(s.UngradedRows))
	p.row("pass rate", percent(s.PassRate))
	p.row("average score", score(s.AverageScore))
	p.row("thresholds", reached(s.Passed))
	for i, aggregate := range s.Aggregates {
		aggregated(p, i, aggregate)
	}
	if len(s.Samples) > 0 {
		p.line("\n## Rows that did not pass")
		p.table("row", "status", "score", "reasons")
		for _, sample := range s.Samples {
			reasons := ""
			for i, reason := range sample.Reasons {
				if i > 0 {
					reasons += ", "
				}
				reasons += code(reason)
			}
			if sample.Error != nil && reasons == "" {
				reasons = code(*sample.Error)
			}
			p.row(code(fmt.Sprintf("%s/%02d", sample.TaskID, sample.Replicate)), state(record.Status(sample.Status)), score(sample.Score), reasons)
		}
	}
	return []byte(p.String())
}

func reached(passed bool) string {
	if passed {
		return "reached"
	}
	return "missed"
}

func aggregated(p *page, place int, a *record.CriterionAggregate) {
	p.line("\n## Criterion %d: %s", place+1, code(a.Type+": "+a.Description))
	if a.Error != nil {
		p.line("\n%s", code(*a.Error))
	}
	if len(a.Checks) > 0 {
		p.table("threshold", "at least", "actual", "")
		for _, check := range a.Checks {
			p.row(code(check.Metric), score(&check.Least), score(check.Actual), reached(check.Passed))
		}
	}
	p.table("metric", "value")
	for _, name := range slices.Sorted(maps.Keys(a.Metrics)) {
		value := a.Metrics[name]
		p.row(code(name), score(&value))
	}
	p.row("rows without a result", strconv.Itoa(a.Excluded))
}
