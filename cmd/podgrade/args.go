package main

import (
	"strings"

	"github.com/urfave/cli/v2"
)

// optionsFirst moves the options of a command in front of its arguments, so
// that `podgrade evaluate ROW --network none` means what it says: the library
// stops to read options at the first argument. An option that is the last word
// and has no value stays the last one, so that it takes no argument for it.
func optionsFirst(app *cli.App, args []string) []string {
	if len(args) < 2 {
		return args
	}
	commands, flags := app.Commands, app.Flags
	at := 1
	for at < len(args) {
		command := findCommand(commands, args[at])
		if command == nil {
			break
		}
		commands, flags = command.Subcommands, command.Flags
		at++
	}
	var options, rest []string
	for i := at; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			rest = append(rest, args[i:]...)
			break
		}
		if len(arg) < 2 || arg[0] != '-' {
			rest = append(rest, arg)
			continue
		}
		options = append(options, arg)
		if strings.Contains(arg, "=") || !takesValue(flags, strings.TrimLeft(arg, "-")) {
			continue
		}
		if i++; i == len(args) {
			rest = nil // the library says that a value is missing
			break
		}
		options = append(options, args[i])
	}
	return append(append(append([]string{}, args[:at]...), options...), rest...)
}

func findCommand(commands []*cli.Command, name string) *cli.Command {
	for _, command := range commands {
		if command.HasName(name) {
			return command
		}
	}
	return nil
}

// takesValue tells whether the option is one that is followed by a value.
func takesValue(flags []cli.Flag, name string) bool {
	for _, flag := range flags {
		for _, each := range flag.Names() {
			if each == name {
				value, ok := flag.(cli.DocGenerationFlag)
				return ok && value.TakesValue()
			}
		}
	}
	return false
}
