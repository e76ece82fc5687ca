package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"podgrade/policy"
	"podgrade/regrade"
)

// errorLine is an error in a list of rows, safe to print.
func errorLine(err error) string {
	var refusal *policy.Refusal
	if errors.As(err, &refusal) {
		return refusal.Brief()
	}
	return policy.Clip(err.Error(), mostError)
}

// policyFlag names the policy file.
func policyFlag() cli.Flag {
	return &cli.StringFlag{Name: "policy", Usage: "what records may ask for without asking, and what never: the policy `FILE`", DefaultText: "podgrade/policy.yaml in XDG_CONFIG_HOME, where there is one"}
}

// acceptPlanFlag accepts what trust show has shown.
func acceptPlanFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "accept-plan", Usage: "accept the plan that trust show gives `HASH` to, and nothing else; may be given again, for rows that ask for different things"}
}

// policyOf reads the policy file; nil when there is none.
func policyOf(c *cli.Context) (*policy.File, error) {
	name, _ := policy.DefaultFile()
	read := policy.OpenDefault
	if named := c.String("policy"); c.IsSet("policy") {
		name, read = named, func() (*policy.File, error) { return policy.OpenFile(named) }
	}
	file, err := read()
	if err != nil {
		do := "correct it (docs/policy.schema.json says what it holds); nothing is done by a policy that is not understood"
		var fault *policy.FileFault
		switch {
		case c.IsSet("policy") && errors.Is(err, fs.ErrNotExist):
			do = "name one that is there, or leave --policy out"
		case errors.As(err, &fault):
			do = fault.Do
		case name == "":
			do = "set HOME or XDG_CONFIG_HOME, or name a policy file by --policy"
		}
		return nil, &regrade.Error{Kind: regrade.User, Tried: "read the policy file", On: name, Why: err, Do: do}
	}
	return file, nil
}

// answerOf is what the options say about what records ask for.
func answerOf(c *cli.Context) (policy.Answer, error) {
	file, err := policyOf(c)
	if err != nil {
		return policy.Answer{}, err
	}
	plans := c.StringSlice("accept-plan")
	for _, plan := range plans {
		if !policy.IsHash(plan) {
			return policy.Answer{}, usage(c, "--accept-plan takes the 64 hexadecimal digits of podgrade trust show, not %q", plan)
		}
	}
	if len(plans) > 0 && c.Bool("allow-recorded-commands") {
		return policy.Answer{}, usage(c, "--accept-plan and --allow-recorded-commands exclude each other: the one accepts a single plan, the other any")
	}
	return policy.Answer{RecordedCommands: c.Bool("allow-recorded-commands"), Plans: plans, Policy: file}, nil
}

// askFor shows what rows ask for and asks whether it may happen, where somebody is
// at a terminal who has not answered by an option. What is agreed to is compared
// again when a row is graded: a record that was changed meanwhile is refused. Rows
// about which there is nothing to ask, or whose grade will say what is wrong, are
// left to their grade.
func askFor(c *cli.Context, targets []regrade.Target, o *regrade.Options) error {
	if !mayAsk(c) || o.Answer.RecordedCommands || len(o.Answer.Plans) > 0 {
		return nil
	}
	seen := map[string]bool{}
	for _, target := range targets {
		if target.Err != nil || target.Given != nil {
			continue
		}
		asked, err := asks(target.Dir, *o)
		if err != nil || len(asked.Open) == 0 || seen[asked.Plan.Hash()] {
			continue
		}
		seen[asked.Plan.Hash()] = true
		yes, err := question(c, target.Dir, asked)
		if err != nil {
			return err
		}
		if yes {
			o.Answer.Agreed = append(o.Answer.Agreed, asked.Plan.Hash())
			continue
		}
		if len(targets) == 1 {
			return &policy.Refusal{What: "you did not accept what the record asks for, and nothing was started", Do: "to accept it without a question, give --accept-plan " + asked.Plan.Hash()}
		}
	}
	return nil
}

// asks looks at one row, and leaves it to the row's grade to say what is odd.
func asks(dir string, o regrade.Options) (policy.Asked, error) {
	o.Notice = io.Discard
	row, err := regrade.OpenRow(dir)
	if err != nil {
		return policy.Asked{}, err
	}
	defer row.Close()
	return regrade.Asks(row, o)
}

// mayAsk tells whether somebody is there to answer: never where a program reads
// what is printed, and never in continuous integration, whose terminals nobody
// looks at.
func mayAsk(c *cli.Context) bool {
	ci := os.Getenv("CI")
	return isTerminal(os.Stdin) && isTerminal(os.Stderr) && !c.Bool("json") && (ci == "" || ci == "false" || ci == "0")
}

// question shows one plan and asks. Only y and yes are a yes; what was typed
// before the question was there is not an answer to it.
func question(c *cli.Context, dir string, asked policy.Asked) (bool, error) {
	out := c.App.ErrWriter
	fmt.Fprintf(out, "%s asks for more than a sealed cell:\n%s", policy.Neutral(dir), asked.Plan.Page())
	if more := len(asked.Plan.Grants) - len(asked.Open); more > 0 {
		fmt.Fprintf(out, "accepted already: %d of these; this is about the rest:\n%s", more, policy.Page(asked.Open))
	}
	fmt.Fprintf(out, "plan %s\n", asked.Plan.Hash())
	unix.IoctlSetInt(int(os.Stdin.Fd()), unix.TCFLSH, unix.TCIFLUSH)
	fmt.Fprint(out, "May all of it happen? [y/N] ")
	line, err := typedLine(c.Context, os.Stdin, "nothing was accepted and nothing was started")
	if err != nil {
		fmt.Fprintln(out)
		return false, err
	}
	return isYes(line), nil
}

// isYes tells whether a line that was typed is a yes: only y and yes are.
func isYes(line string) bool {
	return slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(line)))
}

// typedLine is one line from a terminal, and not a byte more: a shell reads the
// rest. An end before the line has one is an empty line.
// An interrupt says what did not happen.
func typedLine(ctx context.Context, in *os.File, otherwise string) (string, error) {
	lines := make(chan string, 1)
	go func() {
		var line strings.Builder
		for one := make([]byte, 1); ; {
			if n, err := in.Read(one); n == 0 || err != nil {
				lines <- "" // who has not finished a line has not answered
				return
			}
			if one[0] == '\n' {
				lines <- line.String()
				return
			}
			line.WriteByte(one[0])
		}
	}()
	select {
	case line := <-lines:
		return line, nil
	case <-ctx.Done():
		return "", &regrade.Interrupted{What: otherwise}
	}
}
