package main

import (
	"bufio"
	"fmt"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"podgrade/policy"
	"podgrade/regrade"
)

// printGraded prints a table of many rows, in their order, why some did not pass,
// and the counts.
// Events as JSON have said it all.
func printGraded(c *cli.Context, results []regrade.Graded) error {
	if c.Bool("json") {
		return nil
	}
	w := bufio.NewWriter(c.App.Writer)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\tSCORE\tSTATUS\tROW\tBEFORE\tSTAMPS")
	passed, graded := 0, 0
	var troubles []string
	for _, r := range results {
		if r.Verdict == nil {
			fmt.Fprintf(table, "!\t-\tnot graded\t%s\t%s\t\n", policy.Neutral(r.Dir), stays)
			continue
		}
		graded++
		if r.Verdict.Passed() {
			passed++
		}
		fmt.Fprintf(table, "%s\t%.3f\t%s\t%s\t%s\t%s\n", r.Verdict.Status.Icon(), r.Verdict.Score, r.Verdict.Status,
			policy.Neutral(r.Dir), recordedText(r.Verdict), stampList(r.Verdict))
		if !r.Verdict.Passed() {
			troubles = append(troubles, statusLine(policy.Neutral(r.Dir), r.Verdict.Status, &r.Verdict.Score)+failedCriteria(r.Verdict))
		}
	}
	table.Flush()
	listed(w, troubles)
	for _, r := range results {
		if r.Verdict != nil && r.Verdict.DependsOnSystem() {
			fmt.Fprintf(w, "%s: ", policy.Neutral(r.Dir))
			printClean(w, r.Verdict)
		}
	}
	fmt.Fprintf(w, "\n%d of %d rows graded, %d passed\n", graded, len(results), passed)
	return w.Flush()
}

// stays stands for the verdict before a grade that gave none: the record has it
// still.
const stays = "as it was"

// recordedText is the verdict that a row had before this grade.
func recordedText(v *regrade.Verdict) string {
	if v.Recorded.Score == nil {
		return string(v.Recorded.Status)
	}
	return fmt.Sprintf("%s %.3f", v.Recorded.Status, *v.Recorded.Score)
}
