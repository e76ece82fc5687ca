package regrade

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"podgrade/tasks"
	"podgrade/tasks/criteria"
	"podgrade/tasks/record"
)

// GivenFile is a task file of the operator that rows are graded by.
type GivenFile struct {
	path    string
	rows    []tasks.Row
	without hidden // from what the rows copy of this host

	mu   sync.Mutex
	made map[*tasks.Task]*Given
}

// OpenFile reads a task file and resolves it with the layers of the request,
// as a run would. Of the options of a grade it uses what stands for this host.
func OpenFile(path string, request tasks.Request, o Options) (*GivenFile, error) {
	request.IncludeSkipped = true
	resolution, err := criteria.NewLoader(o.Lookup).Rows([]string{path}, request)
	if err == nil && len(resolution.Skipped) > 0 {
		err = resolution.Skipped[0].Reason
	}
	if err == nil && len(resolution.Rows) == 0 {
		err = errors.New("it gives no row")
	}
	if err != nil {
		return nil, fileError(path, err)
	}
	return &GivenFile{path: path, rows: resolution.Rows, without: hiddenFrom("", o.Keys, o.Scratch), made: map[*tasks.Task]*Given{}}, nil
}

func fileError(path string, why error) error {
	return &Error{Kind: TaskFault, Tried: "use the task file", On: path, Why: why, Do: "see what podgrade plan says of it"}
}

// Only is the file's one task, for a tree that no run has left.
func (f *GivenFile) Only() (*Given, error) {
	if n := len(f.rows); n > 1 {
		return nil, fileError(f.path, fmt.Errorf("it has %d rows, and a tree is graded by one", n))
	}
	return f.give(f.rows[0])
}

// ForRow is what a row is graded by: the file's row of the same variant and
// task, whatever the replicate; or its only row. A row that was executed with
// something else is refused, naming that.
func (f *GivenFile) ForRow(dir string, rec *record.Record) (*Given, error) {
	row, found := f.find(rec)
	if !found && len(f.rows) > 1 {
		return nil, fileError(f.path, fmt.Errorf("it has %d rows, and none is %q", len(f.rows), rec.TaskID))
	}
	if !found {
		row = f.rows[0]
	}
	return f.checked(row, dir, rec)
}

// find is the file's row of a record's variant and task. A file without variants
// of its own says the same of all.
func (f *GivenFile) find(rec *record.Record) (tasks.Row, bool) {
	variants, best := map[string]bool{}, -1
	for i, row := range f.rows {
		variants[row.Variant] = true
		switch {
		case row.Task.TaskID != rec.TaskID:
		case row.Variant == rec.VariantID:
			return row, true
		case best < 0:
			best = i
		}
	}
	if best < 0 || len(variants) > 1 {
		return tasks.Row{}, false
	}
	return f.rows[best], true
}

// checked refuses a row that podgrade executed with something else than the file
// says: the verdict would be of work that nobody asked for.
func (f *GivenFile) checked(row tasks.Row, dir string, rec *record.Record) (*Given, error) {
	if rec.Environment.Text(record.RunDigest) != "" {
		digests, err := DigestsOf(row, f.without) // the run has a summary by now
		if err != nil {
			return nil, fileError(f.path, err)
		}
		changed := differencesOf(row.Task, digests, rec)
		if len(changed) > 0 && row.Task.TaskID != rec.TaskID {
			return nil, &Error{Kind: Refused, Tried: "grade by " + f.path, On: dir,
				Why: fmt.Errorf("the file is of the task %q, and the row of %q", row.Task.TaskID, rec.TaskID),
				Do:  "name the file of the row's task"}
		}
		if len(changed) > 0 {
			return nil, &Error{Kind: Refused, Tried: "grade by " + f.path, On: dir,
				Why: fmt.Errorf("the row was executed with another %s", strings.Join(changed, ", ")),
				Do:  "change only what a grade reads, give the layers of the run (--experiment, -D, --model), or run the row again"}
		}
	}
	return f.give(row)
}

// give makes what a row of the file gives, once for all replicates.
func (f *GivenFile) give(row tasks.Row) (*Given, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.made[row.Task]; known != nil {
		return known, nil
	}
	given, err := Give(row.Task, row.File)
	if err == nil {
		f.made[row.Task] = given
	}
	return given, err
}

// TargetsOf are the rows of a run that the file has something to say of, and how
// many it says nothing of.
func (f *GivenFile) TargetsOf(run string) (targets []Target, others int, err error) {
	for _, dir := range rowsBelow(run) {
		name := Target{Dir: filepath.Join(run, dir)}
		rec, err := readRowOf(run, dir)
		if err != nil {
			name.Err = &Error{Kind: KindOf(err), Tried: "read the record of", On: name.Dir, Why: err, Do: "restore it, or execute the row again"}
			targets = append(targets, name)
			continue
		}
		row, found := f.find(rec)
		if !found {
			others++
			continue
		}
		if name.Err = nothingLeft(run, dir); name.Err == nil {
			name.Given, name.Err = f.checked(row, name.Dir, rec)
		}
		targets = append(targets, name)
	}
	if len(targets) == 0 {
		return nil, others, &Error{Kind: User, Tried: "grade by " + f.path, On: run, Why: errNoSuchRow, Do: "name the task file of the run"}
	}
	return targets, others, nil
}

// evaluateVariant is the variant of a tree that no run has left.
const evaluateVariant = "evaluate"

// NewTree makes a row of a tree that no run has left, so that it can be graded
// by a task file: its record has no trajectory. The directory is the row's.
func NewTree(dir string, given *Given, version string) (*record.Row, error) {
	row, err := record.OpenRow(dir)
	if err != nil {
		return nil, &Error{Kind: Infrastructure, Tried: "open the directory of the grade", On: dir, Why: err, Do: "name one that you can write to with --run-dir"}
	}
	if _, _, err := row.Read(); !errors.Is(err, record.ErrNoRecord) {
		row.Close()
		return nil, &Error{Kind: User, Tried: "write a record to", On: dir, Why: errors.New("it holds one"), Do: "name another directory with --run-dir"}
	}
	agent := tasks.NoAgent
	if a := given.task.Agent; a != nil && a.Type != "" {
		agent = a.Type
	}
	info := record.NewObject()
	info.Set(record.Version, version)
	info.Set(record.TaskDigest, given.digest)
	now := time.Now()
	rec, err := record.New(record.Execution{
		TaskID: given.task.TaskID, Description: given.task.Description, VariantID: evaluateVariant, AgentType: agent,
		Started: now, Completed: now, Status: record.NotGraded, Environment: info, TaskConfig: given.config,
	})
	if err == nil {
		err = row.Write(record.TaskFile, rec.Bytes())
	}
	if err != nil {
		row.Close()
		return nil, &Error{Kind: Infrastructure, Tried: "write a record to", On: dir, Why: err, Do: "name a directory that you can write to with --run-dir"}
	}
	return row, nil
}
