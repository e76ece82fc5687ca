package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"podgrade/isolation"
	"podgrade/policy"
	"podgrade/regrade"
	"podgrade/tasks"
	"podgrade/tasks/criteria"
	"podgrade/tasks/record"
)

const runHelp = `Runs the rows of task files: each agent works in a rootless cell, and what it
left is graded in another one, by the same code as evaluate. Without FILES it
takes every *.yaml below tasks; a pattern may hold **. The rows and their
records lie below the run directory.

A file that does not load, or does not fit the options, is left out with a
warning. A row that fails does not keep the others from being run. --resume goes
on with a run: rows that are finished stay as they are, failed ones too.

Exit codes: 0 every row passed; 1 one did not, or has no verdict, or a name
matches no file; 2 the command line is wrong, or the run is refused, and nothing
was started; 130 interrupted: --resume goes on.`

const executeHelp = `Runs the agents of task files, and grades nothing: evaluate does, or
run --resume. The rest is as with run.

Exit codes: 0 every agent's run ended; 1 one failed, or a name matches no file;
2 the command line is wrong, or the run is refused, and nothing was started;
130 interrupted: --resume goes on.`

func runCommand() *cli.Command {
	return runVerb("run", "run agents on tasks and grade what they did", runHelp, true)
}

func executeCommand() *cli.Command {
	return runVerb("execute", "run agents on tasks, without a grade", executeHelp, false)
}

func runVerb(name, usage, help string, grade bool) *cli.Command {
	var chosen selection
	flags := append(append(chosen.flags(), runFlags()...), foreignFlags(foreignOfRuns)...)
	if grade {
		flags = append(flags,
			&cli.BoolFlag{Name: "allow-host-grading", Usage: "with --resume: grade containers' rows on this host; they are stamped"},
			imageDriftFlag(),
			acceptPlanFlag(),
			&cli.StringFlag{Name: "network", Usage: "network of the grading cells: none, or recorded: what the task asks for", DefaultText: "what the task file itself names"},
			viewFlag(),
			&cli.StringFlag{Name: "junit-xml", Usage: "write the results as JUnit to `FILE`"},
		)
	}
	return &cli.Command{
		Name:         name,
		Usage:        usage,
		ArgsUsage:    "[FILES]",
		Description:  help,
		Flags:        flags,
		OnUsageError: usageError,
		Before:       takeDotenv,
		Action:       func(c *cli.Context) error { return runTasks(c, &chosen, grade) },
	}
}

// runFlags are what run and execute have beside the selection of rows.
func runFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "run-dir", Usage: "the run directory, `DIR`", DefaultText: "a new one in " + runsDir + ", named after the time"},
		&cli.BoolFlag{Name: "resume", Usage: "go on with the run in --run-dir"},
		&cli.StringFlag{Name: "retry", Usage: "with --resume: run rows again that the host ended (infra), or all that ended by an error (error)"},
		&cli.BoolFlag{Name: "rerun-changed", Usage: "with --resume: run rows again whose prompt, agent or sandbox has changed"},
		parallelFlag(),
		&cli.StringFlag{Name: "preservation-mode", Usage: "what becomes of workspaces: " + preservations(), DefaultText: "DIRECT_WRITE in a container, else MOVE_ON_WRITE"},
		&cli.BoolFlag{Name: "on-host", Usage: "run rows of the driver tempdir on this host, as you; they are stamped"},
		&cli.BoolFlag{Name: "require-limits", Usage: "open a cell only where its limits of memory, cpus and pids are enforced; without it the row is stamped"},
		policyFlag(),
		engineFlag(),
		scratchFlag(),
		&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "tell more of what happens"},
		&cli.StringFlag{Name: "log-file", Usage: "write what happens to `FILE` too"},
		jsonEventsFlag(),
		streamFlag(),
	}
}

// runsDir is where runs are that nobody gave another place; runsVariable names
// another one.
const (
	runsDir      = "runs"
	runsVariable = "RUNS_DIR"
)

// baseOfRuns is the directory of all runs.
func baseOfRuns() string {
	if named := os.Getenv(runsVariable); named != "" {
		return named
	}
	return runsDir
}

func preservations() string {
	var names []string
	for _, mode := range regrade.Preservations() {
		names = append(names, string(mode))
	}
	return strings.Join(names, ", ")
}

// runTasks is run and execute.
func runTasks(c *cli.Context, chosen *selection, grade bool) error {
	o, err := runOptions(c, grade)
	if err != nil {
		return err
	}
	request, err := chosen.request(c)
	if err != nil {
		return err
	}
	if err := request.Check(); err != nil {
		return usage(c, "%v", err)
	}
	resolution, err := resolve(c, request)
	if err != nil {
		return err
	}
	var jobs []regrade.Job
	for _, row := range resolution.Rows {
		jobs = append(jobs, regrade.Job{Row: row})
	}
	for _, skip := range resolution.Skipped {
		o.Skipped = append(o.Skipped, record.Skipped{Path: skip.Path, Reason: clipReason(skip.Reason.Error())})
	}
	// What can be known to fail is refused before a directory is made.
	engine, _ := isolation.PlannedEngine(c.String("engine"))
	if o.Execute.OnHost {
		engine = isolation.EngineHost
	}
	if err := isolation.CheckPrivilege(engine); err != nil {
		return err
	}
	if !o.Resume {
		if err := refuseRun(c, jobs, o); err != nil {
			return err
		}
	}
	o.Experiment, o.Fingerprint = request.Experiment, fingerprint(c, request, chosen.texts)
	if o.Dir, err = runDir(c); err != nil {
		return err
	}
	defer keepBudget(c, time.Now())
	return runJobs(c, jobs, resolution, o)
}

// refuseRun refuses what can be known to fail before anything is made: rows that
// cannot be executed here, and a host where a program or the scratch is missing. A resume may
// have nothing to execute, and looks at its rows first.
func refuseRun(c *cli.Context, jobs []regrade.Job, o regrade.RunOptions) error {
	if err := regrade.CheckJobs(jobs, o.Execute, o.Grade); err != nil {
		return err
	}
	if len(jobs) == 0 {
		return nil
	}
	return isolation.CheckHost(isolation.Options{Scratch: c.String("scratch")})
}

// runOptions are what the options say of a run.
func runOptions(c *cli.Context, grade bool) (regrade.RunOptions, error) {
	var none regrade.RunOptions
	if err := refuseForeign(c, foreignOfRuns); err != nil {
		return none, err
	}
	if err := resumeOptions(c); err != nil {
		return none, err
	}
	how, err := streamOf(c)
	if err != nil {
		return none, err
	}
	width, err := parallelOf(c)
	if err != nil {
		return none, err
	}
	engine, err := engineOf(c)
	if err != nil {
		return none, err
	}
	image, err := defaultImage(c)
	if err != nil {
		return none, err
	}
	pull, err := pulls(c)
	if err != nil {
		return none, err
	}
	mode := regrade.Preservation(c.String("preservation-mode"))
	if mode != "" && !slices.Contains(regrade.Preservations(), mode) {
		return none, usage(c, "--preservation-mode is one of %s, not %q", preservations(), mode)
	}
	answer, err := answerOf(c)
	if err != nil {
		return none, err
	}
	keys := userKeys()
	o := regrade.RunOptions{
		Grade: grade, Live: how == streamFull, Parallel: width, Resume: c.Bool("resume"), Retry: regrade.Retry(c.String("retry")), RerunChanged: c.Bool("rerun-changed"),
		Execute: regrade.ExecuteOptions{
			Start:        startEngines(c.App.ErrWriter, engine, c.String("scratch")),
			DefaultImage: image, Pull: pull, OnHost: c.Bool("on-host"), Preserve: mode, RequireLimits: c.Bool("require-limits"),
			Policy: answer.Policy, Lookup: os.LookupEnv, Version: version, Keys: keys, Scratch: scratchOf(c),
		},
	}
	if !grade {
		return o, nil
	}
	network := c.String("network")
	if network != "" && network != regrade.NetworkNone && network != regrade.NetworkRecorded {
		return none, usage(c, "--network is none or recorded, not %q", network)
	}
	view, err := viewOf(c)
	o.Grading = regrade.Options{
		Answer: answer, AllowHost: c.Bool("allow-host-grading"), ImageDrift: c.Bool(imageDrift), Network: network, View: view, RequireLimits: c.Bool("require-limits"),
		Lookup: os.LookupEnv, Version: version, Keys: keys, Scratch: scratchOf(c),
	}
	return o, err
}

// resumeOptions refuses options that mean something only with others.
func resumeOptions(c *cli.Context) error {
	if c.Bool("resume") && c.String("run-dir") == "" {
		return usage(c, "--resume needs --run-dir, which says what to go on with")
	}
	for _, name := range []string{"allow-host-grading", "accept-plan", "retry", "rerun-changed"} {
		if c.IsSet(name) && !c.Bool("resume") {
			return usage(c, "--%s is for --resume", name)
		}
	}
	if retry := c.String("retry"); c.IsSet("retry") && !slices.Contains(regrade.Retries(), regrade.Retry(retry)) {
		return usage(c, "--retry is infra or error, not %q", retry)
	}
	return nil
}

// resolve makes the rows of the task files that the arguments name.
func resolve(c *cli.Context, request tasks.Request) (*tasks.Resolution, error) {
	files, unmatched, err := regrade.FindTaskFiles(c.Args().Slice())
	if err != nil {
		return nil, err
	}
	if len(unmatched) > 0 || len(files) == 0 {
		for _, name := range unmatched {
			fmt.Fprintf(c.App.ErrWriter, "there is no such task file: %s\n", policy.Clip(name, mostError))
		}
		why := errors.New("a name matches none")
		if c.NArg() == 0 {
			why = errors.New("no argument names one, and there is none below tasks")
		}
		return nil, &regrade.Error{Kind: regrade.TaskFault, Tried: "find the task files", Why: why,
			Do: "name task files, or patterns such as tasks/**/*.yaml; --resume needs those of the run too"}
	}
	resolution, err := criteria.NewLoader(os.LookupEnv).Rows(files, request)
	if err != nil {
		return nil, &regrade.Error{Kind: regrade.Refused, Tried: "resolve the tasks", Why: err, Do: "see what podgrade plan says of them"}
	}
	return resolution, nil
}

// mostSkipReason is how much run.json keeps of why a file was left out.
const mostSkipReason = 500

func clipReason(text string) string {
	if len(text) > mostSkipReason {
		return strings.ToValidUTF8(text[:mostSkipReason], "")
	}
	return text
}

// runDir makes the run directory, and the link to the newest.
func runDir(c *cli.Context) (string, error) {
	base := baseOfRuns()
	path, explicit := c.String("run-dir"), true
	if path == "" {
		path, explicit = filepath.Join(base, record.RunID(time.Now())), false
	}
	failed := func(err error) error {
		return &regrade.Error{Kind: regrade.Infrastructure, Tried: "make the run directory", On: path, Why: err, Do: "name one that you can write to with --run-dir"}
	}
	if whole, err := filepath.Abs(path); err == nil && !utf8.ValidString(whole) {
		return "", &regrade.Error{Kind: regrade.User, Tried: "run in", On: strconv.QuoteToASCII(whole), Why: errors.New("its path is not UTF-8, as a record's must be"), Do: "name another directory with --run-dir"}
	}
	if c.Bool("resume") {
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			return "", &regrade.Error{Kind: regrade.User, Tried: "resume the run in", On: path, Why: errors.New("there is no such directory"), Do: "name the run directory with --run-dir"}
		}
	}
	if explicit {
		err := record.OnlyARun(path)
		if errors.Is(err, record.ErrForeign) {
			return "", &regrade.Error{Kind: regrade.User, Tried: "run in", On: path, Why: err, Do: "name a new or an empty directory with --run-dir"}
		}
		if err != nil {
			return "", failed(err)
		}
	}
	dir, err := record.NewRunDir(path, explicit)
	if err != nil {
		return "", failed(err)
	}
	home, err := filepath.Abs(base)
	if err == nil {
		home, err = filepath.EvalSymlinks(home)
	}
	if err == nil && filepath.Dir(dir) == home {
		if err := record.PointLatest(dir); err != nil {
			fmt.Fprintf(c.App.ErrWriter, "warning: the link to the newest run was not made: %s\n", policy.Neutral(err.Error()))
		}
	}
	return dir, nil
}

// fingerprint is what the run is configured with.
func fingerprint(c *cli.Context, request tasks.Request, overrides []string) record.Fingerprint {
	print := record.Fingerprint{record.Version: version}
	if request.Experiment != nil {
		print["experiment_id"] = request.Experiment.ID
	}
	for _, name := range []string{"type", "model", "driver", "tags", "exclude-tags", "split", "default-image", "preservation-mode"} {
		print[strings.ReplaceAll(name, "-", "_")] = c.String(name)
	}
	for _, name := range []string{"sample", "sample-per-stratum", "repeats"} {
		print[strings.ReplaceAll(name, "-", "_")] = c.Int(name)
	}
	for _, name := range []string{"include-skipped", "on-host"} {
		print[strings.ReplaceAll(name, "-", "_")] = c.Bool(name)
	}
	print["overrides"] = append([]string{}, overrides...)
	return print
}

// runJobs runs the rows, shows how they go on, and says what they came to.
func runJobs(c *cli.Context, jobs []regrade.Job, resolution *tasks.Resolution, o regrade.RunOptions) error {
	shown, err := runProgress(c, len(jobs))
	if err != nil {
		return err
	}
	notice := &onceWriter{to: shown}
	o.Execute.Notice, o.Observe = notice, shown.Observe
	fmt.Fprintf(shown, "run directory: %s\n", policy.Neutral(o.Dir))
	for _, skip := range resolution.Skipped {
		fmt.Fprintf(shown, "left out: %s: %s\n", policy.Neutral(skip.Path), policy.NeutralText(skip.Reason.Error()))
	}
	for _, problem := range resolution.Warnings {
		fmt.Fprintf(notice, "warning: %s\n", policy.NeutralText(problem.String()))
	}
	if inCells := inCells(jobs); o.Execute.OnHost && inCells > 0 {
		fmt.Fprintf(notice, "warning: --on-host changes nothing for %s of driver docker or podman: each is executed in a cell\n", rowCount(inCells))
	}
	o.Found = func(f regrade.Found) { printFound(shown, f, o) }
	result, err := regrade.Run(c.Context, jobs, o)
	shown.End()
	if err != nil {
		return err
	}
	if !c.Bool("json") {
		if err := printRun(c.App.Writer, result, resolution.Skipped); err != nil {
			return &regrade.Error{Kind: regrade.Infrastructure, Tried: "print what became of the run", Why: err, Do: "read " + filepath.Join(o.Dir, record.RunFile)}
		}
	}
	return ended(result.ExitCode(), junit(c, o.Dir))
}

// inCells counts the rows that no option takes out of their cells.
func inCells(jobs []regrade.Job) (n int) {
	for _, job := range jobs {
		if job.Row.Task.Sandbox.Driver != tasks.DriverTempdir {
			n++
		}
	}
	return n
}

// junit writes the results for a program that reads JUnit, where that is asked
// for.
func junit(c *cli.Context, dir string) error {
	if path := c.String("junit-xml"); path != "" {
		return junitTo(dir, path)
	}
	return nil
}
