package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"podgrade/policy"
	"podgrade/regrade"
	"podgrade/tasks"
	"podgrade/tasks/record"
)

// runProgress is the progress of a run, with a log of it where one is asked
// for.
func runProgress(c *cli.Context, rows int) (progress, error) {
	shown := newProgress(c, rows)
	name := c.String("log-file")
	if name == "" {
		return shown, nil
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		shown.End()
		return nil, &regrade.Error{Kind: regrade.User, Tried: "open the log", On: name, Why: err, Do: "name a file that you can write with --log-file"}
	}
	return &logged{progress: shown, lines: &plainLines{out: file, rows: rows, verbose: true}, file: file}, nil
}

// logged writes what happens to a file too.
type logged struct {
	progress
	lines *plainLines
	file  *os.File
}

// Write writes a notice.
func (l *logged) Write(text []byte) (int, error) {
	l.lines.Write(text)
	return l.progress.Write(text)
}

// Observe shows an event.
func (l *logged) Observe(e regrade.Event) {
	l.lines.Observe(e)
	l.progress.Observe(e)
}

// End closes the log.
func (l *logged) End() {
	l.progress.End()
	l.file.Close()
}

// printFound says what there is to do.
func printFound(out io.Writer, f regrade.Found, o regrade.RunOptions) {
	what := "to execute"
	if o.Grade {
		what = "to execute and grade"
	}
	parts := []string{rowCount(f.Execute) + " " + what + clearedText(f)}
	if o.Resume {
		parts = append(parts, rowCount(f.Finished)+" finished before")
	}
	if f.Grade > 0 {
		parts = append(parts, rowCount(f.Grade)+" only to grade")
	}
	fmt.Fprintf(out, "%s; %d at once\n", strings.Join(parts, ", "), o.Parallel)
}

// clearedText says which of the rows that are executed are there already.
func clearedText(f regrade.Found) string {
	var cleared []string
	if f.Changed > 0 {
		cleared = append(cleared, finishedCount(f.Changed)+" whose task has changed")
	}
	if f.Retried > 0 {
		cleared = append(cleared, finishedCount(f.Retried)+" that had ended badly")
	}
	if begun := f.Cleared - f.Changed - f.Retried; begun > 0 {
		cleared = append(cleared, rowCount(begun)+" begun before")
	}
	if len(cleared) == 0 {
		return ""
	}
	return " (of them, and first removed: " + strings.Join(cleared, ", ") + ")"
}

func finishedCount(n int) string {
	if n == 1 {
		return "1 finished row"
	}
	return fmt.Sprintf("%d finished rows", n)
}

func rowCount(n int) string {
	if n == 1 {
		return "1 row"
	}
	return fmt.Sprintf("%d rows", n)
}

// mostBadRows bounds the rows that are listed at the end.
const mostBadRows = 50

// printRun says what a run came to: the rows that did not pass, and counts, also of
// the task files that were left out.
func printRun(out io.Writer, result *regrade.RunResult, skipped []tasks.Skip) error {
	w := bufio.NewWriter(out)
	var graded, passed, ungraded, refused, lost, unrecorded, notRun int
	var troubles []string
	for _, row := range result.Rows {
		switch {
		case row.Status == "":
			notRun++
		case row.Score != nil:
			graded++
		case row.Unrecorded:
			unrecorded++
		case row.Owed && row.Err != nil && result.Graded:
			refused++
		case row.Status.Category() == record.Ungraded, row.Owed:
			ungraded++
		default:
			lost++
		}
		if row.Status == record.Success {
			passed++
		}
		text := rowTrouble(row, result.Graded)
		if text == "" {
			continue
		}
		if row.Kept && len(troubles) < mostBadRows {
			text += keptReasons(result.Dir, row.Job)
		}
		troubles = append(troubles, text)
	}
	listed(w, troubles)
	printMissed(w, result.Missed)
	if len(result.Rows) == 0 {
		fmt.Fprintln(w, "no row was run: podgrade plan, with the same files and the options that choose and change tasks, says why each file is left out")
	}
	if notRun > 0 {
		fmt.Fprintf(w, "%d of %d rows were not run\n", notRun, len(result.Rows))
	}
	if ungraded > 0 {
		fmt.Fprintf(w, "%d of %d rows executed and not graded; podgrade run, with the same files and options and --resume --run-dir %s, grades them\n",
			ungraded, len(result.Rows), policy.Neutral(result.Dir))
	}
	if refused > 0 {
		fmt.Fprintf(w, "%d of %d rows executed, and their grade failed; with what is said above mended, podgrade run --resume --run-dir %s grades them\n",
			refused, len(result.Rows), policy.Neutral(result.Dir))
	}
	if unrecorded > 0 {
		fmt.Fprintf(w, "%d of %d rows could not be executed and have no record; with --resume --run-dir %s they are executed\n",
			unrecorded, len(result.Rows), policy.Neutral(result.Dir))
	}
	if lost > 0 {
		fmt.Fprintf(w, "%d of %d rows ended with an error and cannot be graded; with --resume --retry error they are executed again, and with --rerun-changed where their files were corrected\n", lost, len(result.Rows))
	}
	var ends []string
	if graded > 0 {
		ends = append(ends, fmt.Sprintf("%d of %d graded rows succeeded", passed, graded))
	}
	if text := leftOut(skipped); text != "" {
		ends = append(ends, text)
	}
	if len(ends) > 0 {
		fmt.Fprintln(w, strings.Join(ends, "; "))
	}
	if result.Reported { // else a warning has said why not
		fmt.Fprintf(w, "report: %s\n", policy.Neutral(filepath.Join(result.Dir, record.RunPage)))
	}
	return w.Flush()
}

// printMissed names the suites that missed a threshold.
func printMissed(w io.Writer, missed []*record.Suite) {
	for _, suite := range missed {
		fmt.Fprintf(w, "the suite %s of %s missed a threshold\n", policy.Neutral(suite.SuiteID), policy.Neutral(suite.VariantID))
	}
}

// leftOut counts the task files that took no part in a run; "" when there is none.
func leftOut(skipped []tasks.Skip) string {
	asked := 0
	for _, skip := range skipped {
		if errors.Is(skip.Reason, tasks.ErrSkip) {
			asked++
		}
	}
	var parts []string
	if wrong := len(skipped) - asked; wrong > 0 {
		parts = append(parts, fileCount(wrong)+" with an error")
	}
	if asked > 0 {
		parts = append(parts, fileCount(asked)+" with "+tasks.ErrSkip.Error())
	}
	if len(parts) == 0 {
		return ""
	}
	return "left out: " + strings.Join(parts, ", ")
}

func fileCount(n int) string {
	if n == 1 {
		return "1 task file"
	}
	return fmt.Sprintf("%d task files", n)
}

// rowTrouble is a line about a row that did not pass; "" for others.
func rowTrouble(row regrade.RowResult, graded bool) string {
	name := policy.Neutral(row.Job.Identity().String())
	switch {
	case row.Err != nil:
		return fmt.Sprintf("! %s: %s", name, errorLine(row.Err))
	case row.Status == record.Success, row.Status == record.NotGraded && !graded, row.Status == "":
		return ""
	}
	text := statusLine(name, row.Status, row.Score)
	if row.Message != "" {
		text += ": " + policy.Clip(row.Message, mostError)
	}
	return text + failedCriteria(row.Verdict)
}

// statusLine is what a row that did not pass came to; its name is safe to print.
func statusLine(name string, status record.Status, score *float64) string {
	text := fmt.Sprintf("%s %s: %s", status.Icon(), name, status)
	if score != nil {
		text += fmt.Sprintf(", score %.3f", *score)
	}
	return text
}

// listed prints the first rows of those that did not pass, and says how many more
// there are.
func listed(w io.Writer, troubles []string) {
	for _, text := range troubles[:min(len(troubles), mostBadRows)] {
		fmt.Fprintln(w, text)
	}
	if more := len(troubles) - mostBadRows; more > 0 {
		fmt.Fprintf(w, "and %d more rows\n", more)
	}
}

// mostCriteria bounds the criteria of a row that are listed at the end.
const mostCriteria = 3

// failedCriteria says why a row that was graded now did not pass, a line for
// each criterion; the row's log has the rest.
func failedCriteria(v *regrade.Verdict) string {
	if v == nil {
		return ""
	}
	var failed failedList
	for _, r := range v.Results {
		if r.Gating && !r.Passed() {
			failed.add(r.Score, r.CriterionType, r.Description, r.Reason())
		}
	}
	return failed.String()
}

// keptReasons says the same of a row that was finished before, as its record has it.
func keptReasons(run string, job regrade.Job) string {
	row, err := record.OpenRowDir(run, job.Row.Dir())
	if err != nil {
		return ""
	}
	defer row.Close()
	rec, _, err := row.Read()
	if err != nil {
		return ""
	}
	text := ""
	if message, _ := rec.Get(record.FieldErrorMessage).Text(); message != "" {
		text = ": " + policy.Clip(message, mostError)
	}
	var failed failedList
	for _, r := range rec.CriterionResults() {
		if r.Gating && !r.Passed {
			failed.add(r.Score, r.Type, r.Description, r.Reason())
		}
	}
	return text + failed.String()
}

// failedList is a line for each criterion that failed, of the first ones.
type failedList struct {
	text strings.Builder
	n    int
}

func (l *failedList) add(score float64, kind, description, reason string) {
	if l.n++; l.n <= mostCriteria {
		fmt.Fprintf(&l.text, "\n    - %.3f  %s  %s: %s", score, policy.Neutral(kind), policy.Clip(description, mostDescription), policy.Clip(reason, mostReason))
	}
}

func (l *failedList) String() string {
	if l.n > mostCriteria {
		return fmt.Sprintf("%s\n    and %d more criteria, in the row's %s", l.text.String(), l.n-mostCriteria, record.GradeLog)
	}
	return l.text.String()
}
