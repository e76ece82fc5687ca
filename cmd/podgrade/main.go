// Command podgrade grades what coding agents did, each in a rootless container.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"podgrade/regrade"
	"podgrade/tasks"
)

// version is set by the linker for a release.
var version = "0.1.0-dev"

func main() {
	if _, said := os.LookupEnv("GOGC"); !said {
		// What podgrade holds is small beside what it reads and drops again.
		debug.SetGCPercent(400)
	}
	ctx, stop := signal.NotifyContext(context.Background(), interrupts()...)
	// A second signal ends podgrade at once, and the kernel ends its cells.
	context.AfterFunc(ctx, stop)
	code := run(ctx, os.Args, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// interrupts are the signals that end podgrade in good order. That a terminal
// goes away is one, but under nohup.
func interrupts() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// alias is the name of the program that podgrade's files and verbs come from:
// under it podgrade does the same, so that scripts go on to work.
const alias = "coder-eval"

// run is the whole program; it returns the exit code (design: Errors and exit
// codes).
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	app := newApp(stdout, stderr)
	if len(args) > 0 && filepath.Base(args[0]) == alias {
		app.Name = alias
	}
	err := interrupted(ctx, app.RunContext(ctx, optionsFirst(app, args)))
	if err != nil && err.Error() != "" {
		fmt.Fprintf(stderr, "podgrade: %s\n", errorText(err))
	}
	if ended, ok := err.(rowsEnded); ok {
		return ended.code
	}
	return regrade.ExitCode(err)
}

// interrupted turns the jargon of an end that a signal caused into words.
func interrupted(ctx context.Context, err error) error {
	var said *regrade.Interrupted
	if ctx.Err() != nil && errors.Is(err, context.Canceled) && !errors.As(err, &said) {
		return &regrade.Interrupted{What: "nothing more was done"}
	}
	return err
}

func newApp(stdout, stderr io.Writer) *cli.App {
	cli.VersionPrinter = func(c *cli.Context) { fmt.Fprintf(c.App.Writer, "podgrade %s\n", version) }
	return &cli.App{
		Name:      "podgrade",
		Usage:     "run coding agents and grade what they did, in rootless containers",
		Version:   version,
		Writer:    stdout,
		ErrWriter: stderr,
		Commands:  []*cli.Command{runCommand(), executeCommand(), evaluateCommand(), diffCommand(), shellCommand(), planCommand(), reportCommand(), aggregateCommand(), schemaCommand(), initCommand(), imagesCommand(), doctorCommand(), gcCommand(), stateCommand(), exportCommand(), importCommand(), rmCommand(), trustCommand()},
		// The library would print errors and end the process by itself.
		ExitErrHandler: func(*cli.Context, error) {},
		OnUsageError:   usageError,
		Action:         noCommand,
	}
}

// noCommand shows the help when there is no command, and refuses an unknown
// one.
func noCommand(c *cli.Context) error {
	if c.NArg() == 0 {
		return cli.ShowAppHelp(c)
	}
	return usage(c, "%q is no command%s", c.Args().First(), nearestCommand(c.App.Commands, c.Args().First()))
}

// usageError is what the library calls for an option that it cannot read.
func usageError(c *cli.Context, err error, _ bool) error {
	// The library says an unknown option in its own words, and with one dash.
	if name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -"); unknown {
		err = fmt.Errorf("there is no option --%s%s", name, nearestOption(c, name))
	}
	if name, lone := strings.CutPrefix(err.Error(), "flag needs an argument: -"); lone {
		err = fmt.Errorf("a value is missing after %s", dashed(strings.TrimPrefix(name, "-")))
	}
	if words := notAValue(c, err.Error()); words != nil {
		err = words
	}
	return &regrade.Error{Kind: regrade.User, Tried: "read the command line", Why: err, Do: "see " + c.Command.HelpName + " --help"}
}

// notAValue says in plain words that an option cannot have a value, where the
// library says "parse error"; nil for anything else that it says.
func notAValue(c *cli.Context, said string) error {
	match := regexp.MustCompile(`^invalid (?:boolean )?value "(.*)" for (?:flag )?-(\S+): (?:parse error|value out of range)$`).FindStringSubmatch(said)
	if match == nil {
		return nil
	}
	kind := "true or false"
	for _, flag := range c.Command.Flags {
		if _, number := flag.(*cli.IntFlag); number && slices.Contains(flag.Names(), match[2]) {
			kind = "a whole number"
		}
	}
	return fmt.Errorf("%s is %s, not %q", dashed(match[2]), kind, match[1])
}

// nearestCommand is " (did you mean X?)" for a command that was mistyped, or "".
func nearestCommand(commands []*cli.Command, name string) string {
	var names []string
	for _, command := range commands {
		names = append(names, command.Name)
	}
	return tasks.Nearest(name, names)
}

// needsWord is the action of a command that does nothing without one of its
// subcommands.
func needsWord(c *cli.Context) error {
	if c.NArg() > 0 {
		return usage(c, "%q is no command of %s%s", c.Args().First(), c.Command.Name, nearestCommand(c.Command.Subcommands, c.Args().First()))
	}
	var words []string
	for _, command := range c.Command.VisibleCommands() {
		if command.Name != "help" {
			words = append(words, command.Name)
		}
	}
	last := len(words) - 1
	return usage(c, "%s takes one of the words %s and %s", c.Command.Name, strings.Join(words[:last], ", "), words[last])
}

// nearestOption is the same for an option.
func nearestOption(c *cli.Context, name string) string {
	var names []string
	for _, flag := range c.Command.Flags {
		for _, each := range flag.Names() {
			if len(each) > 1 {
				names = append(names, dashed(each))
			}
		}
	}
	return tasks.Nearest(dashed(name), names)
}

// dashed is an option as it is written.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

func usage(c *cli.Context, format string, args ...any) error {
	return usageError(c, fmt.Errorf(format, args...), false)
}

// argumentsWere says how many arguments a verb that takes another number got.
func argumentsWere(n int) string {
	switch n {
	case 0:
		return "no argument was"
	case 1:
		return "1 argument was"
	}
	return fmt.Sprintf("%d arguments were", n)
}

// rowsEnded ends the program with a code of many rows, and says what kept some
// of them from their verdicts; err is nil when all has been printed.
type rowsEnded struct {
	code int
	err  error
}

// ended is the error for a code; nil for 0. An error of its own is 1 at least.
func ended(code int, err error) error {
	if code == regrade.ExitPassed {
		return err
	}
	return rowsEnded{code, err}
}

// Error is what has not been said yet.
func (r rowsEnded) Error() string {
	if r.err == nil {
		return ""
	}
	return r.err.Error()
}

// verdictFailed ends the program with 1 when all that there is to say has been
// printed.
func verdictFailed() error { return ended(regrade.ExitFailed, nil) }
