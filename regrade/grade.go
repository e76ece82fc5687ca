package regrade

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"podgrade/policy"
	"podgrade/tasks"
	"podgrade/tasks/criteria"
	"podgrade/tasks/record"
)

// Networks that the operator can choose for a grade (--network).
const (
	NetworkNone     = "none"     // sealed
	NetworkRecorded = "recorded" // what the record asks for
)

// Options say how a row is graded.
type Options struct {
	Answer    policy.Answer
	AllowHost bool // --allow-host-grading
	// ImageDrift grades in the image that has the pinned one's name now, where
	// that one is gone (--allow-image-drift). The row is stamped.
	ImageDrift bool
	Network    string // NetworkNone or NetworkRecorded; "" is none
	Workspace  string // --workspace; "": the recorded one
	// RequireLimits refuses a grade without the limits that the task asks for
	// (--require-limits). Else the row is stamped.
	RequireLimits bool
	View          string // --workspace-view, one of isolation.Views; "": auto
	// Start starts the engines. It is called after consent, at most once.
	Start func(context.Context) (Engines, error)
	// Notice receives what was accepted, and warnings, safe to print.
	Notice io.Writer
	// Lookup finds a variable of this host.
	Lookup func(name string) (string, bool)
	// Version of podgrade, for the record.
	Version string
	// Keys are what the row's signature is checked with, and its verdict signed;
	// nil: no signature counts, and none is made.
	Keys *policy.Keys
	// Scratch is the directory of podgrade's own data, which nothing is given of;
	// "": the engines know it.
	Scratch string
	// Given is the operator's own task that the row is graded by; nil: the
	// recorded one.
	Given *Given
	// Run is the run directory, absolute, of a caller who refreshes its summary
	// himself; "": the grade looks for it, and refreshes it.
	Run string
	// SearchTimeout bounds each search for a regular expression; 0: as package
	// criteria says.
	SearchTimeout time.Duration
	// Check grades without writing anything: the verdict is only compared with
	// the recorded one. post_run, which no verdict depends on, is left out.
	Check bool
	// KeepWrites is a directory that gets what the commands of the grade changed in
	// their view of the workspace (--keep-writes); "": only the row's own share
	// of that is kept.
	KeepWrites string
	// CleanRoom grades the row once more where the agent changed nothing but its
	// workspace, and compares the two verdicts (--clean-room).
	CleanRoom bool
	// Live is what the criteria found in the agent's own cell; nil: they are asked
	// in a cell of the grade's.
	Live *Live
	// Observe learns that the row was graded, once; nil: nobody does.
	Observe func(Event)
	// Missed learns of each suite that a graded row belongs to and that misses a
	// threshold, once all rows are graded; nil: nobody does.
	Missed func(*record.Suite)

	summaries *summaries // of many rows; nil: the grade refreshes that of its run itself
	// summariesEvery is how often they are written meanwhile, of tests; 0: as
	// newSummaries says.
	summariesEvery time.Duration
}

// Verdict is what a grade came to.
type Verdict struct {
	Row       record.Identity
	Before    record.Status // of the row before this grade
	Status    record.Status
	Score     float64
	Results   []criteria.Result
	Stamps    []record.Stamp
	Place     policy.Place
	Inherited bool // the status is an execution fact of the run

	Clean *CleanRoom // nil: it was not asked for

	Recorded, Found Standing // what the record held, and what this grade came to
}

// Passed tells whether the gate passed and the run had ended well.
func (v *Verdict) Passed() bool { return v.Status == record.Success }

// Grade grades one row and writes the verdict into its record. On any error
// the record has the bytes that it had before. The error is classified by
// KindOf; it wraps context.Canceled when ctx was cancelled. Once the record is
// written the row is graded, whatever ends afterwards.
//
// Grades of one row come one after another: whoever comes second waits, and
// then reads what the first has written.
func Grade(ctx context.Context, row *record.Row, o Options) (*Verdict, error) {
	if !o.Check { // which writes nothing
		release, err := claim(ctx, row, o)
		if err != nil {
			o.Live.Drop()
			return nil, err
		}
		defer release()
	}
	g, err := prepare(row, o)
	if err != nil {
		o.Live.Drop()
		return nil, err
	}
	defer g.keeper.drop()
	verdict, err := g.grade(ctx)
	g.changes.drop()
	if err != nil && ctx.Err() != nil {
		return nil, &Interrupted{What: "the row is as it was"}
	}
	return verdict, err
}

// claim waits until nobody else grades the row.
func claim(ctx context.Context, row *record.Row, o Options) (release func(), err error) {
	release, err = row.Claim(ctx, func() {
		fmt.Fprintf(o.Notice, "waiting for another grade of %s\n", policy.Neutral(row.Dir))
	})
	switch {
	case err == nil:
		return release, nil
	case ctx.Err() != nil:
		return nil, &Interrupted{What: "the row is as it was"}
	}
	return nil, &Error{Kind: Infrastructure, Tried: "grade", On: row.Dir, Why: err, Do: "wait until the other grade has ended, or end it"}
}

// grading is one grade under way.
type grading struct {
	row       *record.Row
	options   Options
	before    []byte // of the record
	record    *record.Record
	task      *tasks.Task
	vouched   *vouched // nil: nobody known vouches for the row
	bySigner  string   // what to say once the workspace is found to be the signed one
	accepted  policy.Accepted
	workspace string
	logs      *logs
	keeper    *keeper // of KeepWrites; nil: nobody asked
	changes   *rowChanges
	warnings  []string // of before there was a log
	began     time.Time
	clean     bool // this is the grade in the clean room
	saidTimes bool // that the workspace's files were touched
}

// prepare does all that needs no engine: it reads the record, rebuilds the
// task, asks for consent, and finds workspace and reference.
func prepare(row *record.Row, o Options) (*grading, error) {
	g := &grading{row: row, options: o, began: time.Now()}
	if err := g.read(); err != nil {
		return nil, err
	}
	if err := g.vouch(); err != nil {
		return nil, err
	}
	if err := g.consent(); err != nil {
		return nil, err
	}
	if err := g.checkTaskFile(); err != nil {
		return nil, err
	}
	var err error
	if g.workspace, err = findWorkspace(row, g.record, o.Workspace); err != nil {
		return nil, err
	}
	if err := g.checkImportedReference(); err != nil {
		return nil, err
	}
	warning, err := checkReference(g.record, g.accepted.Reference())
	if err != nil {
		return nil, err
	}
	if warning != "" {
		g.warn(warning)
	}
	if g.keeper, err = g.openKeeper(); err != nil {
		return nil, err
	}
	if changed := g.changedContext(); changed != "" {
		g.warn(changed)
	}
	for _, text := range g.gaps() {
		g.warn(text)
	}
	return g, nil
}

// warn tells the operator, and the log, what may be surprising.
func (g *grading) warn(text string) {
	fmt.Fprintf(g.options.Notice, "warning: %s\n", policy.Neutral(text))
	if g.logs != nil {
		g.logs.Note("podgrade", text)
		return
	}
	g.warnings = append(g.warnings, text)
}

// grade starts the engines and does the rest.
func (g *grading) grade(ctx context.Context) (verdict *Verdict, err error) {
	engines, err := g.options.Start(ctx)
	if err != nil {
		g.options.Live.Drop()
		return nil, err
	}
	defer func() {
		if closing := engines.Close(); closing != nil {
			g.warn("ending the engines: " + closing.Error())
		}
	}()
	g.logs = g.openLogs()
	// The logs of an interrupted grade are dropped: the row is to be as it was.
	defer func() { g.logs.close(err == nil || ctx.Err() == nil, g.warn) }()
	for _, text := range g.warnings {
		g.logs.Note("podgrade", text)
	}
	verdict, err = g.judge(ctx, engines)
	if err != nil {
		g.logs.Note("podgrade", "the grade failed, and the record is as it was: "+err.Error())
	}
	return verdict, err
}

// judge asks the criteria, and writes what they come to.
func (g *grading) judge(ctx context.Context, engines GradeEngines) (*Verdict, error) {
	started := time.Now()
	found, err := g.find(ctx, engines)
	if err != nil {
		return nil, err
	}
	spot := found.spot
	defer spot.drop()
	changes := g.keepChanges(ctx, spot) // before post_run, which is no criterion
	hooks, err := g.afterwards(ctx, engines, spot)
	if err != nil {
		return nil, err
	}
	if err := spot.finish(ctx); err != nil {
		return nil, err
	}
	verdict, err := g.verdict(found.results)
	if err != nil {
		return nil, err
	}
	clean, err := g.inCleanRoom(ctx, engines, verdict)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	verdict.Recorded = StandingOf(g.record)
	g.fold(verdict, outcome{spot: spot, unpinned: found.unpinned, hooks: hooks, grading: found.grading, whole: time.Since(started) + g.options.took(), clean: clean})
	verdict.Found = StandingOf(g.record)
	if g.options.Check {
		g.checked(verdict)
		return verdict, nil
	}
	if err := g.write(verdict, spot, changes); err != nil {
		return nil, err
	}
	return verdict, nil
}

// find asks the criteria, unless they were asked in the agent's own cell. The
// place is open afterwards, unless there is an error.
func (g *grading) find(ctx context.Context, engines GradeEngines) (*seen, error) {
	if live := g.options.Live; live != nil {
		return live.found, live.err
	}
	found, err := g.ask(ctx, engines, g.options.View)
	if err != nil {
		return nil, err
	}
	if reason := found.doubt(); reason != "" {
		return g.askAgain(ctx, engines, found, reason)
	}
	return found, nil
}

// afterwards runs post_run where the criteria were asked; after a live grade in a
// cell of its own, since the agent's is closed.
func (g *grading) afterwards(ctx context.Context, engines GradeEngines, spot *place) ([]record.HookResult, error) {
	if g.options.Check || len(g.accepted.PostRun()) == 0 {
		return nil, nil
	}
	if g.options.Live == nil {
		return g.postRun(ctx, spot)
	}
	own, _, err := g.place(ctx, engines, g.options.View)
	if err != nil {
		return nil, err
	}
	defer own.drop()
	hooks, err := g.postRun(ctx, own)
	return hooks, errors.Join(err, own.finish(ctx))
}

// checked tells of a grade that nothing is written of.
func (g *grading) checked(v *Verdict) {
	observe(g.options.Observe, Event{
		Kind: RowChecked, Row: v.Row, Dir: g.row.Dir, Last: true, Took: time.Since(g.began), Status: v.Status, Score: &v.Score, Verdict: v,
	})
}

// noLogs go nowhere.
func noLogs() *logs { return &logs{grade: &boundedLog{}, cell: &boundedLog{}} }

// openLogs opens the logs of this grade; those of a check go nowhere.
func (g *grading) openLogs() *logs {
	if g.options.Check {
		return noLogs()
	}
	if live := g.options.Live; live != nil {
		return live.logs
	}
	return openLogs(g.row, g.warn)
}
