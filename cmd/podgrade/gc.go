package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"podgrade/isolation"
	"podgrade/policy"
)

const gcHelp = `Removes what podgrades that were killed left behind: their directories in the
scratch, whoever owns the files in them, the containers that kept an image from
being pruned, and images that a killed Podman left half made. What users of an
image still own in the artifacts of a row that was being executed is given back
to you. Kept state layers stay: see podgrade state. Nothing of a podgrade that
still runs is touched. Every start of podgrade does the same, but for those
containers and images.

Exit codes: 0 all of it is gone; 1 something could not be removed; 2 the
command line is wrong.`

func gcCommand() *cli.Command {
	return &cli.Command{
		Name:        "gc",
		Usage:       "remove what killed podgrades left behind",
		Description: gcHelp,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "dry-run", Usage: "say what would be removed, and remove nothing"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
			scratchFlag(),
		},
		OnUsageError: usageError,
		Action:       collect,
	}
}

func collect(c *cli.Context) error {
	if c.NArg() != 0 {
		return usage(c, "gc takes no arguments, and %s given", argumentsWere(c.NArg()))
	}
	options := isolation.Options{Scratch: c.String("scratch"), Log: policy.NeutralWriter(c.App.ErrWriter)}
	swept, err := isolation.Sweep(c.Context, options, c.Bool("dry-run"))
	if swept.Scratch == "" {
		return err
	}
	// What was removed is said, also when the rest could not be looked for.
	if c.Bool("json") {
		err = errors.Join(err, printJSON(c.App.Writer, swept))
	} else {
		printSwept(c.App.Writer, swept, err == nil)
	}
	if err == nil && swept.Failed() {
		err = verdictFailed()
	}
	return err
}

func printSwept(w io.Writer, swept isolation.Swept, complete bool) {
	for _, left := range swept.Left {
		words := removing
		if left.Kind == isolation.LeftoverWorkspace {
			words = givingBack
		}
		did := words.would
		switch {
		case left.Removed:
			did = words.did
		case left.Problem != "":
			did = words.couldNot
		}
		fmt.Fprintf(w, "%s %s %s%s\n", did, left.Kind, policy.Neutral(left.Name), ownerOf(left))
		if left.Problem != "" {
			fmt.Fprintf(w, "    %s\n", policy.Neutral(left.Problem))
		}
	}
	if len(swept.Left) == 0 && complete {
		fmt.Fprintln(w, "nothing was left behind")
	}
	if swept.Living > 0 {
		fmt.Fprintf(w, "podgrades that run in %s, and were not touched: %d\n", policy.Neutral(swept.Scratch), swept.Living)
	}
}

// deed is what gc does with a leftover, in words.
type deed struct{ would, did, couldNot string }

var (
	removing   = deed{"would remove", "removed", "could not remove"}
	givingBack = deed{"would give back", "gave back", "could not give back"}
)

func ownerOf(left isolation.Leftover) string {
	if left.PID == 0 {
		return ""
	}
	return fmt.Sprintf(" of process %d, made %s", left.PID, left.Made.UTC().Format(time.RFC3339))
}
