package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"podgrade/isolation"
	"podgrade/policy"
	"podgrade/regrade"
)

func removeStates(c *cli.Context) error {
	if c.NArg() == 0 {
		return usage(c, "state rm takes the diff ids of state layers, and none was given")
	}
	options := isolation.Options{Scratch: c.String("scratch"), Log: policy.NeutralWriter(c.App.ErrWriter)}
	states, err := isolation.States(options)
	if err != nil {
		return err
	}
	// All are found, and asked about, before one is removed.
	var chosen []isolation.State
	for _, id := range c.Args().Slice() {
		s, err := stateNamed(states, id)
		if err != nil {
			return err
		}
		chosen = append(chosen, s)
	}
	if !c.Bool("yes") {
		if err := askForStates(c.Context, c.App.ErrWriter, chosen, regrade.RowsThatNeed); err != nil {
			return err
		}
	}
	var errs []error
	for _, s := range chosen {
		if err := isolation.RemoveState(c.Context, options, s.DiffID); err != nil {
			errs = append(errs, err)
			continue
		}
		fmt.Fprintf(c.App.Writer, "removed %s\n", policy.Neutral(s.DiffID))
	}
	return errors.Join(errs...)
}

// stateNamed finds the layer whose diff id begins so, with or without the name of
// the sum.
func stateNamed(states []isolation.State, id string) (isolation.State, error) {
	const sum = "sha256:"
	refuse := func(why error, do string) (isolation.State, error) {
		return isolation.State{}, &regrade.Error{Kind: regrade.Refused, Tried: "remove the state layer", On: id, Why: why, Do: do}
	}
	prefix := strings.TrimPrefix(id, sum)
	var found []isolation.State
	for _, s := range states {
		if prefix != "" && strings.HasPrefix(strings.TrimPrefix(s.DiffID, sum), prefix) {
			found = append(found, s)
		}
	}
	switch len(found) {
	case 0:
		return refuse(isolation.ErrNoState, "`podgrade state ls` lists those that there are")
	case 1:
		return found[0], nil
	}
	return refuse(fmt.Errorf("%d layers begin so", len(found)), "write more of the diff id; `podgrade state ls` lists them")
}

// mostNeeding bounds the rows that are named for a layer.
const mostNeeding = 20

// askForStates names the rows that need the layers and asks whether they are
// removed all the same. What no row needs is not asked about.
func askForStates(ctx context.Context, out io.Writer, states []isolation.State, needing func(isolation.State) []string) error {
	needed := 0
	for _, s := range states {
		rows := needing(s)
		needed += len(rows)
		for i, row := range rows {
			if i == mostNeeding {
				fmt.Fprintf(out, "%s is needed by %d more\n", policy.Neutral(s.DiffID), len(rows)-i)
				break
			}
			fmt.Fprintf(out, "%s is needed by %s\n", policy.Neutral(s.DiffID), policy.Neutral(row))
		}
	}
	if needed == 0 {
		return nil
	}
	refuse := func(why, do string) error {
		return &regrade.Error{Kind: regrade.Refused, Tried: "remove state layers that rows need", Why: errors.New(why), Do: do}
	}
	if !isTerminal(os.Stdin) {
		return refuse("there is no terminal to ask at", "say --yes; rows without their layer are refused until they are executed again")
	}
	fmt.Fprint(out, "Without it they cannot be graded until they are executed again. Remove? [y/N] ")
	line, err := typedLine(ctx, os.Stdin, "nothing was removed")
	if err != nil {
		fmt.Fprintln(out)
		return err
	}
	if isYes(line) {
		return nil
	}
	return refuse("the answer was not yes", "nothing was removed")
}
