package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"podgrade/policy"
	"podgrade/regrade"
	"podgrade/tasks/record"
)

const trustVerifyHelp = `Says who has signed each row and its verdict, and what of it is not as it was
signed. A signature by a key that is neither yours nor trusted counts as none.
The workspace is not looked at, which a line says: a grade compares it.

Exit codes: 0 all is as somebody known has signed it; 1 something is not, or is
not signed; 2 the command line is wrong.`

func trustVerifyCommand() *cli.Command {
	return &cli.Command{
		Name:         "verify",
		Usage:        "say who has signed rows and their verdicts",
		ArgsUsage:    "ROW... | RUN...",
		Description:  trustVerifyHelp,
		Flags:        []cli.Flag{policyFlag(), &cli.BoolFlag{Name: "json", Usage: "print a JSON object a line, one for each row"}},
		OnUsageError: usageError,
		Action:       trustVerify,
	}
}

func trustVerify(c *cli.Context) error {
	if c.NArg() == 0 {
		return usage(c, "trust verify takes a row or a run directory, and no argument was given")
	}
	file, err := policyOf(c)
	if err != nil {
		return err
	}
	known, code := regrade.Signers{Keys: userKeys(), Trusted: file.TrustedKeys()}, regrade.ExitPassed
	var results []regrade.Graded
	for _, target := range regrade.Targets(c.Args().Slice()) {
		if c.Context.Err() != nil {
			return &regrade.Interrupted{What: "not all rows were looked at"}
		}
		found, err := verifyRow(target.Dir, known)
		if err == nil {
			err = printVouched(c, found)
		}
		if err != nil {
			results = append(results, regrade.Graded{Dir: target.Dir, Err: err})
			code = regrade.Worse(code, regrade.ExitCode(err))
		} else if !found.Holds() {
			code = regrade.Worse(code, regrade.ExitFailed)
		}
	}
	return ended(code, regrade.Failures(results))
}

func verifyRow(dir string, known regrade.Signers) (regrade.Vouched, error) {
	row, err := regrade.OpenRow(dir)
	if err != nil {
		return regrade.Vouched{}, err
	}
	defer row.Close()
	return regrade.Verify(row, known)
}

func printVouched(c *cli.Context, v regrade.Vouched) error {
	if c.Bool("json") {
		return json.NewEncoder(c.App.Writer).Encode(v)
	}
	if _, err := fmt.Fprintln(c.App.Writer, policy.Neutral(v.Row)); err != nil {
		return err
	}
	if err := printVouching(c.App.Writer, "executed", v.Execute); err != nil {
		return err
	}
	if v.Verdict != nil {
		if err := printVouching(c.App.Writer, "verdict", *v.Verdict); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(c.App.Writer, "  workspace: %s here; a grade compares it\n", v.Workspace)
	return err
}

func printVouching(w io.Writer, what string, v regrade.Vouching) error {
	says := "as " + v.Signer + " has signed it"
	switch {
	case v.By == policy.Unsigned && v.Lost:
		says = "SIGNATURE LOST: this user's own key had signed it; now " + policy.Neutral(v.Why)
	case v.By == policy.Unsigned:
		says = "not signed: " + policy.Neutral(v.Why)
		if len(v.Differ) > 0 {
			says += "; there " + v.Signer + " has signed another " + partNames(v.Differ)
		}
	case len(v.Without) > 0:
		says += ", who says nothing of the " + partNames(v.Without)
	case len(v.Differ) > 0:
		says = "NOT as " + v.Signer + " has signed it: another " + partNames(v.Differ)
	}
	_, err := fmt.Fprintf(w, "  %-10s %s\n", what+":", says)
	return err
}

func partNames(parts []record.Part) string {
	names := make([]string, len(parts))
	for i, part := range parts {
		names[i] = policy.Neutral(string(part))
	}
	return strings.Join(names, ", ")
}
