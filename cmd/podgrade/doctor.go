package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"podgrade/isolation"
	"podgrade/isolation/hostfacts"
	"podgrade/policy"
	"podgrade/regrade"
)

const doctorHelp = `Looks at what podgrade needs of this host and says of each thing whether it is
ok, degraded (cells can be made; something is missing or slower), broken (no
cell can be made) or unknown (it could not be looked at before something else is
mended), what that means, and what to do. It starts podgrade's worker
and does in its namespaces what a cell needs; it changes nothing.

--json prints the report with the facts that it was made from. --facts judges
such a file of another host instead of this one.

Exit codes: 0 nothing is broken; 1 something is; 2 the command line is wrong.`

func doctorCommand() *cli.Command {
	return &cli.Command{
		Name:        "doctor",
		Usage:       "say what is wrong with this host, and the remedy",
		Description: doctorHelp,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
			scratchFlag(),
			&cli.StringFlag{Name: "facts", Usage: "judge the facts that another host's --json wrote into `FILE`, - for standard input"},
		},
		OnUsageError: usageError,
		Action:       doctor,
	}
}

func scratchFlag() cli.Flag {
	return &cli.StringFlag{Name: "scratch", Usage: "directory `DIR` for podgrade's own data", DefaultText: "$XDG_DATA_HOME/podgrade/scratch"}
}

// scratchOf is the directory of podgrade's own data, which nothing is given of; ""
// where nobody can say.
func scratchOf(c *cli.Context) string {
	return isolation.Options{Scratch: c.String("scratch")}.ScratchDir()
}

func doctor(c *cli.Context) error {
	if c.NArg() != 0 {
		return usage(c, "doctor takes no arguments, and %s given", argumentsWere(c.NArg()))
	}
	source, done, err := factSource(c)
	if err != nil {
		return err
	}
	defer done()
	facts, err := source.Facts(c.Context)
	if err != nil {
		if c.Context.Err() != nil {
			return c.Context.Err()
		}
		if c.String("facts") == "" {
			return err
		}
		return &regrade.Error{Kind: regrade.User, Tried: "read the facts of a host", On: c.String("facts"), Why: err,
			Do: "give a file that `podgrade doctor --json` wrote"}
	}
	report := hostfacts.Examine(facts)
	if c.Bool("json") {
		err = printJSON(c.App.Writer, report)
	} else {
		err = printReport(c.App.Writer, report)
	}
	if err == nil && report.Status == hostfacts.Broken {
		err = verdictFailed()
	}
	return err
}

// factSource is this host, or the file that was given.
func factSource(c *cli.Context) (source hostfacts.Source, done func() error, err error) {
	nothing := func() error { return nil }
	switch name := c.String("facts"); name {
	case "":
		return isolation.ThisHost{Options: isolation.Options{Scratch: c.String("scratch")}}, nothing, nil
	case "-":
		return hostfacts.Record{Reader: os.Stdin}, nothing, nil
	default:
		file, err := openToRead(c.Context, name)
		if errors.Is(err, context.Canceled) {
			return nil, nil, err
		}
		if err != nil {
			return nil, nil, &regrade.Error{Kind: regrade.User, Tried: "read the facts of a host", Why: err, Do: "give a file that `podgrade doctor --json` wrote"}
		}
		return hostfacts.Record{Reader: file}, file.Close, nil
	}
}

// mostFound is how many characters of what was found a line of the table shows;
// what is wrong is shown in full below it.
const mostFound = 100

// printReport prints a line for each check, then what is wrong, worst first.
func printReport(w io.Writer, report hostfacts.Report) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, finding := range report.Checks {
		fmt.Fprintf(table, "%s\t%s\t%s\n", finding.Status, finding.Check, policy.Clip(finding.Found, mostFound))
	}
	table.Flush()
	for _, status := range []hostfacts.Status{hostfacts.Broken, hostfacts.Degraded} {
		for _, finding := range report.Checks {
			if finding.Status == status {
				printRemedy(w, finding)
			}
		}
	}
	comes := string(report.Status)
	if report.Status == hostfacts.Unknown {
		comes = "not known well enough"
	}
	_, err := fmt.Fprintf(w, "\nThis host is %s.\n", comes)
	return err
}

func printRemedy(w io.Writer, finding hostfacts.Finding) {
	fmt.Fprintf(w, "\n%s: %s: %s\n    %s\n", finding.Status, finding.Check, policy.Neutral(finding.Found), policy.Neutral(finding.Means))
	for _, line := range finding.Do {
		fmt.Fprintf(w, "  do: %s\n", policy.Neutral(line))
	}
	if finding.See != "" {
		fmt.Fprintf(w, "  see docs/rootless-hosts.md, %q\n", finding.See)
	}
}
