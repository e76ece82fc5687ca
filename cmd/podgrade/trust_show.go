package main

import (
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"podgrade/policy"
	"podgrade/regrade"
)

const trustShowHelp = `Shows all that a grade of the row in ROW would use beyond the seal of its cell,
what it does not get, and the plan's hash. With that hash

  podgrade evaluate ROW --accept-plan HASH

accepts what was shown, and nothing else: the grade is refused when the row then
asks for anything else. The options are those of evaluate that change what a grade
asks for. Nothing is started, and of what the record names only names and metadata
are read.

Exit codes: 0 it is shown; 1 the record has a fault; 2 it can never be granted,
the policy file denies it, or the command line is wrong.`

func trustShowCommand() *cli.Command {
	return &cli.Command{
		Name:         "show",
		Usage:        "show what a grade of a row would ask for",
		ArgsUsage:    "ROW",
		Description:  trustShowHelp,
		Flags:        append(planFlags(), &cli.BoolFlag{Name: "json", Usage: "print JSON"}),
		OnUsageError: usageError,
		Before:       takeDotenv, // as evaluate, so that both see the same variables
		Action:       showTrust,
	}
}

// shownPlan is what trust show prints as JSON.
type shownPlan struct {
	Row      string        `json:"row"`
	SHA256   string        `json:"sha256"` // what --accept-plan takes
	Phase    string        `json:"phase"`
	Place    policy.Place  `json:"place"`
	Grants   []shownGrant  `json:"grants"`
	Absent   []string      `json:"absent"`
	SignedBy policy.Signer `json:"signed_by"`
	// Canonical is what the hash is taken of.
	Canonical string `json:"canonical"`
}

// shownGrant is a grant, and whether policy file or signature answer for it.
type shownGrant struct {
	policy.Grant
	Accepted bool `json:"accepted"`
}

func showTrust(c *cli.Context) error {
	if c.NArg() != 1 {
		return usage(c, "trust show takes one row directory, and %d arguments were given", c.NArg())
	}
	options, err := planOptions(c)
	if err != nil {
		return err
	}
	row, err := regrade.OpenRow(c.Args().First())
	if err != nil {
		return err
	}
	defer row.Close()
	asked, err := regrade.Asks(row, options)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, shown(c.Args().First(), asked))
	}
	return printAsked(c, asked)
}

func shown(row string, asked policy.Asked) shownPlan {
	plan := asked.Plan
	made := shownPlan{Row: row, SHA256: plan.Hash(), Phase: string(plan.Phase), Place: plan.Place, Absent: plan.Absent(), SignedBy: asked.SignedBy,
		Grants: []shownGrant{}, Canonical: string(plan.Canonical())}
	for _, g := range plan.Grants {
		made.Grants = append(made.Grants, shownGrant{g, !slices.Contains(asked.Open, g)})
	}
	return made
}

func printAsked(c *cli.Context, asked policy.Asked) error {
	out := c.App.Writer
	fmt.Fprint(out, asked.Plan.Page())
	switch {
	case len(asked.Open) == 0 && asked.SignedBy == policy.Own:
		fmt.Fprintln(out, "all of it is accepted: the row is signed with your own key")
	case len(asked.Open) == 0:
		fmt.Fprintln(out, "all of it is accepted: nobody would be asked")
	case len(asked.Open) < len(asked.Plan.Grants):
		fmt.Fprintf(out, "accepted already: %d of these; left to answer:\n%s", len(asked.Plan.Grants)-len(asked.Open), policy.Page(asked.Open))
	}
	_, err := fmt.Fprintf(out, "plan %s\n", asked.Plan.Hash())
	return err
}
