package regrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"time"

	"podgrade/isolation"
	"podgrade/oci"
	"podgrade/policy"
	"podgrade/tasks"
	"podgrade/tasks/agents"
	"podgrade/tasks/record"
)

// Execute executes one row: it makes the agent's cell, sets it up, lets the
// agent work, keeps what it left, and writes the record, which holds no
// verdict. How the agent's run ended is the status of the record and no error.
//
// An error means that there is no record: the row was refused, ctx was
// cancelled, or the record could not be written. The error is classified by
// KindOf.
func Execute(ctx context.Context, row *record.Row, job Job, o ExecuteOptions) (*Executed, error) {
	accepted, err := consentTo(job, o)
	if err != nil {
		return nil, err
	}
	agent, err := agents.For(job.Row.Task.Agent.Type)
	if err != nil {
		return nil, err
	}
	e := &execution{row: row, job: job, options: o, task: job.Row.Task, accepted: accepted, agent: agent, steps: o.steps}
	if e.steps == nil {
		e.steps = allSteps()
	}
	executed, err := e.execute(ctx)
	if err != nil {
		e.liveGrade.Drop()
	}
	if err != nil && ctx.Err() != nil {
		return nil, &Interrupted{What: "the row has no record"}
	}
	return executed, err
}

// execution is one execute under way.
type execution struct {
	row      *record.Row
	job      Job
	options  ExecuteOptions
	task     *tasks.Task
	accepted policy.Accepted
	agent    agents.Agent
	steps    *steps

	engines   Engines
	image     isolation.Image
	workspace string // on this host
	network   oci.Network
	logs      *logs
	cell      isolation.Cell
	front     []string // directories that come first on PATH
	recorders *recorders

	context         string // digest of the build context
	referenceDigest string
	agentPath       string // PATH of the agent

	started   time.Time
	facts     record.Execution
	made      isolation.Made
	before    *isolation.StateLayer // of before the agent; nil: none was to be kept
	liveGrade *Live                 // nil: the row is not graded live
	settled   *isolation.Settled
	alive     []isolation.Process
	ended     bool   // the cell ended by one of its own commands
	attempts  uint64 // to reach a network
}

// execute starts the engines and does the rest.
func (e *execution) execute(ctx context.Context) (executed *Executed, err error) {
	engines, err := e.options.Start(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if closing := engines.Close(); closing != nil {
			e.warn("ending the engines: " + closing.Error())
		}
	}()
	e.engines, e.started = engines, time.Now()
	e.logs = openRunLogs(e.row, e.warn)
	defer func() { e.logs.close(err == nil || ctx.Err() == nil, e.warn) }()
	for _, problem := range e.task.Warnings() {
		e.logs.Note("podgrade", "the task: "+problem.Error())
	}
	ended := e.work(ctx)
	if e.cell != nil {
		ended = errors.Join(ended, e.preserve(ctx))
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if ended != nil && KindOf(ended) == Refused {
		e.logs.Note("podgrade", "refused, so that there is no record: "+ended.Error())
		return nil, ended
	}
	return e.finish(ended)
}

// work does everything between the start of the engines and the record. Its
// error says how the row ended, when it did not end well.
func (e *execution) work(ctx context.Context) error {
	if err := e.findImage(ctx); err != nil {
		return err
	}
	if err := e.digestReference(); err != nil {
		return err
	}
	if err := e.makeWorkspace(); err != nil {
		return err
	}
	if err := e.open(ctx); err != nil {
		return errors.Join(err, e.forgetWorkspace())
	}
	defer e.close()
	if err := e.refusesState(); err != nil {
		return err
	}
	ended := e.setUp(ctx)
	if ended == nil {
		setup := time.Since(e.started)
		e.facts.Setup = &setup
		ended = e.turn(ctx)
	}
	var b *broken
	if ended != nil && !errors.As(ended, &b) {
		return ended // the cell is gone, and Close gives the workspace back
	}
	if e.facts.Setup != nil && e.gradesLive() {
		e.askLive(ctx)
	}
	if err := e.settle(ctx); err != nil {
		return errors.Join(err, ended)
	}
	return ended
}

// open opens the agent's cell. A network that nobody asked for by name is no
// reason to refuse a row on a host that cannot give one.
func (e *execution) open(ctx context.Context) error {
	e.network = e.accepted.Network()
	err := e.openWith(ctx)
	_, written := e.task.Network()
	if errors.Is(err, isolation.ErrNoNetwork) && !written {
		e.warn("this host can give a cell no network, and the task names none, so the agent works without: " + err.Error())
		e.network = oci.Sealed
		err = e.openWith(ctx)
	}
	return err
}

func (e *execution) openWith(ctx context.Context) error {
	workspace := e.workspace
	if e.workingDir() != "" {
		workspace = "" // nothing is mounted
	}
	order := isolation.Order{
		Row:       e.row.Dir,
		Workspace: workspace, WorkingDir: e.workingDir(), Create: true, Image: e.steps.user(e.image, e.task), Log: e.logs.cell, RequireLimits: e.options.RequireLimits,
		Plan: oci.Plan{
			Phase: oci.Execute, Network: e.network, Capabilities: e.accepted.Capabilities(), Limits: limitsOf(e.task.Sandbox.Limits),
		},
	}
	open := e.engines.Open
	if e.accepted.Place() == policy.OnHost {
		open = e.engines.OpenOnHost
	}
	starting := ctx
	if limit := e.accepted.Setup().Timeouts.Start; limit > 0 {
		var cancel context.CancelFunc
		starting, cancel = context.WithTimeout(ctx, time.Duration(limit)*time.Second)
		defer cancel()
	}
	cell, err := open(starting, order)
	if err != nil {
		return err
	}
	e.cell, e.made = cell, cell.Made()
	return nil
}

// workingDir is where in the image the agent works; "": in a mounted workspace.
func (e *execution) workingDir() string { return e.steps.workingDir(e.accepted, e.image) }

// workingDirOf is where in the image a row's workspace is; "": it is mounted
// (spec/regrade.md 3.4).
func workingDirOf(accepted policy.Accepted, image isolation.Image) string {
	const fallback = "/root"
	dir := accepted.WorkingDir()
	if dir != "auto" {
		return dir
	}
	if own := image.WorkingDir; path.IsAbs(own) && path.Clean(own) != "/" {
		return path.Clean(own)
	}
	return fallback
}

// close ends the cell, whatever became of the row.
func (e *execution) close() {
	if err := e.cell.Close(); err != nil {
		e.warn("closing the agent's cell: " + err.Error())
	}
}

// settle ends what the agent left running, and keeps what it left.
func (e *execution) settle(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var err error
	if !e.ended {
		if e.alive, err = e.cell.EndProcesses(ctx); err != nil && !errors.Is(err, isolation.ErrAlive) {
			return err
		}
	}
	if err := e.recorders.finish(ctx); isOutcome(err) {
		e.warn("the log of recorded commands stays as the agent left it: " + err.Error())
	} else if err != nil {
		return err
	}
	order := isolation.Settle{KeepState: e.keeps().after, LookState: true}
	if e.workingDir() != "" {
		order.Capture, order.Ignore = e.workspace, notCaptured
	}
	settled, err := e.cell.Settle(ctx, order)
	var fault *isolation.Fault
	if errors.As(err, &fault) && fault.Kind == isolation.Evidence {
		return &broken{record.Error, record.CategoryAgent, record.ComponentIteration, "what the agent left cannot be kept: " + err.Error()}
	}
	if err != nil {
		return err
	}
	e.settled = &settled
	if err := e.cell.CheckImage(ctx); err != nil {
		return err
	}
	return e.stateProblem()
}

// notCaptured are names that a capture leaves out at every level: stores of
// credentials, and what tools make again (spec/regrade.md 3.4).
var notCaptured = []string{
	".claude", ".aws", ".ssh", ".gnupg", ".docker", ".azure", ".netrc", ".gitconfig",
	venvDir, nodeDir, ".npm-prefix", ".cache", ".config", ".local",
}

// digestReference notes what the reference was before the agent worked, which
// never sees it.
func (e *execution) digestReference() error {
	for _, dir := range referenceDirs(e.job.Row) {
		var err error
		if e.referenceDigest, err = referenceDigest(dir); err != nil {
			return setupFailed("read the reference " + dir + ": " + err.Error())
		}
	}
	return nil
}

// referenceDirs is the directory of the answer key, when the task has one. No
// template brings it into the workspace.
func referenceDirs(row tasks.Row) []string {
	if row.Task.Reference == nil {
		return nil
	}
	dir := row.Task.Reference.Directory
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(row.File.Dir, dir)
	}
	return []string{dir}
}

// makeWorkspace makes the directory that the agent works in.
func (e *execution) makeWorkspace() error {
	parent := record.ArtifactsDir
	if e.mode() != PreserveDirect {
		parent = record.WorkspaceDraft
	}
	dir := filepath.Join(e.row.Dir, parent, e.task.TaskID)
	err := os.MkdirAll(filepath.Dir(dir), 0o755)
	if err == nil {
		err = os.Mkdir(dir, 0o755)
	}
	if err != nil {
		return &Error{Kind: Infrastructure, Tried: "make the workspace", On: dir, Why: err, Do: "remove what is left of an earlier run"}
	}
	e.workspace = dir
	return nil
}

// forgetWorkspace removes the workspace of a cell that never was, so that the
// row can be executed when what was in the way is gone.
func (e *execution) forgetWorkspace() error {
	for dir := e.workspace; dir != e.row.Dir; dir = filepath.Dir(dir) {
		if err := os.Remove(dir); err != nil {
			return err
		}
	}
	e.workspace = ""
	return nil
}

// mode is the preservation mode; upstream's default depends on the driver.
func (e *execution) mode() Preservation {
	switch {
	case e.options.Preserve != "":
		return e.options.Preserve
	case e.task.Sandbox.Driver == tasks.DriverTempdir:
		return PreserveMove
	}
	return PreserveDirect
}

// warn tells the operator, and the log, what may be surprising.
func (e *execution) warn(text string) {
	fmt.Fprintf(e.options.Notice, "warning: %s: %s\n", policy.Neutral(e.job.Identity().String()), policy.Neutral(text))
	if e.logs != nil {
		e.logs.Note("podgrade", text)
	}
}
