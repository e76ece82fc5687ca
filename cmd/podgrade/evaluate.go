package main

import (
	"context"
	"io"
	"os"

	"github.com/urfave/cli/v2"

	"podgrade/isolation"
	"podgrade/policy"
	"podgrade/regrade"
	"podgrade/tasks/record"
)

const evaluateHelp = `Grades the row in ROW, a directory with a task.json, and writes the verdict
into it. The task is rebuilt from the record. A row that ran in a container is
graded in a sealed cell of the same image; what the record asks for beyond the
seal is listed, and nothing is started until it is accepted.

Exit codes: 0 every gating criterion passed; 1 one failed, or the grade itself
did; 2 the command line is wrong, or consent is missing; 130 interrupted.`

func evaluateCommand() *cli.Command {
	return &cli.Command{
		Name:        "evaluate",
		Usage:       "grade what an agent left in a row directory",
		ArgsUsage:   "ROW",
		Description: evaluateHelp,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "allow-recorded-commands", Usage: "accept all that the record asks for; it is still listed"},
			&cli.BoolFlag{Name: "allow-host-grading", Usage: "grade a container's row on this host; the row is stamped"},
			&cli.StringFlag{Name: "network", Value: regrade.NetworkNone, Usage: "network of the cell: none, or the recorded one", DefaultText: "none"},
			engineFlag(),
			scratchFlag(),
			&cli.BoolFlag{Name: "require-limits", Usage: "grade only where the task's limits of memory, cpus and pids are enforced; without it the row is stamped"},
			viewFlag(),
			&cli.StringFlag{Name: "workspace", Usage: "grade the tree in `DIR` instead of the recorded workspace"},
		},
		OnUsageError: usageError,
		Action:       evaluate,
	}
}

func evaluate(c *cli.Context) error {
	if c.NArg() != 1 {
		return usage(c, "evaluate takes one row directory, and %d arguments were given", c.NArg())
	}
	network := c.String("network")
	if network != regrade.NetworkNone && network != regrade.NetworkRecorded {
		return usage(c, "--network is none or recorded, not %q", network)
	}
	engine, err := engineOf(c)
	if err != nil {
		return err
	}
	view, err := viewOf(c)
	if err != nil {
		return err
	}
	row, err := openRow(c.Args().First())
	if err != nil {
		return err
	}
	defer row.Close()
	verdict, err := regrade.Grade(c.Context, row, regrade.Options{
		Answer:    policy.Answer{RecordedCommands: c.Bool("allow-recorded-commands")},
		AllowHost: c.Bool("allow-host-grading"),
		Network:   network,
		Workspace: c.String("workspace"),
		View:      view,

		RequireLimits: c.Bool("require-limits"),

		Start:   startEngines(c.App.ErrWriter, engine, c.String("scratch")),
		Notice:  c.App.ErrWriter,
		Lookup:  os.LookupEnv,
		Version: version,
	})
	if err != nil {
		return err
	}
	if err := printVerdict(c.App.Writer, verdict); err != nil {
		return &regrade.Error{Kind: regrade.Infrastructure, Tried: "print the verdict (it stands in the record)", Why: err, Do: "read " + record.TaskFile}
	}
	if !verdict.Passed() {
		return verdictFailed{}
	}
	return nil
}

func openRow(dir string) (*record.Row, error) {
	row, err := record.OpenRow(dir)
	if err != nil {
		return nil, &regrade.Error{Kind: regrade.User, Tried: "open the row directory", On: dir, Why: err,
			Do: "name a directory with a " + record.TaskFile}
	}
	return row, nil
}

// startEngines starts the real engines, once consent was given.
func startEngines(log io.Writer, engine, scratch string) func(context.Context) (regrade.Engines, error) {
	return func(ctx context.Context) (regrade.Engines, error) {
		host, err := isolation.Start(ctx, isolation.Options{Log: policy.NeutralWriter(log), Engine: engine, Scratch: scratch})
		if err != nil {
			return nil, err
		}
		return host, nil
	}
}
