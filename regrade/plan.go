package regrade

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"podgrade/policy"
	"podgrade/tasks"
	"podgrade/tasks/criteria"
)

// PlanOptions say what is planned.
type PlanOptions struct {
	// Request is what a run would be asked for. Its Experiment is nil for the
	// built-in default one.
	Request tasks.Request
	// DefaultImage is the image of rows that name none; "": none is set.
	DefaultImage string
	// Pull: images may be fetched from their registries.
	Pull bool
	// OnHost: tempdir rows are executed without a container.
	OnHost bool
	// Policy is the operator's policy file: what it denies is a problem; nil: there
	// is none.
	Policy *policy.File
	// Engine that is asked for; "": isolation.EngineAuto.
	Engine string
	// Lookup finds a variable of this host.
	Lookup func(name string) (string, bool)
}

// Plan is what a run of task files would be made of. Nothing was started to
// make it: no image was looked for and no file changed. Its strings are not
// neutralised.
type Plan struct {
	Experiment PlannedExperiment `json:"experiment"`
	Files      []*PlannedFile    `json:"files"`
	// Problems belong to no single file: two rows that would share one
	// directory, an argument that names no file.
	Problems []Finding `json:"problems"`
	// Missing are how many arguments name no file.
	Missing int `json:"missing"`
	// Needs is why this host or this release would not run some rows: nothing is
	// wrong with the files.
	Needs []string `json:"needs"`
	// GradeNeeds is why this release could not grade some rows once they are
	// executed.
	GradeNeeds []string `json:"grade_needs"`
}

// PlannedExperiment is the active experiment.
type PlannedExperiment struct {
	ID          string    `json:"id"`
	Description string    `json:"description"`
	Path        string    `json:"path"` // "": the built-in one
	Variants    []string  `json:"variants"`
	Warnings    []Finding `json:"warnings"`
}

// PlannedFile is one task file.
type PlannedFile struct {
	Path     string `json:"path"`
	TaskID   string `json:"task_id"`  // "" when the file did not load
	Criteria int    `json:"criteria"` // number of success criteria
	// Skipped says why the file takes no part although nothing is wrong.
	Skipped string          `json:"skipped,omitempty"`
	Dataset *PlannedDataset `json:"dataset,omitempty"`
	// Problems are what run or evaluate would refuse; all of them.
	Problems []Finding `json:"problems"`
	// Unresolved is why the layers around the file do not fit it: run would
	// skip the file and go on (task-file 11.4).
	Unresolved []Finding     `json:"unresolved"`
	Warnings   []Finding     `json:"warnings"`
	Rows       []*PlannedRow `json:"rows"`
}

// PlannedDataset is what a file's dataset was expanded to.
type PlannedDataset struct {
	Rows      int            `json:"rows"`     // of the dataset
	Selected  int            `json:"selected"` // of them
	Selectors []string       `json:"selectors"`
	Strata    map[string]int `json:"strata,omitempty"` // selected rows of each
}

// Valid tells whether nothing is wrong with the file.
func (f *PlannedFile) Valid() bool { return len(f.Problems) == 0 && len(f.Unresolved) == 0 }

// Refused tells whether run or evaluate would refuse something of the plan.
// Files that do not resolve are only skipped, unless nothing else is left to
// run (task-file 11.4, 11.5).
func (p *Plan) Refused() bool {
	return len(p.Problems) > 0 || slices.ContainsFunc(p.Files, func(f *PlannedFile) bool { return len(f.Problems) > 0 })
}

// MakePlan plans task files. Each file is looked at whatever is wrong with the
// others. The error is a *Error about the options, or that of ctx.
func MakePlan(ctx context.Context, files []string, o PlanOptions) (*Plan, error) {
	if err := o.Request.Check(); err != nil {
		return nil, &Error{Kind: User, Tried: "read the command line", Why: err}
	}
	p := &planner{options: o, loader: criteria.NewLoader(o.Lookup), plan: &Plan{Files: []*PlannedFile{}, Problems: []Finding{}, Needs: []string{}, GradeNeeds: []string{}}}
	p.experiment()
	dirs := map[string]string{}
	for _, file := range files {
		planned := p.file(ctx, file)
		if ctx.Err() != nil {
			return nil, &Interrupted{What: "there is no plan"}
		}
		p.plan.Files = append(p.plan.Files, planned)
		p.unique(planned, dirs)
	}
	p.nothingLeft()
	return p.plan, nil
}

// planner is one plan under way.
type planner struct {
	options PlanOptions
	loader  *tasks.Loader
	plan    *Plan
}

func (p *planner) experiment() {
	active := p.options.Request.Experiment
	if active == nil {
		active = tasks.DefaultExperiment()
	}
	p.plan.Experiment = PlannedExperiment{
		ID: active.ID, Description: active.Description, Path: active.Path, Variants: []string{}, Warnings: findings(active.Warnings),
	}
	for _, variant := range active.Variants {
		p.plan.Experiment.Variants = append(p.plan.Experiment.Variants, variant.ID)
	}
}

// file plans one file as if it were alone, so that its problems do not hide
// those of the next.
func (p *planner) file(ctx context.Context, path string) *PlannedFile {
	planned := &PlannedFile{Path: path, Problems: []Finding{}, Unresolved: []Finding{}, Warnings: []Finding{}, Rows: []*PlannedRow{}}
	resolution, err := p.loader.Rows([]string{path}, p.options.Request)
	if err != nil {
		p.failed(planned, err)
		return planned
	}
	for _, skip := range resolution.Skipped {
		planned.TaskID = skip.TaskID
		if errors.Is(skip.Reason, tasks.ErrSkip) {
			planned.Skipped = skip.Reason.Error()
			continue
		}
		planned.refuse(skip.Reason)
	}
	planned.Warnings = add(planned.Warnings, findings(resolution.Warnings[len(p.plan.Experiment.Warnings):])...)
	if e := resolution.Expansions[path]; e != nil {
		planned.Dataset = &PlannedDataset{Rows: e.Rows, Selected: len(e.Files), Selectors: append([]string{}, e.Selectors...), Strata: e.Strata}
	}
	p.rows(ctx, planned, resolution.Rows)
	if len(resolution.Rows)+len(resolution.Skipped) == 0 {
		planned.Skipped = "its tags are not among those asked for"
	}
	return planned
}

// failed files an error that would end a run, or only skip the file.
func (p *planner) failed(planned *PlannedFile, err error) {
	if f, loading := p.loader.Load(planned.Path); loading == nil {
		planned.TaskID, planned.Criteria = f.Task.TaskID, len(f.Task.SuccessCriteria)
		planned.Warnings = findings(f.Warnings)
	}
	if errors.Is(err, tasks.ErrEarlyStop) || errors.Is(err, tasks.ErrRow) || errors.Is(err, tasks.ErrNoSplit) {
		planned.refuse(err)
		return
	}
	planned.Unresolved = add(planned.Unresolved, inFile(planned.Path, findingsOf(err))...)
}

// rows plans the rows of one file; they come in the order of a run, so that
// the replicates of a task lie apart.
func (p *planner) rows(ctx context.Context, planned *PlannedFile, rows []tasks.Row) {
	byTask := map[*tasks.Task]*PlannedRow{}
	shared := grantsSeen{}
	for _, row := range rows {
		if ctx.Err() != nil {
			return
		}
		if known := byTask[row.Task]; known != nil {
			known.Dirs = append(known.Dirs, row.Dir())
			continue
		}
		planned.TaskID, planned.Criteria = fileID(row), len(row.Task.SuccessCriteria)
		one := p.row(planned, row, shared)
		byTask[row.Task] = one
		planned.Rows = append(planned.Rows, one)
	}
}

// fileID is the task_id of the file, without the row of its dataset.
func fileID(row tasks.Row) string {
	if row.Task.SuiteID != "" && row.Task.RowID != "" {
		return row.Task.SuiteID
	}
	return row.Task.TaskID
}

// unique refuses rows that would write into one directory.
func (p *planner) unique(planned *PlannedFile, dirs map[string]string) {
	for _, row := range planned.Rows {
		first, taken := dirs[row.Dirs[0]]
		if !taken {
			dirs[row.Dirs[0]] = planned.Path
			continue
		}
		p.plan.Problems = add(p.plan.Problems, Finding{
			File: planned.Path, Key: "task_id",
			Text: fmt.Sprintf("%q is also the task_id of %s, and a run needs a directory for each; change one", planned.TaskID, first),
		})
	}
}

// nothingLeft refuses a plan whose files all fail to resolve: a run would too.
func (p *planner) nothingLeft() {
	unresolved := 0
	for _, f := range p.plan.Files {
		if len(f.Rows) > 0 {
			return
		}
		if len(f.Unresolved) > 0 {
			unresolved++
		}
	}
	if unresolved > 0 {
		p.plan.Problems = add(p.plan.Problems, Finding{Text: "no file resolves with these layers, so that there is nothing to run"})
	}
}

// Unmatched adds arguments that name no file.
func (p *Plan) Unmatched(arguments []string) {
	p.Missing += len(arguments)
	for _, argument := range arguments {
		p.Problems = add(p.Problems, Finding{File: argument, Text: "there is no such task file"})
	}
}
