package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"podgrade/isolation"
	"podgrade/policy"
	"podgrade/regrade"
)

// stateBudget is how many bytes state layers may take together: by the option,
// else by the variable, else by the configuration file. ok is false when nothing
// says so.
func stateBudget(c *cli.Context) (bytes int64, ok bool, err error) {
	text := ""
	if c.Command.Name == "prune" { // --max-size of import is another
		text = c.String(maxSizeName)
	}
	if text == "" {
		text = os.Getenv(budgetVariable)
	}
	from := "--" + maxSizeName + " (or " + budgetVariable + ")"
	if text == "" {
		s, err := readSettings(settingsFile())
		if err != nil || s.StateBudget == "" {
			return 0, false, err
		}
		text, from = s.StateBudget, stateBudgetKey+" of "+settingsFile()
	}
	if bytes, err = parseSize(text); err != nil {
		return 0, false, &regrade.Error{Kind: regrade.User, Tried: "read the budget of state layers", On: from, Why: errors.New("it " + err.Error()), Do: "write it as 20GB"}
	}
	return bytes, true, nil
}

func pruneStates(c *cli.Context) error {
	if c.NArg() != 0 {
		return usage(c, "state prune takes no arguments, and %s given", argumentsWere(c.NArg()))
	}
	order := isolation.StatePrune{Most: -1, DryRun: c.Bool("dry-run")}
	var err error
	if text := c.String("older-than"); text != "" {
		if order.UnusedFor, err = parseAge(text); err != nil {
			return usage(c, "--older-than %v", err)
		}
	}
	budget, ok, err := stateBudget(c)
	if err != nil {
		return err
	}
	if ok {
		order.Most = budget
	}
	if !ok && order.UnusedFor == 0 {
		return usage(c, "state prune needs --older-than, --%s or a budget (%s, or %s of the configuration file)", maxSizeName, budgetVariable, stateBudgetKey)
	}
	pruned, err := isolation.PruneStates(c.Context, stateOptions(c), order)
	if err != nil {
		return err
	}
	if err := printPruned(c, pruned); err != nil {
		return err
	}
	for _, p := range pruned {
		if p.Problem != "" {
			return verdictFailed()
		}
	}
	return nil
}

func printPruned(c *cli.Context, pruned []isolation.Pruned) error {
	if c.Bool("json") {
		if pruned == nil {
			pruned = []isolation.Pruned{}
		}
		return printJSON(c.App.Writer, pruned)
	}
	if len(pruned) == 0 {
		fmt.Fprintln(c.App.Writer, "nothing is to be removed")
	}
	for _, p := range pruned {
		did := removing.would
		switch {
		case p.Removed:
			did = removing.did
		case p.Problem != "":
			did = removing.couldNot
		}
		fmt.Fprintf(c.App.Writer, "%s %s (%d bytes, used %s)\n", did, policy.Neutral(p.DiffID), p.Bytes, p.Used.Format(time.RFC3339))
		if p.Problem != "" {
			fmt.Fprintf(c.App.Writer, "    %s\n", policy.Neutral(p.Problem))
		}
		for _, row := range regrade.RowsThatNeed(p.State) {
			fmt.Fprintf(c.App.Writer, "    needed by %s\n", policy.Neutral(row))
		}
	}
	return nil
}

// keepBudget removes the state layers that were used longest ago where all
// together take more than the budget. What was used since then stays, so that no
// run loses the layers of its own rows. It never changes an outcome.
func keepBudget(c *cli.Context, since time.Time) {
	budget, ok, err := stateBudget(c)
	if err == nil && !ok {
		return
	}
	var pruned []isolation.Pruned
	if err == nil {
		pruned, err = isolation.PruneStates(c.Context, stateOptions(c), isolation.StatePrune{Most: budget, Since: since})
	}
	if err != nil {
		fmt.Fprintf(c.App.ErrWriter, "warning: state layers were not pruned: %s\n", policy.NeutralText(err.Error()))
	}
	for _, p := range pruned {
		if p.Removed {
			fmt.Fprintf(c.App.ErrWriter, "removed the state layer %s, last used %s: the budget is %d bytes\n", policy.Neutral(p.DiffID), p.Used.Format(time.RFC3339), budget)
		}
	}
}

func stateOptions(c *cli.Context) isolation.Options {
	return isolation.Options{Scratch: c.String("scratch"), Log: policy.NeutralWriter(c.App.ErrWriter)}
}
