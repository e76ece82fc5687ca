package main

import (
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"podgrade/policy"
	"podgrade/regrade"
)

const trustShowHelp = `Shows all that a grade of the row in ROW would use beyond the seal of its cell,
what it does not get, and the plan's hash. Of a run RUN, or of several rows, it
shows each plan once, with the rows that have it. With that hash

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
		Usage:        "show what a grade of rows would ask for",
		ArgsUsage:    "ROW... | RUN...",
		Description:  trustShowHelp,
		Flags:        append(planFlags(), &cli.BoolFlag{Name: "json", Usage: "print JSON"}),
		OnUsageError: usageError,
		Before:       takeDotenv, // as evaluate, so that both see the same variables
		Action:       showTrust,
	}
}

// shownPlan is what trust show prints as JSON.
type shownPlan struct {
	Rows     []string      `json:"rows"`
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

// askedOf is a plan and the rows that have it.
type askedOf struct {
	policy.Asked
	rows []string
}

func showTrust(c *cli.Context) error {
	if c.NArg() == 0 {
		return usage(c, "trust show takes a row or a run directory, and no argument was given")
	}
	options, err := planOptions(c)
	if err != nil {
		return err
	}
	targets := regrade.Targets(c.Args().Slice())
	var plans []*askedOf
	var results []regrade.Graded
	code := regrade.ExitPassed
	for _, target := range targets {
		if c.Context.Err() != nil {
			return &regrade.Interrupted{What: "not all rows were looked at"}
		}
		asked, err := lookAt(target, options)
		if err != nil && len(targets) == 1 {
			return err
		}
		if err != nil {
			results = append(results, regrade.Graded{Dir: target.Dir, Err: err})
			code = regrade.Worse(code, regrade.ExitCode(err))
			continue
		}
		plans = addPlan(plans, target.Dir, asked)
	}
	if err := showPlans(c, plans, len(targets) == 1); err != nil {
		return err
	}
	return ended(code, regrade.Failures(results))
}

func lookAt(target regrade.Target, o regrade.Options) (policy.Asked, error) {
	if target.Err != nil {
		return policy.Asked{}, target.Err
	}
	row, err := regrade.OpenRow(target.Dir)
	if err != nil {
		return policy.Asked{}, err
	}
	defer row.Close()
	return regrade.Asks(row, o)
}

// addPlan adds a row to those of its plan. Rows that are signed by others have
// others to answer for them.
func addPlan(plans []*askedOf, row string, asked policy.Asked) []*askedOf {
	for _, known := range plans {
		if known.SignedBy == asked.SignedBy && known.Plan.Hash() == asked.Plan.Hash() {
			known.rows = append(known.rows, row)
			return plans
		}
	}
	return append(plans, &askedOf{asked, []string{row}})
}

func showPlans(c *cli.Context, plans []*askedOf, single bool) error {
	if c.Bool("json") {
		list := []shownPlan{}
		for _, p := range plans {
			list = append(list, p.shown())
		}
		if single {
			return printJSON(c.App.Writer, list[0])
		}
		return printJSON(c.App.Writer, list)
	}
	for i, p := range plans {
		if !single {
			fmt.Fprintf(c.App.Writer, "%s%s: %s\n", []string{"", "\n"}[min(i, 1)], count(len(p.rows), "row"), policy.Neutral(names(p.rows)))
		}
		if err := printAsked(c, p.Asked); err != nil {
			return err
		}
	}
	return nil
}

func (p *askedOf) shown() shownPlan {
	plan := p.Plan
	made := shownPlan{Rows: p.rows, SHA256: plan.Hash(), Phase: string(plan.Phase), Place: plan.Place, Absent: plan.Absent(), SignedBy: p.SignedBy,
		Grants: []shownGrant{}, Canonical: string(plan.Canonical())}
	for _, g := range plan.Grants {
		made.Grants = append(made.Grants, shownGrant{g, !slices.Contains(p.Open, g)})
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
