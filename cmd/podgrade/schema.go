package main

import (
	"github.com/urfave/cli/v2"

	"podgrade/policy"
	"podgrade/tasks"
)

const schemaHelp = `Prints the JSON Schema (draft 2020-12) of the task file or of the policy file,
for editors. It says what a single key may hold; rules that span keys are checked
by podgrade plan, and when a policy file is read.`

func schemaCommand() *cli.Command {
	return &cli.Command{
		Name:         "schema",
		Usage:        "print the JSON Schema of a file format",
		ArgsUsage:    "task | policy",
		Description:  schemaHelp,
		Subcommands:  []*cli.Command{schemaOf("task", "the task file", tasks.Schema), schemaOf("policy", "the policy file", policy.Schema)},
		OnUsageError: usageError,
		Action: func(c *cli.Context) error {
			if c.NArg() == 0 {
				return usage(c, "schema takes the name of a format: task or policy")
			}
			return usage(c, "there is no schema of %q; there is one of task and one of policy", c.Args().First())
		},
	}
}

func schemaOf(name, what string, schema func() []byte) *cli.Command {
	return &cli.Command{
		Name: name, Usage: what, OnUsageError: usageError,
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return usage(c, "schema %s takes no argument, and %s given", name, argumentsWere(c.NArg()))
			}
			_, err := c.App.Writer.Write(schema())
			return err
		},
	}
}
