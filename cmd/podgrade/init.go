package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/urfave/cli/v2"

	"podgrade/policy"
	"podgrade/regrade"
)

const initHelp = `Writes an example of a task file, with a comment at each key, to FILE, or to
task.yaml. It never overwrites a file.`

// exampleFile is where the example goes when no file is named.
const exampleFile = "task.yaml"

// exampleTask is what init writes; a test plans it.
//
//go:embed example.yaml
var exampleTask []byte

func initCommand() *cli.Command {
	return &cli.Command{
		Name:         "init",
		Usage:        "write an example of a task file",
		ArgsUsage:    "[FILE]",
		Description:  initHelp,
		OnUsageError: usageError,
		Action:       writeExample,
	}
}

func writeExample(c *cli.Context) error {
	if c.NArg() > 1 {
		return usage(c, "init takes one file, and %s given", argumentsWere(c.NArg()))
	}
	name := exampleFile
	if c.NArg() == 1 {
		name = c.Args().First()
	}
	if err := createFile(name, exampleTask); err != nil {
		problem := &regrade.Error{Kind: regrade.User, Tried: "write the example", On: name, Why: err, Do: "name another file"}
		if errors.Is(err, fs.ErrExist) {
			problem.Why = errors.New("there is a file of that name, and it stays as it is")
		}
		return problem
	}
	_, err := fmt.Fprintf(c.App.Writer, "wrote %s; look at it with: podgrade plan %[1]s\n", policy.Neutral(name))
	return err
}

// createFile writes a new file. What it began it removes when it cannot end.
func createFile(name string, content []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(name)
	}
	return err
}
