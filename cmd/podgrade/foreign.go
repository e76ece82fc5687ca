package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// foreignOption is an option of coder-eval's verb of the same name that podgrade
// does not have: it is refused with the reason, so that a script is not told
// that there is no such thing (docs/compatibility.md).
type foreignOption struct {
	names []string
	why   string
	// means are values that mean what podgrade does anyway.
	means []string
}

// foreignOfRuns are those of run and execute.
var foreignOfRuns = []foreignOption{
	{names: []string{"backend", "b"}, means: []string{"direct"},
		why: "no agent of this release calls a model, so that there is no way to one to choose"},
	{names: []string{"format"}, why: "trajectory.json is not written; the turns are in task.json"},
	{names: []string{"workspace-dir"},
		why: "an agent works in a directory of its row, which its cell alone has; take the workspace from artifacts afterwards, or let the task name a working_dir"},
	{names: []string{"logging-dir"}, why: "logs lie beside the row's record, where a grade, a resume and an archive find them"},
	{names: []string{"artifacts-dir"}, why: "workspaces lie beside the row's record, where a grade, a resume and an archive find them; --run-dir says where runs lie"},
}

// foreignOfEvaluate are those of evaluate.
var foreignOfEvaluate = []foreignOption{
	{names: []string{"format"}, why: "only records of runs are graded, and no trajectory of another program"},
	{names: []string{"trajectory"}, why: "only records of runs are graded, and no trajectory of another program"},
}

// foreignFlags lets the library read them; help does not show them.
func foreignFlags(list []foreignOption) []cli.Flag {
	var flags []cli.Flag
	for _, option := range list {
		flags = append(flags, &cli.StringFlag{Name: option.names[0], Aliases: option.names[1:], Hidden: true})
	}
	return flags
}

// refuseForeign refuses what is set of them.
func refuseForeign(c *cli.Context, list []foreignOption) error {
	for _, option := range list {
		name := option.names[0]
		if !c.IsSet(name) || slices.Contains(option.means, strings.ToLower(c.String(name))) {
			continue
		}
		return usage(c, "--%s is an option of coder-eval that podgrade does not have: %s", name, option.why)
	}
	return nil
}

// Values of --stream.
const (
	streamFull    = "full"
	streamMinimal = "minimal"
)

func streamFlag() cli.Flag {
	return &cli.StringFlag{Name: "stream", Aliases: []string{"s"}, Usage: fmt.Sprintf("tell of each row line by line instead of the bar: `HOW` is %s, or %s: what the agents print too", streamMinimal, streamFull)}
}

// streamOf is how much is told while rows are run; "": as fits.
func streamOf(c *cli.Context) (string, error) {
	how := strings.ToLower(c.String("stream"))
	if how != "" && how != streamFull && how != streamMinimal {
		return "", usage(c, "--stream is %s or %s, not %q", streamFull, streamMinimal, c.String("stream"))
	}
	return how, nil
}
