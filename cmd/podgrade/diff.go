package main

import (
	"bufio"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"podgrade/policy"
	"podgrade/regrade"
)

const diffHelp = `Compares the recorded verdicts of two rows, or of two runs: status, score, and
every criterion's own. The rows of two runs are the same when variant, task and
replicate are. Nothing is graded. What criteria said, and stamps, are shown where
they differ, but make no difference.

Exit codes: 0 the verdicts are the same; 1 they differ; 2 the command line is
wrong, or a record cannot be read.`

func diffCommand() *cli.Command {
	return &cli.Command{
		Name:         "diff",
		Usage:        "compare the verdicts of two rows or two runs",
		ArgsUsage:    "A B",
		Description:  diffHelp,
		Flags:        []cli.Flag{jsonFlag()},
		OnUsageError: usageError,
		Action:       diff,
	}
}

// jsonFlag is --json of the verbs that print a table.
func jsonFlag() cli.Flag {
	return &cli.BoolFlag{Name: "json", Usage: "print JSON instead of the table"}
}

func diff(c *cli.Context) error {
	if c.NArg() != 2 {
		return usage(c, "diff takes two rows or two runs, and %s given", argumentsWere(c.NArg()))
	}
	list, err := regrade.CompareRecorded(c.Args().Get(0), c.Args().Get(1))
	if err != nil {
		return err
	}
	return printCompared(c, list, regrade.ExitPassed, nil)
}

// printChecked prints what a check of rows came to.
func printChecked(c *cli.Context, results []regrade.Graded) error {
	list := []regrade.Comparison{}
	code := regrade.ExitPassed
	for _, r := range results {
		if r.Verdict == nil {
			code = regrade.Worse(code, regrade.ExitCode(r.Err))
			continue
		}
		list = append(list, regrade.Compare(r.Dir, &r.Verdict.Recorded, &r.Verdict.Found))
	}
	return printCompared(c, list, code, regrade.Failures(results))
}

// printCompared prints comparisons and ends with 1 where one differs; code and
// failed are of what could not be compared.
func printCompared(c *cli.Context, list []regrade.Comparison, code int, failed error) error {
	code = regrade.Worse(code, codeOf(list))
	w := bufio.NewWriter(c.App.Writer)
	var err error
	if c.Bool("json") {
		err = printJSON(w, comparisonsOf(list))
	} else {
		writeCompared(w, list)
	}
	if flushed := w.Flush(); err == nil {
		err = flushed
	}
	if err != nil {
		return &regrade.Error{Kind: regrade.Infrastructure, Tried: "print what differs", Why: err, Do: "print it somewhere else"}
	}
	return ended(code, failed)
}

func codeOf(list []regrade.Comparison) int {
	for _, each := range list {
		if !each.Equal() {
			return regrade.ExitFailed
		}
	}
	return regrade.ExitPassed
}

// writeCompared writes a line for each row, and below it what differs. Every
// string comes from a record.
func writeCompared(w io.Writer, list []regrade.Comparison) {
	different := 0
	for _, each := range list {
		word := "same"
		if !each.Equal() {
			word = "differs"
			different++
		}
		fmt.Fprintf(w, "%s  %s\n", word, policy.Neutral(each.Row))
		for _, d := range each.Differences {
			fmt.Fprintf(w, "  %s\n", differenceText(d))
		}
		for _, d := range each.Notes {
			fmt.Fprintf(w, "  note: %s\n", differenceText(d))
		}
	}
	fmt.Fprintf(w, "\n%d of %d verdicts differ\n", different, len(list))
}

// differenceText is a difference on one line.
func differenceText(d regrade.Difference) string {
	name := d.What
	switch {
	case d.What == regrade.WholeCriterion:
		name = fmt.Sprintf("criterion %d", d.Criterion)
	case d.Criterion > 0:
		name = fmt.Sprintf("criterion %d (%s) %s", d.Criterion, policy.Clip(d.Description, mostDescription), d.What)
	}
	return fmt.Sprintf("%s: %s -> %s", name, orNone(d.Before), orNone(d.After))
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return policy.Clip(text, mostReason)
}

// comparison is the format of diff --json and evaluate --check --json
// (docs/grading.md).
type comparison struct {
	Row         string       `json:"row"`
	Equal       bool         `json:"equal"`
	Differences []difference `json:"differences"`
	Notes       []difference `json:"notes"`
}

type difference struct {
	Criterion   int    `json:"criterion,omitempty"`
	Description string `json:"description,omitempty"`
	What        string `json:"what"`
	Before      string `json:"before"`
	After       string `json:"after"`
}

func comparisonsOf(list []regrade.Comparison) []comparison {
	out := []comparison{}
	for _, each := range list {
		out = append(out, comparison{Row: each.Row, Equal: each.Equal(), Differences: differencesOf(each.Differences), Notes: differencesOf(each.Notes)})
	}
	return out
}

func differencesOf(list []regrade.Difference) []difference {
	out := []difference{}
	for _, d := range list {
		out = append(out, difference{d.Criterion, d.Description, d.What, d.Before, d.After})
	}
	return out
}
