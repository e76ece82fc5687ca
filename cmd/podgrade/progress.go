package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"podgrade/policy"
	"podgrade/regrade"
	"podgrade/tasks/record"
)

// progress shows how many rows go on. What is written to it are notices; it
// may be used by several goroutines at once.
type progress interface {
	io.Writer
	// Observe shows what happened to a row.
	Observe(regrade.Event)
	// End is due before anything else is printed.
	End()
}

// jsonEventsFlag is --json of the verbs that do many rows.
func jsonEventsFlag() cli.Flag {
	return &cli.BoolFlag{Name: "json", Usage: "print events as JSON, one a line, and nothing else on standard output"}
}

// parallelFlag is -j, of every verb that does many rows.
func parallelFlag() cli.Flag {
	return &cli.IntFlag{Name: "max-parallel", Aliases: []string{"j"}, Usage: "do at most `N` rows at once", DefaultText: "one for each processor"}
}

// parallelOf is how many rows are done at once.
func parallelOf(c *cli.Context) (int, error) {
	if !c.IsSet("max-parallel") {
		return regrade.AutoParallel(), nil
	}
	if n := c.Int("max-parallel"); n >= 1 && n <= regrade.MostParallel {
		return n, nil
	}
	return 0, usage(c, "--max-parallel is from 1 to %d, not %d", regrade.MostParallel, c.Int("max-parallel"))
}

// newProgress chooses what fits: events for a program, bars for a terminal,
// lines for a log.
func newProgress(c *cli.Context, rows int) progress {
	switch file, ok := c.App.ErrWriter.(*os.File); {
	case c.Bool("json"):
		return &eventLines{out: c.App.Writer, notices: c.App.ErrWriter}
	case ok && isTerminal(file) && c.String("stream") == "":
		return newBars(file, rows)
	}
	return &plainLines{out: c.App.ErrWriter, rows: rows, verbose: tellsAll(c)}
}

// plainLines is a line for each thing that happens.
type plainLines struct {
	mu      sync.Mutex
	out     io.Writer
	rows    int
	done    int
	verbose bool // starts of grades too
}

// Write writes a notice.
func (p *plainLines) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(text)
}

// Observe writes a line.
func (p *plainLines) Observe(e regrade.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.Last {
		p.done++
	}
	if e.Kind == regrade.RowOutput {
		fmt.Fprintf(p.out, "%s\n", eventText(e))
		return
	}
	if text := eventText(e); text != "" && (p.verbose || e.Kind != regrade.RowGrading) {
		fmt.Fprintf(p.out, "[%d/%d] %s\n", p.done, p.rows, text)
	}
}

// End does nothing.
func (p *plainLines) End() {}

// eventText is an event for a person, safe to print; "" when there is nothing
// to tell.
func eventText(e regrade.Event) string {
	name := policy.Neutral(rowName(e))
	switch e.Kind {
	case regrade.RowStarted:
		return name + ": started"
	case regrade.RowOutput:
		return name + " " + streamMark(e.Stream) + " " + policy.Neutral(e.Text)
	case regrade.RowGrading:
		return name + ": the grade begins"
	case regrade.RowExecuted:
		text := fmt.Sprintf("%s: %s executed, %s, after %s", name, e.Status.Icon(), e.Status, tookText(e.Took))
		if e.Message != "" {
			text += ": " + policy.Clip(e.Message, mostError)
		}
		return text
	case regrade.RowGraded:
		return strings.TrimSpace(fmt.Sprintf("%s: %s %s, score %.3f %s", name, e.Status.Icon(), e.Status, *e.Score, stampList(e.Verdict)))
	case regrade.RowChecked:
		return strings.TrimSpace(fmt.Sprintf("%s: checked, %s %s, score %.3f %s", name, e.Status.Icon(), e.Status, *e.Score, stampList(e.Verdict)))
	case regrade.RowKept:
		return fmt.Sprintf("%s: %s %s, as it was", name, e.Status.Icon(), e.Status)
	case regrade.RowFailed:
		return name + ": " + errorLine(e.Err)
	}
	return ""
}

// streamMark tells an agent's standard error from its standard output.
func streamMark(stream string) string {
	if stream == regrade.StreamStderr {
		return "!"
	}
	return "|"
}

// rowName is the row's label, or its directory where the record was not read.
func rowName(e regrade.Event) string {
	if e.Row == (record.Identity{}) {
		return e.Dir
	}
	return e.Row.String()
}

func tookText(d time.Duration) string {
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// stampList names the stamps of a verdict.
func stampList(v *regrade.Verdict) string {
	var names []string
	for _, stamp := range v.Stamps {
		names = append(names, stamp.Name)
	}
	return strings.Join(names, " ")
}

// onceWriter writes a text that comes again only the first time: what is
// accepted of many rows is often the same page.
type onceWriter struct {
	mu   sync.Mutex
	to   io.Writer
	seen map[[sha256.Size]byte]bool
}

// Write takes a whole notice.
func (o *onceWriter) Write(text []byte) (int, error) {
	sum := sha256.Sum256(text)
	o.mu.Lock()
	again := o.seen[sum]
	if o.seen == nil {
		o.seen = map[[sha256.Size]byte]bool{}
	}
	o.seen[sum] = true
	o.mu.Unlock()
	if again {
		return len(text), nil
	}
	return o.to.Write(text)
}
