package main

import (
	"context"
	"io"
	"os"
	"slices"

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

Many rows are graded side by side; one that fails does not keep the others from
being graded. A run directory RUN is all of its rows that an agent worked in.

With a task file TASK, the row in DIR, or every row of the run in DIR that has
the same variant and task, is graded by it instead of the recorded task: the
file is yours, so nobody is asked. A row that was executed with something else
than the file says is refused, and what differs is named. A DIR without a record
is graded as a tree that no run has left; the record of that is written to
--run-dir.

The files of suites, variants and the experiment are made anew with run.json. A
suite that misses a threshold is named; of one row it changes no exit code.

--check grades again and writes nothing: it shows what differs from the recorded
verdict, criterion by criterion.

--clean-room grades a second time, where the agent changed nothing but its
workspace: in the image with what pre_run left, when that was kept, else in the
image alone. Both verdicts are shown. The first one counts; when the second one
is another, the row depends on what the agent changed in the system.

Exit codes: 0 every gating criterion passed (--check: every verdict is as it is
recorded); 1 one failed (--check: one differs; --clean-room: the clean room gave
another verdict), or the grade itself did, or with RUN or several rows a suite of
theirs missed a threshold; 2 the command line is wrong, or consent is missing; 130
interrupted.`

func evaluateCommand() *cli.Command {
	layers := &selection{}
	return &cli.Command{
		Name:        "evaluate",
		Usage:       "grade what an agent left in a row directory",
		ArgsUsage:   "ROW... | RUN... | TASK DIR",
		Description: evaluateHelp,
		Flags: slices.Concat(layers.layerFlags(), gradeFlags(), []cli.Flag{
			&cli.StringFlag{Name: "run-dir", Usage: "write the record of a DIR that no run has left to `PATH`", DefaultText: "a new one in " + runsDir},
			&cli.BoolFlag{Name: "check", Usage: "grade again, write nothing, and show what differs from the recorded verdict"},
			&cli.BoolFlag{Name: cleanRoom, Usage: "grade once more where the agent changed nothing but its workspace, and compare"},
			&cli.BoolFlag{Name: "in-place", Usage: "as in upstream; a grade always works on a private view of the workspace, so it changes nothing"},
			&cli.BoolFlag{Name: "copy", Usage: "as in upstream, and no other than --in-place: the view leaves nothing out"},
			&cli.BoolFlag{Name: "preserve", Aliases: []string{"p"}, Usage: "as in upstream; a grade's view of the workspace is never kept, and the workspace always is"},
			&cli.BoolFlag{Name: "no-preserve", Aliases: []string{"P"}, Usage: "as in upstream, and no other than --preserve"},
			&cli.StringFlag{Name: "keep-writes", Usage: "put what criteria changed in their view of the workspace below `DIR`, at VARIANT/TASK/NN"},
			parallelFlag(),
			&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "tell more of what happens"},
			jsonEventsFlag(),
		}, foreignFlags(foreignOfEvaluate)),
		OnUsageError: usageError,
		Before:       takeDotenv,
		Action:       func(c *cli.Context) error { return evaluate(c, layers) },
	}
}

// planFlags are the options that change what a grade asks for.
func planFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "allow-host-grading", Usage: "grade a container's row on this host; the row is stamped"},
		imageDriftFlag(),
		&cli.StringFlag{Name: "network", Value: regrade.NetworkNone, Usage: "network of the cell: none, or the recorded one", DefaultText: "none"},
		policyFlag(),
	}
}

// gradeFlags are the options of every verb that opens a grading cell of a row.
func gradeFlags() []cli.Flag {
	return append(planFlags(),
		&cli.BoolFlag{Name: "allow-recorded-commands", Usage: "accept all that the record asks for; it is still listed"},
		acceptPlanFlag(),
		engineFlag(),
		scratchFlag(),
		&cli.BoolFlag{Name: "require-limits", Usage: "grade only where the task's limits of memory, cpus and pids are enforced; without it the row is stamped"},
		viewFlag(),
		&cli.StringFlag{Name: "workspace", Usage: "grade the tree in `DIR` instead of the recorded workspace; of one row only"},
	)
}

// cleanRoom is the option that asks whether a verdict depends on the system.
const cleanRoom = "clean-room"

// layerNames are the options of layers, which only a task file has.
var layerNames = []string{"experiment", "D", "set", "type", "model", "driver"}

func evaluate(c *cli.Context, layers *selection) error {
	if c.NArg() < 1 {
		return usage(c, "evaluate takes a row directory, and no argument was given")
	}
	if c.Bool(cleanRoom) && c.Bool("check") {
		return usage(c, "--check compares with the recorded verdict, and --%s with that of a clean room: give one of them", cleanRoom)
	}
	if err := refuseForeign(c, foreignOfEvaluate); err != nil {
		return err
	}
	for _, pair := range [][2]string{{"in-place", "copy"}, {"preserve", "no-preserve"}} {
		if c.Bool(pair[0]) && c.Bool(pair[1]) {
			return usage(c, "--%s and --%s exclude each other", pair[0], pair[1])
		}
	}
	options, err := gradeOptions(c)
	if err != nil {
		return err
	}
	width, err := parallelOf(c)
	if err != nil {
		return err
	}
	if options.Check && options.View == isolation.ViewBind {
		return usage(c, "--check writes nothing, and commands under --workspace-view bind would")
	}
	if options.KeepWrites != "" && options.View == isolation.ViewBind {
		return usage(c, "--keep-writes keeps what differs from the workspace, and under --workspace-view bind nothing does")
	}
	if err := regrade.CheckThere(c.Args().Slice()); err != nil {
		return err
	}
	if isTaskForm(c.Args().Slice()) {
		return evaluateFile(c, fileForm{layers: layers, file: c.Args().Get(0), dir: c.Args().Get(1), width: width}, options)
	}
	if c.NArg() > 1 && c.IsSet("workspace") {
		return usage(c, "--workspace is for one row, and %s given", argumentsWere(c.NArg()))
	}
	if err := checkForm(c); err != nil {
		return err
	}
	if c.IsSet("run-dir") {
		return usage(c, "--run-dir is for a task file and a directory that no run has left")
	}
	for _, name := range layerNames {
		if c.IsSet(name) {
			return usage(c, "--%s is for a task file", name)
		}
	}
	if c.NArg() == 1 && !c.Bool("json") && !options.Check && !regrade.IsRun(c.Args().First()) {
		if err := askFor(c, []regrade.Target{{Dir: c.Args().First()}}, &options); err != nil {
			return err
		}
		return evaluateOne(c, c.Args().First(), options)
	}
	if c.IsSet("workspace") && regrade.IsRun(c.Args().First()) {
		return usage(c, "--workspace is for one row, and %s is a run", c.Args().First())
	}
	targets := regrade.Targets(c.Args().Slice())
	if err := askFor(c, targets, &options); err != nil {
		return err
	}
	return evaluateMany(c, targets, width, options)
}

// planOptions are what the options say about what a grade asks for.
func planOptions(c *cli.Context) (regrade.Options, error) {
	network := c.String("network")
	if network != regrade.NetworkNone && network != regrade.NetworkRecorded {
		return regrade.Options{}, usage(c, "--network is none or recorded, not %q", network)
	}
	answer, err := answerOf(c)
	return regrade.Options{
		Answer:     answer,
		Keys:       userKeys(),
		Scratch:    scratchOf(c),
		AllowHost:  c.Bool("allow-host-grading"),
		ImageDrift: c.Bool(imageDrift),
		CleanRoom:  c.Bool(cleanRoom),
		Network:    network,
		Notice:     c.App.ErrWriter,
		Lookup:     os.LookupEnv,
		Version:    version,
	}, err
}

// gradeOptions are what the options say about a grade.
func gradeOptions(c *cli.Context) (regrade.Options, error) {
	o, err := planOptions(c)
	if err != nil {
		return o, err
	}
	engine, err := engineOf(c)
	if err != nil {
		return o, err
	}
	o.Workspace, o.RequireLimits, o.Check = c.String("workspace"), c.Bool("require-limits"), c.Bool("check")
	o.KeepWrites = c.String("keep-writes")
	o.Start = startEngines(c.App.ErrWriter, engine, c.String("scratch"))
	o.View, err = viewOf(c)
	return o, err
}

// evaluateOne grades one row and prints all of its verdict.
func evaluateOne(c *cli.Context, dir string, o regrade.Options) error {
	row, err := regrade.OpenRow(dir)
	if err != nil {
		return err
	}
	defer row.Close()
	return evaluateRow(c, row, o)
}

// evaluateRow grades an open row and prints all of its verdict, or an event of
// it.
func evaluateRow(c *cli.Context, row *record.Row, o regrade.Options) error {
	if c.Bool("json") {
		shown := newProgress(c, 1)
		o.Notice, o.Observe = shown, shown.Observe
	}
	var missed []*record.Suite
	o.Missed = func(suite *record.Suite) { missed = append(missed, suite) }
	verdict, err := regrade.Grade(c.Context, row, o)
	if err != nil {
		return err
	}
	// The exit code is the row's own, as upstream's is: its suite is more than it.
	defer func() { printMissed(besides(c), missed) }()
	if c.Bool("json") {
		return ended(exitOf(verdict), nil)
	}
	if err := printVerdict(c.App.Writer, verdict, row.Dir); err != nil {
		return &regrade.Error{Kind: regrade.Infrastructure, Tried: "print the verdict (it stands in the record)", Why: err, Do: "read " + record.TaskFile}
	}
	return ended(exitOf(verdict), nil)
}

// exitOf is the exit code of one verdict.
func exitOf(v *regrade.Verdict) int {
	if v.Stands() {
		return regrade.ExitPassed
	}
	return regrade.ExitFailed
}

// evaluateMany grades rows side by side and prints a line for each.
func evaluateMany(c *cli.Context, targets []regrade.Target, width int, o regrade.Options) error {
	shown := newProgress(c, len(targets))
	o.Notice, o.Observe = &onceWriter{to: shown}, shown.Observe
	if o.Check {
		o.Observe = nil // what --json prints is the comparisons
		if !c.Bool("json") {
			o.Observe = shown.Observe
		}
	}
	var missed []*record.Suite
	o.Missed = func(suite *record.Suite) { missed = append(missed, suite) }
	results := regrade.GradeRows(c.Context, targets, width, o)
	shown.End()
	if o.Check {
		return printChecked(c, results)
	}
	code := regrade.ExitCodeOfRows(results)
	if err := printGraded(c, results); err != nil {
		code = regrade.Worse(code, regrade.ExitFailed)
	}
	if len(missed) > 0 {
		printMissed(besides(c), missed)
		code = regrade.Worse(code, regrade.ExitFailed)
	}
	return ended(code, regrade.Failures(results))
}

// besides is where goes what no event says: not between the events.
func besides(c *cli.Context) io.Writer {
	if c.Bool("json") {
		return c.App.ErrWriter
	}
	return c.App.Writer
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

// imageDrift is the option that accepts another image than the pinned one.
const imageDrift = "allow-image-drift"

func imageDriftFlag() cli.Flag {
	return &cli.BoolFlag{Name: imageDrift, Usage: "where a row's image is gone, grade in the one that has its name now; the row is stamped"}
}
