package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"podgrade/isolation"
	"podgrade/policy"
)

const stateHelp = `A state layer is what an agent changed outside of its workspace, kept by run and
execute, so that the row is graded where the agent worked. It lies in the
scratch directory until it is removed here: a row without its state layer is
graded in the image alone, or not at all.

Exit codes: 0 done; 1 a layer could not be removed; 2 there is no such layer, or
the command line is wrong.`

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
				Name: "rm", Usage: "remove them by their diff ids", ArgsUsage: "DIFF_ID...", OnUsageError: usageError, Action: removeStates,
				Flags: []cli.Flag{scratchFlag()},
			},
		},
		Action: func(c *cli.Context) error { return usage(c, "state takes one of the words ls and rm") },
	}
}

func listStates(c *cli.Context) error {
	if c.NArg() != 0 {
		return usage(c, "state ls takes no arguments, and %d were given", c.NArg())
	}
	states, err := isolation.States(isolation.Options{Scratch: c.String("scratch")})
	if err != nil {
		return err
	}
	if c.Bool("json") {
		if states == nil {
			states = []isolation.State{}
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
		fmt.Fprintf(c.App.Writer, "%s %d entries %d bytes, made %s above %s\n", s.DiffID, s.Entries, s.Bytes, s.Made.UTC().Format(time.RFC3339), policy.Neutral(s.Image))
	}
	return nil
}

func removeStates(c *cli.Context) error {
	if c.NArg() == 0 {
		return usage(c, "state rm takes the diff ids of state layers, and none was given")
	}
	options := isolation.Options{Scratch: c.String("scratch"), Log: policy.NeutralWriter(c.App.ErrWriter)}
	var errs []error
	for _, id := range c.Args().Slice() {
		if err := isolation.RemoveState(c.Context, options, id); err != nil {
			errs = append(errs, err)
			continue
		}
		fmt.Fprintf(c.App.Writer, "removed %s\n", id)
	}
	return errors.Join(errs...)
}
