package main

import (
	"context"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"podgrade/isolation"
	"podgrade/policy"
	"podgrade/regrade"
)

const exportHelp = `Writes the row in ROW, or all rows of the run in RUN, into one file, so that
another host can grade them without a network: records and logs, workspaces with
their owners, the task directories and references that the records name, images
and state layers. The same rows give the same bytes.

A record can name any directory of this host as that of its task. What would be
taken is listed, and nothing is read before it is accepted: by
--allow-recorded-paths, or by allow.paths of the policy file. What that file denies
is never taken.

The file is a tar archive that begins with a manifest of all its parts and their
sums, and at the same time an OCI archive, from which other programs read the
images. It is not compressed; whoever holds it can read the reference.

Exit codes: 0 the file is written; 1 it could not be; 2 something was refused,
or the command line is wrong; 130 interrupted.`

func exportCommand() *cli.Command {
	return &cli.Command{
		Name:        "export",
		Usage:       "write rows with all that a grade of them needs into one file",
		ArgsUsage:   "ROW|RUN",
		Description: exportHelp,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "the `FILE`, which must not be there yet; needed"},
			&cli.BoolFlag{Name: "allow-recorded-paths", Usage: "take the directories along that the records name; they are still listed"},
			policyFlag(),
			&cli.BoolFlag{Name: "without-images", Usage: "leave images out: whoever imports the rows has them, by their ids"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
			scratchFlag(),
		},
		OnUsageError: usageError,
		Action:       export,
	}
}

func export(c *cli.Context) error {
	if c.NArg() != 1 {
		return usage(c, "export takes one row or run directory, and %s given", argumentsWere(c.NArg()))
	}
	if c.String("output") == "" {
		return usage(c, "export needs -o FILE")
	}
	file, err := policyOf(c)
	if err != nil {
		return err
	}
	exported, err := regrade.Export(c.Context, c.Args().First(), c.String("output"), regrade.ExportOptions{
		Paths: c.Bool("allow-recorded-paths"), Policy: file, Keys: userKeys(), Scratch: scratchOf(c), WithoutImages: c.Bool("without-images"),
		Start:  func(ctx context.Context) (regrade.ExportEngines, error) { return startTravel(ctx, c) },
		Notice: &onceWriter{to: c.App.ErrWriter}, Lookup: os.LookupEnv, Version: version,
	})
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, exported)
	}
	fmt.Fprintf(c.App.Writer, "%s: rows %d, images %d, state layers %d, %.1f MB\n", policy.Neutral(exported.File), exported.Rows, exported.Images, exported.States, float64(exported.Bytes)/1e6)
	return nil
}

// startTravel starts what packs and unpacks rows.
func startTravel(ctx context.Context, c *cli.Context) (*isolation.Host, error) {
	return isolation.Start(ctx, isolation.Options{Scratch: c.String("scratch"), Log: policy.NeutralWriter(c.App.ErrWriter)})
}
