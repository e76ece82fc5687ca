package main

import (
	"io"

	"github.com/urfave/cli/v2"

	"podgrade/regrade/report"
	"podgrade/tasks/record"
)

// toStdout is the FILE of --csv that is standard output.
const toStdout = "-"

// checkCSV refuses a table in the middle of something else.
func checkCSV(c *cli.Context) error {
	if c.String("csv") == toStdout && (c.IsSet("format") || c.IsSet("rebuild")) {
		return usage(c, "--csv - writes to standard output, where --format and --rebuild write too; name a file")
	}
	return nil
}

// csvOnly tells whether the table is all that was asked for.
func csvOnly(c *cli.Context) bool {
	return c.IsSet("csv") && !c.IsSet("format") && !c.IsSet("output")
}

// reportCSV writes the rows of the run as a table to a file, or to standard
// output when that is none or "-".
func reportCSV(stdout io.Writer, run, path string) error {
	s, err := record.ReadSummary(run)
	if err != nil {
		return summaryError(run, err)
	}
	if path == "" || path == toStdout {
		return report.CSV(stdout, s)
	}
	return writeTo(path, func(file io.Writer) error { return report.CSV(file, s) })
}
