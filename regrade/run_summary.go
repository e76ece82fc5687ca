package regrade

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"podgrade/regrade/report"
	"podgrade/tasks"
	"podgrade/tasks/record"
)

// refreshEvery is how often the summary is written while rows are run, and
// refreshShare how many times as long as a write takes it is not written again,
// so that a run of very many rows does not write summaries only.
const (
	refreshEvery = 2 * time.Second
	refreshShare = 20
)

// update notes what a row has come to: its record, or why it has none, or none
// that is better.
func (r *runner) update(i int, rec *record.Record, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	job, result := r.rows[i].job, &r.results[i]
	if rec != nil {
		r.summaries[i] = record.NewSummaryRow(rec, job.Row.Replicate, job.Row.File.Path)
		result.Status, result.Score, result.Owed = rec.Status, rec.Score, dueOf(rec, true) == dueGrade
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		if r.summaries[i] == nil {
			r.summaries[i] = lostRow(job, r.started)
		}
		if r.summaries[i] != nil {
			r.summaries[i].Explain(err.Error())
			result.Status = r.summaries[i].Status
			result.Unrecorded = !r.recorded(job)
		}
	}
	result.Err = err
	r.refreshLocked(false)
}

// recorded tells whether the row has a record, or something at its place.
func (r *runner) recorded(job Job) bool {
	_, err := os.Lstat(filepath.Join(r.options.Dir, filepath.FromSlash(job.Row.Dir()), record.TaskFile))
	return !errors.Is(err, fs.ErrNotExist)
}

// lostRow stands for a row that has no record because of an error: it counts,
// so that the run fails, and a resume runs it again.
func lostRow(job Job, started time.Time) *record.SummaryRow {
	agent := "unknown"
	if a := job.Row.Task.Agent; a != nil && a.Type != "" {
		agent = a.Type
	}
	config, err := record.NewTaskConfig(job.Row.Task, job.Row.File.Source, absolute(job.Row.File.Path))
	if err != nil {
		config = nil
	}
	rec, err := record.New(record.Execution{
		TaskID: job.Row.Task.TaskID, Description: job.Row.Task.Description, VariantID: job.Row.Variant, AgentType: agent,
		Started: started, Completed: time.Now(), Status: record.Error, TaskConfig: config,
	})
	if err != nil {
		return nil
	}
	return record.NewSummaryRow(rec, job.Row.Replicate, job.Row.File.Path)
}

// refresh writes the summary of what is known by now.
func (r *runner) refresh(now bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refreshLocked(now)
}

func (r *runner) refreshLocked(now bool) {
	if !now && time.Since(r.refreshed) < max(refreshEvery, refreshShare*r.refreshTook) {
		return
	}
	began := time.Now()
	if err := report.WriteRun(r.options.Dir, r.summary()); err != nil {
		r.warn(record.RunFile + " could not be written: " + err.Error())
	}
	r.refreshed = time.Now()
	r.refreshTook = r.refreshed.Sub(began)
}

// summary is the run as far as it is known.
func (r *runner) summary() *record.Summary {
	s := &record.Summary{
		RunID: filepath.Base(r.options.Dir), Start: r.started, End: time.Now(), MaxParallel: r.options.Parallel,
		Skipped: r.options.Skipped, Framework: r.options.Execute.Version,
	}
	notRun := 0
	for _, row := range r.summaries {
		if row == nil {
			notRun++
			continue
		}
		s.Rows = append(s.Rows, row)
	}
	if notRun > 0 {
		s.Environment = record.NewObject()
		s.Environment.Set(record.RowsNotRun, notRun)
	}
	return s
}

// result ends the run: its files are written for the last time.
func (r *runner) result(ctx context.Context) *RunResult {
	result := &RunResult{
		Dir: r.options.Dir, Rows: r.results, Graded: r.options.Grade, Summary: r.summary(), Interrupted: ctx.Err() != nil,
	}
	if r.options.Grade {
		for _, suite := range result.Summary.Suites() {
			if !suite.Passed {
				result.Missed = append(result.Missed, suite)
			}
		}
	}
	var logs []record.Identity
	for _, row := range result.Summary.Rows {
		logs = append(logs, row.Identity)
	}
	err := errors.Join(report.Write(r.options.Dir, result.Summary, r.about()), record.RemoveOthers(r.options.Dir, result.Summary))
	if result.Reported = err == nil; err != nil {
		r.warn("the report could not be written: " + err.Error())
	}
	if err := record.WriteExperimentLog(r.options.Dir, logs); err != nil {
		r.warn(record.ExperimentLog + " could not be written: " + err.Error())
	}
	return result
}

// about is what the reports say of the run itself.
func (r *runner) about() report.About {
	experiment := r.options.Experiment
	if experiment == nil {
		experiment = tasks.DefaultExperiment()
	}
	return report.About{ExperimentID: experiment.ID, Description: experiment.Description, Ungraded: !r.options.Grade}
}

// ExitCode is the exit code of a run (spec/cli.md 2.4 and 3): a row that failed
// or ended by an error is 1, and so is one without a verdict where a verdict
// was asked for, and a suite that missed a threshold.
func (r *RunResult) ExitCode() int {
	if r.Interrupted {
		return ExitInterrupted
	}
	for _, row := range r.Rows {
		if row.bad(r.Graded) {
			return ExitFailed
		}
	}
	if len(r.Missed) > 0 {
		return ExitFailed
	}
	return ExitPassed
}

func (r RowResult) bad(graded bool) bool {
	if r.Err != nil {
		return true
	}
	switch r.Status.Category() {
	case record.Succeeded:
		return false
	case record.Ungraded:
		return graded
	}
	return true
}
