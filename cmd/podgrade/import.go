package main

import (
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"podgrade/policy"
	"podgrade/regrade"
)

const importHelp = `Takes the rows in FILE, which podgrade export wrote, in as the new run directory
DIR. Images go into Podman's store and state layers into podgrade's, by their
sums: what is there already is kept, and no tag of this host is moved. Task
directories and references are put into DIR, where a grade finds them.

Every byte of FILE is compared with the manifest first: when one was changed, the
part that holds it is named, and nothing is put in place. That tells damage, not
who wrote the file. The rows are as little trusted as any others: what their
records ask for is listed by evaluate, and must be accepted. DIR is closed to
other users, since a workspace may hold programs with the set-user-id bit.

Exit codes: 0 the rows are there; 1 they could not be put there; 2 FILE was
refused, or the command line is wrong; 130 interrupted.`

func importCommand() *cli.Command {
	return &cli.Command{
		Name:        "import",
		Usage:       "take rows in that podgrade export wrote",
		ArgsUsage:   "FILE",
		Description: importHelp,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "the run directory `DIR`, which must not be there yet; needed"},
			maxSizeFlag("FILE"),
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
			scratchFlag(),
		},
		OnUsageError: usageError,
		Action:       importRows,
	}
}

// maxSizeFlag bounds a file that is read.
func maxSizeFlag(file string) cli.Flag {
	return &cli.StringFlag{Name: "max-size", Value: "100GB", Usage: "refuse a larger " + file + "; a `SIZE` such as 20GB"}
}

func maxSize(c *cli.Context) (int64, error) {
	most, err := parseSize(c.String("max-size"))
	if err != nil {
		return 0, usage(c, "--max-size %v", err)
	}
	if most == 0 {
		return 0, usage(c, "--max-size is more than nothing; leave it out for 100GB")
	}
	return most, nil
}

func importRows(c *cli.Context) error {
	if c.NArg() != 1 {
		return usage(c, "import takes one file, and %s given", argumentsWere(c.NArg()))
	}
	if c.String("output") == "" {
		return usage(c, "import needs -o DIR")
	}
	most, err := maxSize(c)
	if err != nil {
		return err
	}
	began := time.Now()
	imported, err := regrade.Import(c.Context, c.Args().First(), c.String("output"), regrade.ImportOptions{
		Most:   most,
		Start:  func(ctx context.Context) (regrade.ImportEngines, error) { return startTravel(ctx, c) },
		Notice: c.App.ErrWriter,
	})
	if err != nil {
		return err
	}
	keepBudget(c, began)
	if c.Bool("json") {
		return printJSON(c.App.Writer, imported)
	}
	for _, row := range imported.Rows {
		fmt.Fprintf(c.App.Writer, "%s/%s\n", policy.Neutral(imported.Run), policy.Neutral(row))
	}
	fmt.Fprintf(c.App.Writer, "rows %d, images loaded %d, images there already %d, state layers %d\n", len(imported.Rows), len(imported.Images), len(imported.Kept), len(imported.States))
	return nil
}
