package main

import (
	"github.com/urfave/cli/v2"

	"podgrade/tasks"
)

const schemaHelp = `Prints the JSON Schema (draft 2020-12) of the task file, for editors. It says
what a single key may hold; rules that span keys are checked by podgrade plan.`

func schemaCommand() *cli.Command {
	return &cli.Command{
		Name:        "schema",
		Usage:       "print the JSON Schema of a file format",
		ArgsUsage:   "task",
		Description: schemaHelp,
		Subcommands: []*cli.Command{{
			Name: "task", Usage: "the task file", OnUsageError: usageError,
			Action: func(c *cli.Context) error {
				if c.NArg() > 0 {
					return usage(c, "schema task takes no argument, and %d were given", c.NArg())
				}
				_, err := c.App.Writer.Write(tasks.Schema())
				return err
			},
		}},
		OnUsageError: usageError,
		Action: func(c *cli.Context) error {
			if c.NArg() == 0 {
				return usage(c, "schema takes the name of a format: task")
			}
			return usage(c, "there is no schema of %q; there is one of task", c.Args().First())
		},
	}
}
