package regrade

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/go-multierror"

	"podgrade/isolation"
	"podgrade/oci"
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
	// Given is the operator's own task that the row is graded by; nil: the
	// recorded one.
	Given *Given
	// Run is the run directory, absolute, of a caller who refreshes its summary
	// himself; "": the grade looks for it, and refreshes it.
	Run string
	// Check grades without writing anything: the verdict is only compared with
	// the recorded one. post_run, which no verdict depends on, is left out.
	Check bool
	// Observe learns that the row was graded, once; nil: nobody does.
	Observe func(Event)
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

	Recorded, Found Standing // what the record held, and what this grade came to
}

// Passed tells whether the gate passed and the run had ended well.
func (v *Verdict) Passed() bool { return v.Status == record.Success }

// Grade grades one row and writes the verdict into its record. On any error
// the record has the bytes that it had before. The error is classified by
// KindOf; it wraps context.Canceled when ctx was cancelled. Once the record is
// written the row is graded, whatever ends afterwards.
func Grade(ctx context.Context, row *record.Row, o Options) (*Verdict, error) {
	g, err := prepare(row, o)
	if err != nil {
		return nil, err
	}
	verdict, err := g.grade(ctx)
	if err != nil && ctx.Err() != nil {
		return nil, &Interrupted{What: "the row is as it was"}
	}
	return verdict, err
}

// grading is one grade under way.
type grading struct {
	row       *record.Row
	options   Options
	before    []byte // of the record
	record    *record.Record
	task      *tasks.Task
	accepted  policy.Accepted
	workspace string
	logs      *logs
	warnings  []string // of before there was a log
	began     time.Time
}

// prepare does all that needs no engine: it reads the record, rebuilds the
// task, asks for consent, and finds workspace and reference.
func prepare(row *record.Row, o Options) (*grading, error) {
	g := &grading{row: row, options: o, began: time.Now()}
	if err := g.read(); err != nil {
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
	warning, err := checkReference(g.record, g.accepted.Reference())
	if err != nil {
		return nil, err
	}
	if warning != "" {
		g.warn(warning)
	}
	if changed := g.changedContext(); changed != "" {
		g.warn(changed)
	}
	for _, text := range g.gaps() {
		g.warn(text)
	}
	return g, nil
}

// gaps says what the row may have had when the agent ran and a grade cannot
// give it, where nothing is certain enough for a refusal or a stamp.
func (g *grading) gaps() []string {
	var gaps []string
	for _, problem := range g.task.Warnings() {
		gaps = append(gaps, "the recorded task: "+problem.Error())
	}
	if g.accepted.Runs() && g.accepted.TaskDir() == "" {
		gaps = append(gaps, "the recorded task file is not on this host, or out of reach, so commands find no task directory")
	}
	for _, installed := range []struct {
		what     string
		packages *tasks.Packages
		dir      string
	}{
		{"python", g.task.Sandbox.Python, ".venv"},
		{"node", g.task.Sandbox.Node, "node_modules"},
	} {
		if installed.packages == nil || len(installed.packages.EnvPackages) == 0 || isDir(filepath.Join(g.workspace, installed.dir)) {
			continue
		}
		gaps = append(gaps, fmt.Sprintf("the task installs %s packages and the workspace holds no %s: a grade installs nothing", installed.what, installed.dir))
	}
	return gaps
}

func (g *grading) read() error {
	var err error
	g.record, g.before, err = g.row.Read()
	if errors.Is(err, record.ErrNoRecord) {
		return &Error{Kind: User, Tried: "grade", On: g.row.Dir, Why: err,
			Do: "name a row directory: RUN/VARIANT/TASK/NN"}
	}
	if err != nil {
		kind, do := kindOfReading(err), "restore it, or execute the row again"
		switch {
		case errors.Is(err, fs.ErrPermission):
			do = "grade it as the user who owns it, or make " + record.TaskFile + " readable"
		case kind == Infrastructure:
			do = "see to the disk, and grade it again"
		}
		return &Error{Kind: kind, Tried: "read the record of", On: g.row.Dir, Why: err, Do: do}
	}
	g.task, err = g.taskOf()
	if err == nil && len(g.task.SuccessCriteria) == 0 {
		err = errNoCriteria
	}
	if g.options.Check && !g.record.HasVerdict() {
		return &Error{Kind: User, Tried: "check the verdict of", On: g.row.Dir, Why: errors.New("it has none"), Do: "grade it first, without --check"}
	}
	if err != nil {
		return &Error{Kind: Refused, Tried: "rebuild the task from the record of", On: g.row.Dir, Why: err,
			Do: "grade it by a task file (podgrade evaluate TASK ROW), or execute the row again"}
	}
	return authorErrors(g.row.Dir, g.task)
}

// kindOfReading tells a disk that gave an error from a record that is none: the
// one may work the next time.
func kindOfReading(err error) Kind {
	var failed *fs.PathError
	if errors.As(err, &failed) && !errors.Is(err, fs.ErrPermission) {
		return Infrastructure
	}
	return Refused
}

// taskOf is the task that the row is graded by.
func (g *grading) taskOf() (*tasks.Task, error) {
	if g.options.Given != nil {
		return g.options.Given.task, nil
	}
	config, err := g.record.TaskConfig()
	if err != nil {
		return nil, err
	}
	return tasks.FromRecord(config.Resolved)
}

// taskFile is the path of the task file that the row is graded by.
func (g *grading) taskFile() (string, error) {
	if g.options.Given != nil {
		return g.options.Given.path, nil
	}
	config, err := g.record.TaskConfig()
	return config.SourceFile, err
}

// authorErrors refuses criteria that no cell is needed to find wrong, all of
// them in one go.
func authorErrors(dir string, task *tasks.Task) error {
	var all *multierror.Error
	for _, wrong := range criteria.Validate(task.SuccessCriteria) {
		all = multierror.Append(all, wrong)
	}
	if all == nil {
		return nil
	}
	all.ErrorFormat = oneALine
	return &Error{Kind: TaskFault, Tried: "check the criteria of", On: dir, Why: all, Do: "correct the task file and execute the row again"}
}

// oneALine lists errors, each on a line of its own.
func oneALine(errs []error) string {
	var b strings.Builder
	for _, err := range errs {
		b.WriteString("\n  - " + policy.Neutral(err.Error()))
	}
	return b.String()
}

// where routes the grade (spec/regrade.md 1.2).
func (g *grading) where() (policy.Place, error) {
	if g.options.AllowHost || g.task.Sandbox.Driver == tasks.DriverTempdir && !g.executedInCell() {
		return policy.OnHost, nil
	}
	if value, _ := g.options.Lookup(oci.EnvInContainer); value == "1" {
		return "", &Error{Kind: Refused, Tried: "open a cell for", On: g.row.Dir,
			Why: fmt.Errorf("%s=1 says that podgrade itself runs in a container", oci.EnvInContainer),
			Do:  "unset it, or use --allow-host-grading to grade right here"}
	}
	return policy.InCell, nil
}

// executedInCell tells whether podgrade executed the row in a cell, which its
// driver does not say: tempdir means the host to upstream.
func (g *grading) executedInCell() bool {
	_, onHost := g.record.Environment.Get(record.ExecutedOnHost)
	return !onHost && record.Pin(g.record.Environment).Known()
}

// checkFair refuses a row whose cell this release cannot make: the verdict of
// another cell would say nothing about the row, and no stamp says so.
func (g *grading) checkFair(place policy.Place) error {
	if place == policy.OnHost {
		return nil
	}
	var needs []string
	need := func(what, value string) {
		if value != "" {
			needs = append(needs, what+" "+policy.Neutral(value))
		}
	}
	if podman := g.task.Sandbox.Podman; podman != nil {
		if podman.ReadOnly {
			need("a root file system", "that cannot be written")
		}
	}
	if len(needs) == 0 {
		return nil
	}
	return &Error{Kind: Refused, Tried: "open a cell for", On: g.row.Dir,
		Why: fmt.Errorf("the record names %s, and this release cannot give that to a grading cell", strings.Join(needs, ", ")),
		Do:  "use the release of podgrade that executed the row, or grade with --allow-host-grading"}
}

func (g *grading) consent() error {
	place, err := g.where()
	if err != nil {
		return err
	}
	if err := g.checkFair(place); err != nil {
		return err
	}
	file, err := g.taskFile()
	if err != nil {
		return err
	}
	answer := g.options.Answer
	if g.options.Given != nil {
		answer.TaskFile = true
	}
	searchPath := g.record.Environment.Text(record.CommandBasePath)
	if g.options.Given != nil && !answer.RecordedCommands {
		searchPath = "" // nobody is asked about what only the record says
	}
	g.accepted, err = policy.Consent(policy.Request{
		Task:            g.task,
		Phase:           oci.Grade,
		Given:           g.options.Given != nil,
		Place:           place,
		HostAllowed:     g.options.AllowHost,
		Pin:             record.Pin(g.record.Environment),
		State:           g.record.Environment.Text(record.StateDiffID),
		ImageDrift:      g.options.ImageDrift,
		RecordedNetwork: g.network() == NetworkRecorded,
		TaskFile:        file,
		RunDir:          g.run(),
		SearchPath:      searchPath,
		PostRunDone:     g.postRunDone(),
		Passed:          passed(g.record.Environment),
		Lookup:          g.options.Lookup,
	}, answer, g.options.Notice)
	return err
}

// checkTaskFile refuses a recorded task file that is not the row's: the cell
// would get the directory of something else, such as /etc, as its task
// directory. It reads the file, so it is asked after consent.
func (g *grading) checkTaskFile() error {
	if g.accepted.TaskDir() == "" || g.options.Given != nil {
		return nil
	}
	config, err := g.record.TaskConfig()
	if err != nil {
		return err
	}
	id, err := tasks.FileID(config.SourceFile)
	if err == nil && id != g.task.TaskID && id != g.task.SuiteID {
		err = fmt.Errorf("its task_id is %q, and the row is of %q", id, g.task.TaskID)
	}
	if err != nil {
		return &Error{Kind: Refused, Tried: "use the recorded task file", On: config.SourceFile, Why: err,
			Do: "put the task file of the run back there: the directory that it lies in is the task directory"}
	}
	return nil
}

// network is one of the networks that can be chosen for a grade.
func (g *grading) network() string {
	if g.options.Network == "" && g.options.Given != nil {
		return g.options.Given.network()
	}
	return g.options.Network
}

// passed names the host variables that the agent's cell had; nil for a record
// that does not say, as every record of coder-eval.
func passed(info *record.Object) *[]string {
	if value, ok := info.Value(record.Variables).Text(); ok {
		names := strings.FieldsFunc(value, func(r rune) bool { return r == ',' })
		return &names
	}
	return nil
}

func (g *grading) postRunDone() bool {
	return g.record.Get(record.FieldPostRunResults).Length() > 0
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
	found, err := g.ask(ctx, engines, g.options.View)
	if err != nil {
		return nil, err
	}
	if reason := found.doubt(); reason != "" {
		if found, err = g.askAgain(ctx, engines, found, reason); err != nil {
			return nil, err
		}
	}
	spot := found.spot
	defer spot.drop()
	var hooks []record.HookResult
	if !g.options.Check {
		if hooks, err = g.postRun(ctx, spot); err != nil {
			return nil, err
		}
	}
	if err := spot.finish(ctx); err != nil {
		return nil, err
	}
	verdict, err := g.verdict(found.results)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	verdict.Recorded = StandingOf(g.record)
	g.fold(verdict, outcome{spot: spot, unpinned: found.unpinned, hooks: hooks, grading: found.grading, whole: time.Since(started)})
	verdict.Found = StandingOf(g.record)
	if g.options.Check {
		g.checked(verdict)
		return verdict, nil
	}
	if err := g.write(verdict, spot); err != nil {
		return nil, err
	}
	return verdict, nil
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
	return openLogs(g.row, g.warn)
}

// check runs the criteria.
func (g *grading) check(ctx context.Context, spot *place) ([]criteria.Result, error) {
	trajectory, err := trajectoryOf(g.record)
	if err != nil {
		return nil, &Error{Kind: TaskFault, Tried: "read the trajectory of", On: g.row.Dir, Why: err, Do: "execute the row again"}
	}
	where := criteria.Surroundings{
		Cell:            spot,
		Workspace:       spot.places.Workspace,
		Trajectory:      trajectory,
		NetworkWithheld: g.networkWithheld(),
		Sink:            g.logs,
		Ignore:          criteria.IgnorePatterns(g.task.Sandbox.IgnorePatterns),
	}
	if g.accepted.TaskDir() != "" {
		where.TaskDir = spot.taskDir()
	}
	if g.accepted.Reference() != "" {
		where.Reference, where.ReferencePath = spot.reference(), spot.places.Reference
	}
	results, err := criteria.Check(ctx, g.task.SuccessCriteria, where)
	return results, g.checkError(err)
}

// checkError gives an error of a criterion the parts that every error has. What
// names the criterion is text of the record, so it must not become a line of
// its own.
func (g *grading) checkError(err error) error {
	var author *criteria.AuthorError
	var lost *criteria.InfrastructureError
	switch {
	case errors.As(err, &author):
		return &Error{Kind: TaskFault, Tried: "check", On: author.Error(), Do: "correct the task file and execute the row again"}
	case errors.As(err, &lost):
		on := fmt.Sprintf("criterion %d (%s: %s)", lost.Index+1, lost.Type, lost.Description)
		return &Error{Kind: KindOf(lost.Err), Tried: "check", On: on, Why: lost.Err, Do: "the row is as it was, and can be graded again"}
	}
	return err
}

// networkWithheld tells whether the run had a network and this grade has none.
func (g *grading) networkWithheld() bool {
	network, _ := g.task.Network()
	return g.accepted.Place() == policy.InCell && g.accepted.Network() == oci.Sealed && network != tasks.NetworkNone
}

// place makes the place where the row is graded; nothing is opened yet.
func (g *grading) place(ctx context.Context, engines GradeEngines, view string) (spot *place, unpinned string, err error) {
	spot = &place{accepted: g.accepted, whole: g.logs.whole, around: surroundings{
		task: g.task, accepted: g.accepted, lookup: g.options.Lookup,
		recorded: g.record.Environment.Text(record.CommandBasePath),
	}}
	order := isolation.Order{
		Workspace: g.workspace,
		View:      view,
		TaskDir:   g.accepted.TaskDir(),
		Reference: g.accepted.Reference(),
		Hidden:    g.hidden(),
		Log:       g.logs.cell,

		RequireLimits: g.options.RequireLimits,
		Plan: oci.Plan{
			Phase:        oci.Grade,
			Network:      g.accepted.Network(),
			Capabilities: g.accepted.Capabilities(),
			Limits:       limitsOf(g.task.Sandbox.Limits),
		},
	}
	if g.accepted.Place() == policy.OnHost {
		spot.open = func(ctx context.Context) (isolation.Cell, error) { return engines.OpenOnHost(ctx, order) }
		return spot, "", nil
	}
	if spot.image, unpinned, err = g.image(ctx, engines); err != nil {
		return nil, "", err
	}
	order.WorkingDir, order.Ignore = workingDirOf(g.task, spot.image), notCaptured
	order.Image = asUser(spot.image, g.task)
	if unpinned != record.Drift { // a state layer lies over its own image only
		order.State = g.accepted.State()
	}
	spot.open = func(ctx context.Context) (isolation.Cell, error) { return engines.Open(ctx, order) }
	return spot, unpinned, nil
}

// hidden are the directories that no view may show: the run, which holds the
// records and workspaces of all rows, and above all the answers in them.
func (g *grading) hidden() []string { return []string{g.run()} }

// run is the directory of the run that the row belongs to.
func (g *grading) run() string {
	if g.options.Run != "" {
		return g.options.Run
	}
	return record.RunOf(g.row.Dir, record.Identity{
		VariantID: g.record.VariantID, TaskID: g.record.TaskID, Replicate: g.row.Replicate(),
	})
}

// asUser is the image with the user that its task names instead.
func asUser(image isolation.Image, task *tasks.Task) isolation.Image {
	if podman := task.Sandbox.Podman; podman != nil && podman.User != "" && task.Sandbox.Driver != tasks.DriverTempdir {
		image.User = podman.User
	}
	return image
}

func limitsOf(l tasks.Limits) oci.Limits {
	return oci.Limits{MemoryMB: int64(l.MaxMemoryMB), CPUs: l.MaxCPUs, PIDs: int64(l.MaxPIDs)}
}
