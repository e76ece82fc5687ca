package criteria

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"podgrade/tasks"
	"podgrade/tasks/criteria/python"
)

// Limits of what details hold, in characters (task-file 7.8).
const (
	streamLimit   = 4000
	expectedLimit = 200
)

// ran is a finished command as the compatible system would have seen it.
type ran struct {
	exit           Exit
	code           int
	stdout, stderr string
}

// run runs a command line. A time-out gives exit code -1, no standard output
// and a message on standard error, whatever the command had printed.
func (j *judging) run(ctx context.Context, line string, timeout time.Duration) (ran, error) {
	// No time at all is a time-out at once; Command's 0 would mean "none".
	exit, err := j.where.Cell.Run(ctx, Command{Line: line, Timeout: max(timeout, 1), Label: j.label()})
	if NotStarted(err) {
		return ran{}, startTrouble(err)
	}
	if err != nil {
		return ran{}, err
	}
	if j.where.Sink != nil {
		j.where.Sink.Command(j.label(), line, exit)
	}
	switch {
	case exit.NoShell:
		return ran{}, troublef("FileNotFoundError", "the cell has no shell that could run the command")
	case exit.TimedOut:
		return ran{exit: exit, code: -1, stderr: fmt.Sprintf("Command timed out after %g seconds", timeout.Seconds())}, nil
	}
	return ran{
		exit: exit, code: exit.Code,
		stdout: python.Newlines(python.DecodeReplace(exit.Stdout.Text)),
		stderr: python.Newlines(python.DecodeReplace(exit.Stderr.Text)),
	}, nil
}

// startTrouble is what Python raises for a command that cannot be started.
func startTrouble(err error) error {
	class := "OSError"
	switch {
	case errors.Is(err, ErrNotExist):
		class = "FileNotFoundError"
	case errors.Is(err, ErrDenied):
		class = "PermissionError"
	}
	return troublef(class, "the command was not started: %v", err)
}

// longestTimeout is what a longer time-out counts as: the format has no bound,
// and a number of nanoseconds has.
const longestTimeout = 365 * 24 * 3600

// runCommand runs a shell line in the sandbox (task-file 7.8).
func (j *judging) runCommand(ctx context.Context, c *tasks.RunCommand) (outcome, error) {
	r, err := j.run(ctx, c.Command, time.Duration(max(0, min(c.Timeout, longestTimeout)))*time.Second)
	if err != nil {
		return outcome{}, err
	}
	var found outcome
	if c.ScoreFromStdout {
		found = scoreFromStdout(c, r)
	} else if found, err = j.compareCommand(c, r); err != nil {
		return outcome{}, err
	}
	found.details = j.commandDetails(c, r, found)
	found.output = &CommandOutput{StdoutBytes: r.exit.Stdout.Bytes, StdoutSHA256: r.exit.Stdout.SHA256}
	return found, nil
}

// compareCommand scores by exit code and expected output.
func (j *judging) compareCommand(c *tasks.RunCommand, r ran) (outcome, error) {
	if r.code != c.ExpectedExitCode {
		return outcome{}, nil
	}
	if c.ExpectedStdout != nil {
		same, err := j.stdoutMatches(c, r.stdout)
		if err != nil || !same {
			return outcome{}, err
		}
	}
	return outcome{score: 1}, nil
}

// stdoutMatches compares the output. A pattern that Python refuses too is no
// match, and noted.
func (j *judging) stdoutMatches(c *tasks.RunCommand, stdout string) (bool, error) {
	expected := *c.ExpectedStdout
	switch c.StdoutMatch {
	case "contains":
		return strings.Contains(python.Strip(stdout), python.Strip(expected)), nil
	case "regex":
		_, found, err := j.search(expected, 0, stdout)
		if bad := (*badPattern)(nil); asBadPattern(err, &bad) {
			j.note(bad.Error())
			return false, nil
		}
		return found, err
	}
	return python.Strip(stdout) == python.Strip(expected), nil
}

// scoreFromStdout takes the first line of the output as the score. Upstream's
// guide says that a non-zero exit code is 0; its code compares with the
// expected one, and so do we: a checker may use its exit code for more
// (task-file 9).
func scoreFromStdout(c *tasks.RunCommand, r ran) outcome {
	if r.code != c.ExpectedExitCode {
		return outcome{err: fmt.Sprintf("Exit code %d, expected %d: no score is read from the output", r.code, c.ExpectedExitCode)}
	}
	line, _, _ := strings.Cut(r.stdout, "\n")
	score, err := python.ParseFloat(line)
	if err != nil {
		shown, _ := python.Cut(line, expectedLimit)
		return outcome{err: fmt.Sprintf("The first line of the output is no number: '%s'", shown)}
	}
	if math.IsNaN(score) || math.IsInf(score, 0) {
		return outcome{err: fmt.Sprintf("The first line of the output is no finite number: '%s'", python.FormatFloat(score))}
	}
	return outcome{score: min(max(score, 0), 1)}
}

// commandDetails says what was run and what came out.
func (j *judging) commandDetails(c *tasks.RunCommand, r ran, found outcome) string {
	var b strings.Builder
	b.WriteString(commandSummary(c, r, found))
	fmt.Fprintf(&b, "\nCommand: %s\nExit code: %d (expected %d)\n", c.Command, r.code, c.ExpectedExitCode)
	if r.exit.Held {
		b.WriteString("The command itself had ended; a process that it left in the background held its output open.\n")
	}
	if r.exit.TimedOut {
		b.WriteString("The time-out ended all that ran in the cell, what earlier commands had left running too.\n")
	}
	if r.exit.CellEnded {
		b.WriteString("The command ended its own cell.\n")
	}
	if c.ExpectedStdout != nil {
		fmt.Fprintf(&b, "Expected stdout (%s): %s\n", c.StdoutMatch, cutNote(*c.ExpectedStdout, expectedLimit))
		if r.exit.Stdout.Dropped > 0 {
			fmt.Fprintf(&b, "Only a part of the %d bytes of stdout was kept and compared.\n", r.exit.Stdout.Bytes)
		}
	}
	if found.score < j.PassThreshold {
		b.WriteString(j.networkNote(r.exit))
	}
	fmt.Fprintf(&b, "Stdout:\n%s\nStderr:\n%s", cutNote(r.stdout, streamLimit), cutNote(r.stderr, streamLimit))
	return b.String()
}

// commandSummary is the first line of the details: the one that a reader of a
// failed row sees first.
func commandSummary(c *tasks.RunCommand, r ran, found outcome) string {
	switch {
	case r.exit.TimedOut:
		return fmt.Sprintf("The command timed out after %d seconds.", c.Timeout)
	case r.code != c.ExpectedExitCode:
		return fmt.Sprintf("The command ended with exit code %d, not %d.", r.code, c.ExpectedExitCode)
	case found.err != "":
		return found.err + "."
	case c.ScoreFromStdout:
		return fmt.Sprintf("The command printed the score %s.", python.FormatFloat(found.score))
	case found.score == 0:
		return fmt.Sprintf("The output of the command does not match (%s).", c.StdoutMatch)
	}
	return fmt.Sprintf("The command ended with exit code %d, as expected.", r.code)
}

// networkNote says that a command missed the network that this cell withholds.
func (j *judging) networkNote(exit Exit) string {
	if !j.where.NetworkWithheld || exit.NetworkAttempts == 0 {
		return ""
	}
	return fmt.Sprintf("The command tried to reach a network %d times; the run had one, and this cell has none.\n", exit.NetworkAttempts)
}

// cutNote cuts text, and says how many characters were dropped.
func cutNote(text string, limit int) string {
	kept, dropped := python.Cut(text, limit)
	if dropped == 0 {
		return kept
	}
	return fmt.Sprintf("%s... [%d more characters]", kept, dropped)
}
