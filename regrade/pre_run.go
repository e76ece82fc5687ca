package regrade

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"podgrade/isolation"
	"podgrade/tasks"
	"podgrade/tasks/record"
)

// preRun runs the task's pre_run with the task directory in the cell, and takes
// it out again, whatever became of the commands: neither the agent nor a state
// layer ever has it.
func (e *execution) preRun(ctx context.Context) error {
	hooks := e.accepted.Setup().PreRun
	if len(hooks) == 0 {
		return nil
	}
	if dir := e.accepted.TaskDir(); dir != "" {
		if err := e.putTaskDir(ctx, dir, "pre_run"); err != nil {
			return err
		}
	}
	err := e.runHooks(ctx, hooks)
	return errors.Join(err, templateFault("take the task directory out of the cell after pre_run", e.emptyTaskDir(ctx)))
}

func (e *execution) runHooks(ctx context.Context, hooks []tasks.PreRun) error {
	for i, hook := range hooks {
		if err := e.hook(ctx, fmt.Sprintf("pre_run %d", i+1), hook); err != nil {
			return err
		}
	}
	return nil
}

// putTaskDir copies the task directory into the cell, without .git, links that
// lead out, and what is hidden.
func (e *execution) putTaskDir(ctx context.Context, dir, label string) error {
	if err := refuseTaskDirOfRun(dir, e.runDir()); err != nil {
		return err
	}
	n, err := e.putTree(ctx, hostTree{dir: dir, base: e.cell.Places().TaskDir, below: ".", ignore: []string{gitDir}, hidden: e.hidden()})
	if err != nil {
		return templateFault("the task directory", err)
	}
	e.logs.Note(label, fmt.Sprintf("the task directory was put into the cell, %d entries", n))
	return nil
}

// hidden are the directories that the agent's cell gets nothing of.
func (e *execution) hidden() hidden {
	return hiddenFrom(e.runDir(), e.options.Keys, e.options.Scratch)
}

// runDir is the run that the row lies in, by its place, since there need be no
// summary yet; the row itself where it lies elsewhere.
func (e *execution) runDir() string {
	if run, ok := strings.CutSuffix(e.row.Dir, "/"+e.job.Row.Dir()); ok {
		return run
	}
	return e.row.Dir
}

// emptyTaskDir takes out what the task directory holds. What a command of
// pre_run left running may still write there, so nothing is left running.
func (e *execution) emptyTaskDir(ctx context.Context) error {
	return e.cell.Remove(ctx, e.cell.Places().TaskDir, ".")
}

// hook runs one command of pre_run. One that fails ends the set-up, unless it
// may fail.
func (e *execution) hook(ctx context.Context, label string, hook tasks.PreRun) error {
	exit, err := e.run(ctx, order{label: label, line: hook.Command, timeout: time.Duration(hook.Timeout) * time.Second, taskDir: true})
	var result record.HookResult
	switch {
	case errors.Is(err, isolation.ErrNoProgram):
		trouble := "the cell has no shell that could run it"
		result = record.HookResult{Command: hook.Command, Error: &trouble}
	case err != nil:
		return err
	default:
		result = hookResultOf(hook.Command, exit)
	}
	e.facts.PreRun = append(e.facts.PreRun, result)
	failed := result.ExitCode == nil || *result.ExitCode != 0
	if !failed || !hook.FailOnError {
		return nil
	}
	why := "it failed"
	if result.Error != nil {
		why = *result.Error
	} else if result.ExitCode != nil {
		why = fmt.Sprintf("it ended with exit code %d: %s", *result.ExitCode, lastLine(exit))
	}
	return setupFailed(fmt.Sprintf("%s (%s): %s", label, clipped(hook.Command), why))
}
