package tasks

import (
	"errors"
	"fmt"
	"path"
	"slices"
)

// maxRepeats is the largest number of replicates: their directories have two
// digits.
const maxRepeats = 99

// Request says what a run is made of.
type Request struct {
	Layers                     // Variant is not looked at: all variants are run
	Selection                  // of dataset rows
	Repeats           int      // 0: what the experiment says
	Tags, ExcludeTags []string // keep tasks with any of Tags, then drop those with any of ExcludeTags
	IncludeSkipped    bool     // also tasks with skip: true
}

// Check reports what is wrong with the request by itself, whatever the task
// files say: the number of replicates, and flags that set the same key.
func (q Request) Check() error {
	if q.Repeats < 0 || q.Repeats > maxRepeats {
		return fmt.Errorf("cannot run each task %d times: repeats is from 1 to %d", q.Repeats, maxRepeats)
	}
	return q.Layers.check()
}

// Row is one task × variant × replicate.
type Row struct {
	Task      *Task // resolved; replicates share it
	File      *File
	Variant   string
	Replicate int // from 0
}

// Dir is the row directory, relative to the run directory.
func (r Row) Dir() string {
	return path.Join(r.Variant, r.Task.TaskID, fmt.Sprintf("%02d", r.Replicate))
}

// Skip is a task file that takes no part in the run, and why.
type Skip struct {
	Path   string
	TaskID string // "" when the file did not load
	Reason error
}

// Resolution is what a request makes of task files.
type Resolution struct {
	Rows     []Row
	Skipped  []Skip
	Warnings []Problem
	// Expansions are those of files with a dataset, by path.
	Expansions map[string]*Expansion
}

// ErrSkip is the reason of a task with skip: true.
var ErrSkip = errors.New("skip: true")

// Rows loads, expands and resolves task files (task-file 11.2, 11.4). A file
// that is wrong is skipped and reported; an error means that there is no run.
// Rows are in the order in which they are run: all first replicates, then all
// second ones, and so on.
func (l *Loader) Rows(paths []string, q Request) (*Resolution, error) {
	if q.Repeats < 0 || q.Repeats > maxRepeats {
		return nil, q.Check()
	}
	if q.Experiment == nil {
		q.Experiment = baseExperiment()
	}
	b := &rowBuilder{loader: l, request: q, out: &Resolution{
		Warnings: slices.Clone(q.Experiment.Warnings), Expansions: map[string]*Expansion{},
	}}
	for _, path := range paths {
		if err := b.add(path); err != nil {
			return nil, err
		}
	}
	if len(b.failed) > 0 && len(b.groups) == 0 {
		return nil, errors.Join(b.failed...)
	}
	b.order()
	return b.out, b.unique()
}

// rowBuilder collects the rows of all files.
type rowBuilder struct {
	loader  *Loader
	request Request
	out     *Resolution
	groups  [][]Row // the replicates of one task × variant
	failed  []error // of files that loaded but did not resolve
}

// add takes one file; its error ends the run.
func (b *rowBuilder) add(path string) error {
	f, err := b.loader.Load(path)
	if err != nil {
		b.skip(path, "", err)
		return nil
	}
	b.out.Warnings = append(b.out.Warnings, f.Warnings...)
	switch q := b.request; {
	case len(q.Tags) > 0 && !shares(f.Task.Tags, q.Tags), shares(f.Task.Tags, q.ExcludeTags):
		return nil
	case f.Task.Skip && !q.IncludeSkipped:
		b.skip(path, f.Task.TaskID, ErrSkip)
		return nil
	}
	e, err := b.loader.Expand(f, b.request.Selection)
	switch {
	case errors.Is(err, ErrNoSplit), errors.Is(err, ErrRow):
		return err
	case err != nil:
		b.skip(path, f.Task.TaskID, err)
		return nil
	}
	b.out.Warnings = append(b.out.Warnings, e.Warnings...)
	if f.Task.Dataset != nil {
		b.out.Expansions[path] = e
	}
	groups, err := b.resolve(e.Files)
	switch {
	case errors.Is(err, ErrEarlyStop):
		return err
	case err != nil:
		b.skip(path, f.Task.TaskID, err)
		b.failed = append(b.failed, err)
		return nil
	}
	b.groups = append(b.groups, groups...)
	return nil
}

func (b *rowBuilder) skip(path, id string, reason error) {
	b.out.Skipped = append(b.out.Skipped, Skip{path, id, reason})
}

// resolve makes the whole fan-out of one file, or none of it. Its error is of
// all variants of the first row that has one.
func (b *rowBuilder) resolve(files []*File) (groups [][]Row, err error) {
	for _, f := range files {
		var errs []error
		for i := range b.request.Experiment.Variants {
			layers := b.request.Layers
			layers.Variant = &b.request.Experiment.Variants[i]
			t, err := b.loader.Resolve(f, layers)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			count := b.repeats(t, layers.Variant)
			group := make([]Row, count)
			for r := range group {
				group[r] = Row{Task: t, File: f, Variant: layers.Variant.ID, Replicate: r}
			}
			groups = append(groups, group)
		}
		if len(errs) > 0 {
			return nil, errors.Join(errs...)
		}
	}
	return groups, nil
}

// repeats: the trials of an enabled simulation, else command line, variant,
// experiment, default.
func (b *rowBuilder) repeats(t *Task, v *Variant) int {
	if t.simulated() && t.Simulation.Trials > 1 {
		return t.Simulation.Trials
	}
	for _, n := range []int{b.request.Repeats, v.settings.Repeats, b.request.Experiment.settings.Repeats, baseExperiment().settings.Repeats} {
		if n > 0 {
			return n
		}
	}
	return 1
}

// order puts first replicates first.
func (b *rowBuilder) order() {
	for replicate := 0; ; replicate++ {
		before := len(b.out.Rows)
		for _, group := range b.groups {
			if replicate < len(group) {
				b.out.Rows = append(b.out.Rows, group[replicate])
			}
		}
		if len(b.out.Rows) == before {
			return
		}
	}
}

// unique refuses two rows with one directory.
func (b *rowBuilder) unique() error {
	seen := map[string]*File{}
	var errs []error
	for _, row := range b.out.Rows {
		if first := seen[row.Dir()]; first != nil {
			errs = append(errs, fmt.Errorf("cannot run %s and %s together: both have the task_id %s; change one",
				quoteFile(first.Path), quoteFile(row.File.Path), quote(row.Task.TaskID)))
			continue
		}
		seen[row.Dir()] = row.File
	}
	return errors.Join(errs...)
}

// shares reports whether the lists have an entry in common.
func shares(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}
