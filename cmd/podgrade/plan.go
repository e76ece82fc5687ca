package main

import (
	"os"

	"github.com/urfave/cli/v2"

	"podgrade/regrade"
)

const planHelp = `Shows what a run of the task files would be made of, and starts nothing: the
rows after all layers, each with its agent, engine and image and with what it
asks for beyond the seal, and whatever run or evaluate would refuse. Without
FILES it takes every *.yaml below tasks; a pattern may hold **.

A file that only does not fit the experiment or the options is shown, and run
skips it; that is exit code 1 when no other file is left.

Exit codes: 0 nothing is refused; 1 something is, or a file or the experiment
does not load; 2 the command line is wrong.`

func planCommand() *cli.Command {
	var chosen selection
	return &cli.Command{
		Name:        "plan",
		Usage:       "check task files and show what a run of them would be",
		ArgsUsage:   "[FILES]",
		Description: planHelp,
		Flags: append(chosen.flags(),
			policyFlag(),
			engineFlag(),
			&cli.BoolFlag{Name: "on-host", Usage: "tempdir rows are executed without a container"},
			&cli.BoolFlag{Name: "json", Usage: "print the plan as JSON"},
		),
		OnUsageError: usageError,
		Before:       takeDotenv,
		Action:       func(c *cli.Context) error { return plan(c, &chosen) },
	}
}

func plan(c *cli.Context, chosen *selection) error {
	request, err := chosen.request(c)
	if err != nil {
		return err
	}
	image, err := defaultImage(c)
	if err != nil {
		return err
	}
	pull, err := pulls(c)
	if err != nil {
		return err
	}
	engine, err := engineOf(c)
	if err != nil {
		return err
	}
	file, err := policyOf(c)
	if err != nil {
		return err
	}
	files, unmatched, err := regrade.FindTaskFiles(c.Args().Slice())
	if err != nil {
		return err
	}
	made, err := regrade.MakePlan(c.Context, files, regrade.PlanOptions{
		Request: request, DefaultImage: image, Pull: pull, OnHost: c.Bool("on-host"), Engine: engine, Policy: file, Lookup: os.LookupEnv,
	})
	if err != nil {
		return err
	}
	made.Unmatched(unmatched)
	if c.Bool("json") {
		err = printJSON(c.App.Writer, made)
	} else {
		err = printPlan(c.App.Writer, made)
	}
	if err == nil && made.Refused() {
		err = verdictFailed()
	}
	return err
}
