package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"podgrade/policy"
	"podgrade/regrade"
	"podgrade/regrade/report"
	"podgrade/tasks/record"
)

// Formats of a report.
const (
	formatMarkdown = "md"
	formatHTML     = "html"
	formatJUnit    = "junit"
	formatCSV      = "csv"
)

const reportHelp = `Shows what the run in RUN came to, from its run.json and the records of its
rows: a page in Markdown on standard output, an HTML page beside each record
(task.html), JUnit XML (junit.xml in the run directory), or a table of the rows
as CSV on standard output. RUN may be a single row with -f html.

--csv FILE writes the table only, or beside what another option asks for; FILE -
is standard output.

--rebuild makes run.json and run.md anew from the records on the disk, and the
files of the experiment, of variants and of suites, but for suites of which no row
was graded. Records that cannot be read are named and left out.

Exit codes: 0 done, whatever the rows came to; 1 there is nothing to report, or
something could not be read or written; 2 the command line is wrong, or RUN is
no run directory.`

func reportCommand() *cli.Command {
	return &cli.Command{
		Name:        "report",
		Usage:       "show what a run came to, or rebuild its summary",
		ArgsUsage:   "RUN",
		Description: reportHelp,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "format", Aliases: []string{"f"}, Value: formatMarkdown, Usage: "`FORMAT`: md, html, junit or csv"},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write to `FILE`"},
			&cli.StringFlag{Name: "junit-xml", Usage: "write JUnit XML to `FILE` too"},
			&cli.StringFlag{Name: "csv", Usage: "write a table of the rows to `FILE`"},
			&cli.BoolFlag{Name: "rebuild", Usage: "make run.json, and the files of suites, variants and the experiment, anew from the rows"},
		},
		OnUsageError: usageError,
		Action:       reportRun,
	}
}

const aggregateHelp = `Makes run.json of the run in RUN, and the files beside it, anew from the records
of its rows, as report --rebuild does, and writes them there or into the directory
of -o.

Exit codes: 0 done; 1 there is no readable record, or the summary could not be
written; 2 the command line is wrong, or RUN is no run directory.`

func aggregateCommand() *cli.Command {
	return &cli.Command{
		Name:         "aggregate",
		Usage:        "rebuild the summary of a run from its rows",
		ArgsUsage:    "RUN",
		Description:  aggregateHelp,
		Flags:        []cli.Flag{&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write into the directory `DIR`"}},
		OnUsageError: usageError,
		Action:       aggregateRun,
	}
}

func reportRun(c *cli.Context) error {
	run, err := runArgument(c)
	if err != nil {
		return err
	}
	if err := checkCSV(c); err != nil {
		return err
	}
	if c.Bool("rebuild") {
		if c.IsSet("format") || c.IsSet("output") {
			return usage(c, "--rebuild writes the run's own summary, so that --format and --output say nothing")
		}
		if err := rebuildRun(c, run, run); err != nil {
			return err
		}
	} else if !csvOnly(c) {
		if err := reportAs(c, run); err != nil {
			return err
		}
	}
	if path := c.String("junit-xml"); path != "" {
		if err := junitTo(run, path); err != nil {
			return err
		}
	}
	if path := c.String("csv"); path != "" {
		return reportCSV(c.App.Writer, run, path)
	}
	return nil
}

func aggregateRun(c *cli.Context) error {
	run, err := runArgument(c)
	if err != nil {
		return err
	}
	to := run
	if c.IsSet("output") {
		if to, err = record.NewRunDir(c.String("output"), true); err != nil {
			return reportError("make the directory", c.String("output"), err, "name another one")
		}
	}
	return rebuildRun(c, run, to)
}

// runArgument is the one argument, a directory.
func runArgument(c *cli.Context) (string, error) {
	if c.NArg() != 1 {
		return "", usage(c, "%s takes one run directory, and %s given", c.Command.Name, argumentsWere(c.NArg()))
	}
	run := c.Args().First()
	info, err := os.Stat(run)
	if err == nil && !info.IsDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return "", &regrade.Error{Kind: regrade.User, Tried: "open the run directory", On: run, Why: err, Do: "name a directory with a " + record.RunFile}
	}
	return run, nil
}

// reportError is one that is not the command line's fault.
func reportError(tried, on string, why error, do string) error {
	return &regrade.Error{Kind: regrade.Infrastructure, Tried: tried, On: on, Why: why, Do: do}
}

// rebuildRun rebuilds the summary of a run and writes it into a directory.
func rebuildRun(c *cli.Context, run, to string) error {
	s, dropped, err := record.Rebuild(run)
	for _, each := range dropped {
		fmt.Fprintf(c.App.ErrWriter, "podgrade: %s is left out: %s\n", policy.Neutral(each.Path), policy.Neutral(each.Why.Error()))
	}
	if err != nil {
		return rebuildError(run, err)
	}
	if to != run {
		s.RunID = filepath.Base(to)
	}
	if err := report.Rebuild(run, to, s); err != nil {
		return reportError("write the summary of", to, err, regrade.WriteRemedy(err, to, "rebuild the summary again"))
	}
	n := s.Counts()
	counts := fmt.Sprintf("%d ok / %d fail / %d err", n.Succeeded, n.Failed, n.Errored)
	if n.Ungraded > 0 {
		counts += fmt.Sprintf(" / %d not graded", n.Ungraded)
	}
	fmt.Fprintf(c.App.Writer, "Aggregated %d task(s) (%s) → %s\n", n.All, counts, policy.Neutral(filepath.Join(to, record.RunFile)))
	return nil
}

func rebuildError(run string, err error) error {
	kind, do := regrade.Infrastructure, "see what the messages above say about the records"
	switch {
	case errors.Is(err, record.ErrIsRow), errors.Is(err, record.ErrInsideRun):
		kind, do = regrade.User, "name the run directory itself"
	case errors.Is(err, record.ErrNoRows):
		do = "nothing was written"
	}
	return &regrade.Error{Kind: kind, Tried: "rebuild the summary of", On: run, Why: err, Do: do}
}

func reportAs(c *cli.Context, run string) error {
	output := c.String("output")
	switch format := strings.ToLower(c.String("format")); format {
	case formatMarkdown:
		return reportMarkdown(c.App.Writer, run, output)
	case formatJUnit:
		if output != "" {
			return junitTo(run, output)
		}
		return junitInto(c.App.Writer, run)
	case formatHTML:
		return reportHTML(c.App.Writer, run, output)
	case formatCSV:
		return reportCSV(c.App.Writer, run, output)
	default:
		return reportError("report as", format, errors.New("there is no such format"), "say md, html, junit or csv")
	}
}

func reportMarkdown(w io.Writer, run, output string) error {
	s, err := record.ReadSummary(run)
	if err != nil {
		return summaryError(run, err)
	}
	text := report.RunPage(s)
	if len(s.Rows) > 0 {
		about := s.Experiment(s.RunID, "")
		if len(about.VariantIDs) > 1 {
			text = append(append(text, '\n'), report.ExperimentPage(about)...)
		}
	}
	if output != "" {
		return writeTo(output, func(file io.Writer) error {
			_, err := file.Write(text)
			return err
		})
	}
	_, err = w.Write(text)
	return err
}

func summaryError(run string, err error) error {
	do := "report --rebuild makes it anew from the rows"
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("it holds no %s", record.RunFile)
		if _, row := os.Lstat(filepath.Join(run, record.TaskFile)); row == nil {
			err, do = errors.New("it is a row"), "name the run directory, or say -f html for a page of the row"
		}
	}
	if errors.Is(err, record.ErrNotPlain) { // no rebuild replaces it
		do = "move " + record.RunFile + " away; report --rebuild then makes it anew from the rows"
	}
	return reportError("read the summary of", run, err, do)
}

// junitTo writes JUnit XML to a path of the operator's.
func junitTo(run, path string) error {
	return writeTo(path, func(file io.Writer) error {
		if err := report.JUnit(file, run); err != nil {
			return summaryError(run, err)
		}
		return nil
	})
}

// writeTo writes to a file that the operator named, which may be a link or a
// device.
func writeTo(path string, write func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return reportError("write the report to", path, err, "name another file")
	}
	if err := write(file); err != nil {
		file.Close()
		return err
	}
	if err := file.Close(); err != nil {
		return reportError("write the report to", path, err, "look for space there")
	}
	return nil
}

// junitInto writes JUnit XML into the run directory, where nothing but a
// regular file is replaced.
func junitInto(w io.Writer, run string) error {
	dir, err := record.OpenRow(run)
	if err != nil {
		return reportError("open", run, err, "name a run directory")
	}
	defer dir.Close()
	err = dir.Replace(record.JUnitFile, func(file io.Writer) error { return report.JUnit(file, run) })
	if err != nil {
		return summaryError(run, err)
	}
	fmt.Fprintln(w, policy.Neutral(filepath.Join(run, record.JUnitFile)))
	return nil
}

// reportHTML writes a page beside each record, or the page of the only one to
// a file. A row that cannot be shown keeps no other from being shown.
func reportHTML(w io.Writer, run, output string) error {
	dirs, err := record.RowDirs(run)
	switch {
	case err != nil:
		return reportError("look for records in", run, err, "name a run or a row directory")
	case len(dirs) == 0:
		return reportError("report", run, record.ErrNoRows, "name a run or a row directory")
	case output != "" && len(dirs) > 1:
		return reportError("report", run, fmt.Errorf("-o names one file, and there are %d rows", len(dirs)), "name one row directory")
	}
	var results []regrade.Graded
	for _, dir := range dirs {
		page, err := rowHTML(run, dir, output)
		if err != nil {
			err = reportError("show the row", filepath.Join(run, dir), err, "see the record")
			results = append(results, regrade.Graded{Dir: dir, Err: err})
			continue
		}
		fmt.Fprintln(w, policy.Neutral(page))
	}
	return regrade.Failures(results)
}

func rowHTML(run, dir, output string) (page string, err error) {
	row, err := record.OpenRowDir(run, dir)
	if err != nil {
		return "", err
	}
	defer row.Close()
	r, _, err := row.Read()
	if err != nil {
		return "", err
	}
	id := record.Identity{VariantID: r.VariantID, TaskID: r.TaskID, Replicate: row.Replicate()}
	write := func(file io.Writer) error { return report.RowPage(file, r, id) }
	if output != "" {
		return output, writeTo(output, write)
	}
	return filepath.Join(run, dir, record.RowPage), row.Replace(record.RowPage, write)
}
