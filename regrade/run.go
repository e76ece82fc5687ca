package regrade

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"podgrade/policy"
	"podgrade/tasks"
	"podgrade/tasks/record"
)

// RunOptions say how many rows are run.
type RunOptions struct {
	// Dir is the run directory, absolute, every link resolved; it exists.
	Dir string
	// Grade grades each row after it was executed: that is `run`, and without it
	// `execute`.
	Grade    bool
	Parallel int // rows at once; 0: AutoParallel
	// Resume goes on with the rows that are there. Without it none may be.
	Resume bool
	Retry  Retry
	// RerunChanged runs rows again that were executed with something else than
	// the task files say now; without it they are refused.
	RerunChanged bool

	// Execute and Grading are what each row is executed and graded with. Run
	// itself fills in the engines, the task, the run and who observes.
	Execute ExecuteOptions
	Grading Options

	Skipped    []record.Skipped  // task files that take no part
	Experiment *tasks.Experiment // nil: the built-in one
	// Fingerprint is what the run is configured with; a resume with another one
	// goes on with a warning.
	Fingerprint record.Fingerprint
	// Found is told what the rows of the run are, before any of them is begun.
	Found func(Found)
	// Observe is told what happens to them, one event after the other.
	Observe func(Event)
	// Live tells what the agents print too, line by line.
	Live bool

	execute executeFunc // of tests; nil: Execute
}

type executeFunc func(context.Context, *record.Row, Job, ExecuteOptions) (*Executed, error)

// Found says what a run has to do.
type Found struct {
	Rows, Execute, Grade, Finished int
	Cleared                        int // rows with something of an earlier execution, which is removed
	Changed, Retried               int // of those: finished ones, whose task changed, or that ended badly
}

// RowResult is what became of one row of a run.
type RowResult struct {
	Job     Job
	Status  record.Status // "": there is no record
	Score   *float64
	Verdict *Verdict // of this run; nil: the row was not graded now
	Message string   // why the agent's run did not end well, of this run; not made safe to print
	Err     error    // what kept the row from being executed or graded
	Kept    bool     // it was finished before

	Unrecorded bool // it could not be executed and has no record: any resume executes it
	Owed       bool // it was executed, and any resume grades it
}

// RunResult is what became of a run.
type RunResult struct {
	Dir     string
	Rows    []RowResult // in the order of the jobs
	Graded  bool        // the rows were to be graded
	Summary *record.Summary
	Missed  []*record.Suite // suites that missed a threshold
	// Interrupted: rows are left that were not begun, or not ended.
	Interrupted bool
	// Reported: the pages of the run are on the disk.
	Reported bool
}

// Run runs many rows: each is executed and, when the options say so, graded by
// the same code as evaluate. A row that fails keeps no other from being run.
// An error means that nothing was begun; what became of rows is in the result.
func Run(ctx context.Context, jobs []Job, o RunOptions) (*RunResult, error) {
	unlock, err := lockRun(o.Dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if o.Parallel < 1 {
		o.Parallel = AutoParallel()
	}
	if o.execute == nil {
		o.execute = Execute
	}
	r := &runner{options: o, observe: inTurn(o.Observe), digests: map[*tasks.Task]*Digests{}, started: time.Now()}
	if err := r.find(jobs); err != nil {
		return nil, err
	}
	r.fingerprint()
	r.tellOfOthers()
	r.shared = Share(o.Execute.Start, o.Execute.Notice)
	for i, s := range r.rows {
		if s.due == dueExecute {
			r.summaries[i] = nil // whoever is killed from here on has told of no record that he removed
		}
	}
	r.refresh(true)
	r.run(ctx)
	if err := r.shared.Close(); err != nil {
		r.warn("ending the engines: " + err.Error())
	}
	return r.result(ctx), nil
}

// fingerprint warns when the run was configured otherwise before, and notes how
// it is now.
func (r *runner) fingerprint() {
	if r.options.Resume {
		drift, err := r.options.Fingerprint.Drift(r.options.Dir)
		if err != nil {
			r.warn(record.FingerprintFile + " could not be read: " + err.Error())
		}
		if len(drift) > 0 {
			r.warn("the run was started with another " + strings.Join(drift, ", ") + "; rows that are finished stay as they are")
		}
	}
	if r.options.Fingerprint == nil {
		return
	}
	if err := r.options.Fingerprint.Write(r.options.Dir); err != nil {
		r.warn(record.FingerprintFile + " could not be written: " + err.Error())
	}
}

// tellOfOthers warns of rows on the disk that no task file of now gives: the summary is
// of the rows of now, and a forgotten option must not look like a better run.
func (r *runner) tellOfOthers() {
	if !r.options.Resume {
		return
	}
	of := map[string]bool{}
	for _, s := range r.rows {
		of[s.job.Identity().String()] = true
	}
	dirs, err := record.RowDirs(r.options.Dir)
	if err != nil {
		return // a row that cannot be looked at is an error of that row
	}
	others := slices.DeleteFunc(dirs, func(dir string) bool { return of[dir] })
	if len(others) > 0 {
		r.warn(fmt.Sprintf("records in the run directory that the task files and options of now give no row of: %d, such as %s; its summary leaves them out, and podgrade report --rebuild takes them in",
			len(others), others[0]))
	}
}

// runner is one run under way.
type runner struct {
	options RunOptions
	shared  *Shared
	observe func(Event)
	started time.Time
	rows    []standing

	digestsMu sync.Mutex
	digests   map[*tasks.Task]*Digests // replicates share a task

	mu        sync.Mutex
	results   []RowResult
	summaries []*record.SummaryRow // nil: nothing is known of the row yet
	refreshed time.Time

	refreshTook time.Duration
}

// find looks at every row and refuses what cannot be gone on with.
func (r *runner) find(jobs []Job) error {
	var found Found
	for _, job := range jobs {
		s := r.look(job)
		r.rows = append(r.rows, s)
		result := RowResult{Job: job, Err: s.err}
		if s.summary != nil {
			result.Status, result.Score = s.summary.Status, s.summary.Score
		}
		result.Owed = s.owed
		r.results = append(r.results, result)
		r.summaries = append(r.summaries, s.summary)
		if s.err == nil {
			found.count(s)
		}
	}
	if !r.options.Resume && (found.Grade+found.Finished > 0 || found.Cleared > 0) {
		return &Error{Kind: User, Tried: "run in", On: r.options.Dir, Why: errors.New("it holds rows of an earlier run"),
			Do: "go on with them by --resume, or name another --run-dir"}
	}
	if err := refuseChanged(r.rows); err != nil {
		return err
	}
	if err := r.refuseTasks(); err != nil {
		return err
	}
	if r.options.Found != nil {
		r.options.Found(found)
	}
	r.warnOfDoubts()
	return nil
}

func (f *Found) count(s standing) {
	f.Rows++
	switch s.due {
	case dueExecute:
		f.Execute++
		if s.clear {
			f.Cleared++
		}
		switch s.again {
		case againChanged:
			f.Changed++
		case againRetried:
			f.Retried++
		}
	case dueGrade:
		f.Grade++
	case dueNothing:
		f.Finished++
	}
}

// refuseTasks refuses rows that can be known to fail, of those that are left:
// what is finished is not looked at again.
func (r *runner) refuseTasks() error {
	execute := r.options.Execute
	execute.Grading = &r.options.Grading
	var all []Finding
	for i, s := range r.rows {
		switch {
		case s.err != nil:
		case s.due == dueExecute:
			all = add(all, RowFindings(s.job, execute, r.options.Grade)...)
		case s.due == dueGrade:
			all = add(all, r.gradeFindings(i)...)
		}
	}
	return refusedFor(all)
}

// gradeFindings are why no grade of an executed row may be made here, such as what
// the policy file denies. What is wrong with the row itself its grade says, which
// fails no other row.
func (r *runner) gradeFindings(i int) []Finding {
	job := r.rows[i].job
	if len(job.Row.Task.SuccessCriteria) == 0 {
		return criteriaProblems(job.Row.File.Path, job.Row.Task)
	}
	row, err := record.OpenRowDir(r.options.Dir, job.Row.Dir())
	if err != nil {
		return nil
	}
	defer row.Close()
	o, err := r.gradingOf(i)
	if err != nil {
		return nil
	}
	o.Notice = io.Discard
	g := &grading{row: row, options: o}
	if g.read() != nil {
		return nil
	}
	request, err := g.request()
	if err == nil {
		_, err = policy.Ask(request, o.Answer.Policy)
	}
	if KindOf(err) == Refused {
		return []Finding{{File: job.Row.File.Path, Text: "the grade of " + job.Identity().String() + ": " + refusalText(err)}}
	}
	return nil
}

// digestsOf remembers the digests of a task.
func (r *runner) digestsOf(job Job) (*Digests, error) {
	r.digestsMu.Lock()
	defer r.digestsMu.Unlock()
	if known := r.digests[job.Row.Task]; known != nil {
		return known, nil
	}
	made, err := DigestsOf(job.Row, hiddenFrom(r.options.Dir, r.options.Execute.Keys, r.options.Execute.Scratch))
	if err != nil {
		return nil, err
	}
	r.digests[job.Row.Task] = &made
	return &made, nil
}

// run does the rows: what is finished is only told, what owes a grade comes
// first.
func (r *runner) run(ctx context.Context) {
	var queue []int
	for _, wanted := range []due{dueNothing, dueGrade, dueExecute} {
		for i, s := range r.rows {
			switch {
			case s.due != wanted:
			case s.err != nil:
				r.failed(i, s.err)
			case wanted == dueNothing:
				r.keep(i)
			default:
				queue = append(queue, i)
			}
		}
	}
	begun := each(ctx, len(queue), r.options.Parallel, func(n int) { r.one(ctx, queue[n]) })
	for _, i := range queue[begun:] {
		r.results[i].Err = &Interrupted{What: "the row was not begun"}
		r.summaries[i] = r.rows[i].summary // what it was before it still is
	}
}

func (r *runner) keep(i int) {
	s := r.rows[i]
	r.results[i].Kept = true
	r.tell(Event{Kind: RowKept, Last: true, Status: s.summary.Status, Score: s.summary.Score}, i)
}

// one does all that a row needs. A defect of podgrade ends the row and not the
// run.
func (r *runner) one(ctx context.Context, i int) {
	defer func() {
		if defect := recover(); defect != nil {
			r.failed(i, &Error{Kind: Infrastructure, Tried: "run", On: r.rows[i].job.Identity().String(),
				Why: fmt.Errorf("podgrade has a defect: %v", defect), Do: "report it"})
		}
	}()
	row, err := record.Create(r.options.Dir, r.rows[i].job.Identity())
	if err != nil {
		r.failed(i, &Error{Kind: Infrastructure, Tried: "open the row directory", On: r.rows[i].job.Identity().String(), Why: err, Do: "see what lies at its place"})
		return
	}
	defer row.Close()
	var live *Live
	if r.rows[i].due == dueExecute {
		executed := r.execute(ctx, i, row)
		if executed == nil {
			return
		}
		live = executed.Live
	}
	if r.options.Grade {
		r.grade(ctx, i, row, live)
	}
}

// execute executes the row; nil when it cannot be graded then.
func (r *runner) execute(ctx context.Context, i int, row *record.Row) *Executed {
	s := r.rows[i]
	if s.clear {
		r.forget(i)
		if err := r.clear(ctx, row); err != nil {
			r.failed(i, &Error{Kind: Infrastructure, Tried: "remove what an earlier execution left in", On: row.Dir, Why: err, Do: "remove the row directory"})
			return nil
		}
	}
	began := time.Now()
	r.tell(Event{Kind: RowStarted}, i)
	o := r.options.Execute
	o.Start, o.Graded = r.shared.Start, r.options.Grade
	if r.options.Live {
		o.Output = func(stream, line string) { r.tell(Event{Kind: RowOutput, Stream: stream, Text: line}, i) }
	}
	if grading, err := r.gradingOf(i); err == nil && r.options.Grade {
		o.Grading = &grading // what is wrong with it the grade says
	}
	executed, err := r.options.execute(ctx, row, s.job, o)
	if err != nil {
		r.failed(i, err)
		return nil
	}
	graded := r.options.Grade && executed.Gradable && dueOf(executed.Record, true) == dueGrade
	r.update(i, executed.Record, nil)
	r.results[i].Message = executed.Message
	r.tell(Event{Kind: RowExecuted, Last: !graded, Took: time.Since(began), Status: executed.Status, Message: executed.Message}, i)
	if !graded {
		executed.Live.Drop()
		r.discard(ctx, i, row)
		return nil
	}
	return executed
}

// forget keeps what an earlier execution came to from being told of this one, whose
// record goes.
func (r *runner) forget(i int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results[i] = RowResult{Job: r.results[i].Job}
}

// clear removes what an earlier execution left in the row. A record that could
// not be read is kept for a person.
func (r *runner) clear(ctx context.Context, row *record.Row) error {
	if _, _, err := row.Read(); errors.Is(err, record.ErrUnreadable) {
		if err := row.SetAside(); err != nil {
			return err
		}
	}
	engines, err := r.shared.Start(ctx)
	if err != nil {
		return err
	}
	return row.Clear(func(dir *os.File) error { return engines.RemoveTree(ctx, dir) })
}

// gradingOf is how a row is graded: by its own task.
func (r *runner) gradingOf(i int) (Options, error) {
	o := r.options.Grading
	o.Start, o.Run, o.Observe, o.Notice = r.shared.Start, r.options.Dir, r.observe, r.options.Execute.Notice
	var err error
	o.Given, err = Give(r.rows[i].job.Row.Task, r.rows[i].job.Row.File)
	return o, err
}

// grade grades the row, whose record then says what it came to.
func (r *runner) grade(ctx context.Context, i int, row *record.Row, live *Live) {
	r.tell(Event{Kind: RowGrading}, i)
	o, err := r.gradingOf(i)
	o.Live = live
	if err == nil {
		r.results[i].Verdict, err = Grade(ctx, row, o)
	}
	if err != nil {
		r.failed(i, err)
		return
	}
	rec, _, err := row.Read()
	if err != nil {
		r.failed(i, &Error{Kind: Infrastructure, Tried: "read the verdict in", On: row.Dir, Why: err, Do: "resume the run"})
		return
	}
	r.update(i, rec, nil)
	r.discard(ctx, i, row)
}

// discard removes the workspace of a row whose workspace is not preserved.
func (r *runner) discard(ctx context.Context, i int, row *record.Row) {
	if r.options.Execute.Preserve != PreserveNone {
		return
	}
	engines, err := r.shared.Start(ctx)
	if err == nil {
		err = Discard(ctx, engines, row)
	}
	if err != nil {
		r.warn(r.rows[i].job.Identity().String() + ": its workspace stays, against --preservation-mode NONE: " + err.Error())
	}
}

// failed notes that a row could not be executed or graded. Its record, if there
// is one, is as it was.
func (r *runner) failed(i int, err error) {
	r.update(i, nil, err)
	r.tell(Event{Kind: RowFailed, Last: true, Err: err, Status: r.results[i].Status}, i)
}

// tell tells an event of a row.
func (r *runner) tell(e Event, i int) {
	e.Row = r.rows[i].job.Identity()
	e.Dir = filepath.Join(r.options.Dir, filepath.FromSlash(e.Row.String()))
	observe(r.observe, e)
}

// warn tells the operator what may be surprising.
func (r *runner) warn(text string) { warnTo(r.options.Execute.Notice, text) }

func warnTo(notice io.Writer, text string) {
	fmt.Fprintf(notice, "warning: %s\n", policy.NeutralText(text))
}
