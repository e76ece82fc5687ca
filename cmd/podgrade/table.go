package main

import (
	"bufio"
	"fmt"
	"io"
	"text/tabwriter"

	"podgrade/policy"
	"podgrade/regrade"
	"podgrade/tasks/criteria"
	"podgrade/tasks/record"
)

// Characters of a description and of a reason that a line of the table shows,
// and of an error, which ends with what to do.
const (
	mostDescription = 72
	mostReason      = 160
	mostError       = 800
)

// printVerdict prints the criteria, the counts over those that gate, what became of
// the row, and where that stands: dir is the row's. Every string of the record or
// the cell is neutralised. The error is of the writer.
func printVerdict(out io.Writer, v *regrade.Verdict, dir string) error {
	w := bufio.NewWriter(out)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\tSCORE\tTYPE\tCRITERION")
	var passed, failed, informational int
	for _, result := range v.Results {
		mark := "+"
		switch {
		case !result.Gating:
			mark = "i"
			informational++
		case result.Passed():
			passed++
		default:
			mark = "-"
			failed++
		}
		fmt.Fprintf(table, "%s\t%.3f\t%s\t%s\n", mark, result.Score,
			policy.Neutral(result.CriterionType), policy.Clip(result.Description, mostDescription))
	}
	table.Flush()
	for _, result := range v.Results {
		printReason(w, result)
	}
	fmt.Fprintf(w, "\n%d passed, %d failed, %d informational\n", passed, failed, informational)
	printRow(w, v)
	fmt.Fprintf(w, "in %s: %s, %s; %s is the record before its first grade\n", policy.Neutral(dir), record.TaskFile, record.GradeLog, record.ExecuteFile)
	return w.Flush()
}

// printReason says why a criterion did not pass.
func printReason(w io.Writer, result criteria.Result) {
	if result.Passed() {
		return
	}
	if reason := result.Reason(); reason != "" {
		fmt.Fprintf(w, "  %s: %s\n", policy.Clip(result.Description, mostDescription), policy.Clip(reason, mostReason))
	}
}

func printRow(w io.Writer, v *regrade.Verdict) {
	fmt.Fprintf(w, "%s: %s -> %s %s, score %.3f, graded %s\n",
		policy.Neutral(v.Row.String()), v.Before, v.Status.Icon(), v.Status, v.Score, where(v.Place))
	if v.Inherited {
		fmt.Fprintf(w, "The run itself ended as %s, which no grade changes.\n", v.Status)
	}
	for _, stamp := range v.Stamps {
		fmt.Fprintf(w, "stamp %s: %s\n", stamp.Name, policy.Clip(string(stamp.Value), mostReason))
	}
	printClean(w, v)
}

// printClean says what became of the clean room, when it was asked for.
func printClean(w io.Writer, v *regrade.Verdict) {
	clean := v.Clean
	if clean == nil {
		return
	}
	if !v.DependsOnSystem() {
		fmt.Fprintf(w, "clean room (%s): the same verdict\n", clean.Base)
		return
	}
	fmt.Fprintf(w, "clean room (%s): %s, score %.3f: the verdict depends on what the agent changed in the system\n", clean.Base, clean.Status, clean.Score)
	for _, d := range clean.Differences {
		about := d.What
		if d.Criterion > 0 {
			about = fmt.Sprintf("criterion %d (%s) %s", d.Criterion, policy.Clip(d.Description, mostDescription), d.What)
		}
		fmt.Fprintf(w, "  %s: %s, in the clean room %s\n", about, policy.Clip(d.Before, mostReason), policy.Clip(d.After, mostReason))
	}
}

func where(place policy.Place) string {
	if place == policy.OnHost {
		return "on the host"
	}
	return "in a cell"
}
