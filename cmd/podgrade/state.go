package main

import (
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"podgrade/isolation"
	"podgrade/policy"
	"podgrade/regrade"
)

const stateHelp = `A state layer is what an agent changed outside of its workspace, kept by run and
execute, so that the row is graded where the agent worked. It lies in the
scratch directory until it is removed: a row without its state layer is refused,
until it is executed again or its archive is imported.

ls says which rows need a layer: those that were executed or graded with it, as
long as their records are where they were. rm names the rows that
need a layer and asks, --yes is the answer where there is no terminal. prune
removes layers, those first that no grade has used for longest, and never one that a cell stands on. With a budget
(PODGRADE_STATE_BUDGET, or state_budget of the configuration file) run, execute
and import do the same when they end, but for the layers that they used.

Exit codes: 0 done; 1 a layer could not be removed; 2 there is no such layer,
the answer was not yes, or the command line is wrong; 130 interrupted at the
question.`

func stateCommand() *cli.Command {
	return &cli.Command{
		Name:         "state",
		Usage:        "list and remove the state layers of executed rows",
		Description:  stateHelp,
		OnUsageError: usageError,
		Subcommands: []*cli.Command{
			{
				Name: "ls", Usage: "list them, oldest first", OnUsageError: usageError, Action: listStates,
				Flags: []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print JSON"}, scratchFlag()},
			},
			{
				Name: "rm", Usage: "remove them by their diff ids, or what these begin with", ArgsUsage: "DIFF_ID...", OnUsageError: usageError, Action: removeStates,
				Flags: []cli.Flag{&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "do not ask, also where rows need them"}, scratchFlag()},
			},
			{
				Name: "prune", Usage: "remove those that were not used for long, or are too many", OnUsageError: usageError, Action: pruneStates,
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "older-than", Usage: "those that no grade used for a `TIME` such as 36h or 30d"},
					&cli.StringFlag{Name: maxSizeName, Usage: "those used longest ago, until the others have at most a `SIZE` such as 20GB together; else " + budgetVariable + ", else " + stateBudgetKey + " of the configuration file"},
					&cli.BoolFlag{Name: "dry-run", Usage: "say what would be removed, and remove nothing"},
					&cli.BoolFlag{Name: "json", Usage: "print JSON"},
					scratchFlag(),
				},
			},
		},
		Action: needsWord,
	}
}

func listStates(c *cli.Context) error {
	if c.NArg() != 0 {
		return usage(c, "state ls takes no arguments, and %s given", argumentsWere(c.NArg()))
	}
	states, err := isolation.States(isolation.Options{Scratch: c.String("scratch")})
	if err != nil {
		return err
	}
	if c.Bool("json") {
		if states == nil {
			states = []isolation.State{}
		}
		for i := range states {
			states[i].Rows = regrade.RowsThatNeed(states[i])
		}
		return printJSON(c.App.Writer, states)
	}
	if len(states) == 0 {
		fmt.Fprintln(c.App.Writer, "no state layer is kept")
	}
	for _, s := range states {
		if s.Made.IsZero() {
			fmt.Fprintf(c.App.Writer, "%s half removed\n", policy.Neutral(s.DiffID))
			continue
		}
		shared := ""
		if s.SharedBytes > 0 {
			shared = fmt.Sprintf(" (%d of them shared)", s.SharedBytes)
		}
		fmt.Fprintf(c.App.Writer, "%s %d entries %d bytes%s, made %s, used %s, above %s\n", s.DiffID, s.Entries, s.Bytes, shared, s.Made.UTC().Format(time.RFC3339), s.Used.Format(time.RFC3339), policy.Neutral(s.Image))
		rows := regrade.RowsThatNeed(s)
		if len(rows) == 0 {
			fmt.Fprintln(c.App.Writer, "    needed by no row that is known")
		}
		for _, row := range rows {
			fmt.Fprintf(c.App.Writer, "    needed by %s\n", policy.Neutral(row))
		}
	}
	if space := isolation.SpaceOfStates(states); space.Outside() > 0 {
		fmt.Fprintf(c.App.Writer, "together %d bytes, %d of them of removed layers\n", space.Bytes(), space.Outside())
	} else if len(states) > 1 {
		fmt.Fprintf(c.App.Writer, "together %d bytes\n", space.Bytes())
	}
	return nil
}
