package regrade

import (
	"context"
	"errors"
	"path"
	"strings"

	"podgrade/isolation"
	"podgrade/isolation/protocol"
	"podgrade/tasks"
	"podgrade/tasks/criteria"
)

// Where recorded commands and their log lie in the workspace (task-file 6.3).
const (
	recorderDir = criteria.RecorderDir
	callLog     = criteria.CallLog
	// callLogError beside the log says that calls could not be logged.
	callLogError = callLog + ".error"
)

// recorders are the commands of a cell that are recorded; nil: there are none.
type recorders struct {
	cell      isolation.Cell
	workspace string
	recorder  *criteria.Recorder
	kept      *string // the log of when the agent had ended; nil: it works
}

// recordCLI sets up what the task's record_cli asks for. A name that a mock
// directory provides too is a fault of the task.
func (e *execution) recordCLI(ctx context.Context) error {
	entries := e.accepted.Setup().Recorders
	for _, dir := range e.accepted.Setup().MockDirs {
		for _, entry := range entries {
			switch _, err := e.cell.Stat(ctx, e.root(), path.Join(dir, entry.Tool)); {
			case err == nil:
				return setupFailed("record_cli: " + entry.Tool + " is in the mock directory " + dir + " too")
			case !badPlace(err):
				return err
			}
		}
	}
	var err error
	if e.recorders, err = setUpRecorders(ctx, e.cell, e.root(), entries); err != nil {
		return err
	}
	e.front = append(e.recorders.front(), e.front...)
	return nil
}

// setUpRecorders makes links under the commands' names in the workspace and an
// empty log beside them, and answers the calls from then on.
func setUpRecorders(ctx context.Context, cell isolation.Cell, workspace string, entries []tasks.RecordCLI) (*recorders, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	recorder, err := criteria.NewRecorder(entries)
	if err != nil {
		return nil, setupFailed(err.Error())
	}
	r := &recorders{cell: cell, workspace: workspace, recorder: recorder}
	for _, entry := range entries {
		link := isolation.Entry{Type: protocol.Symlink, Target: cell.Places().Recorder}
		if err := cell.Put(ctx, workspace, path.Join(recorderDir, entry.Tool), link, nil); err != nil {
			return nil, templateFault("record_cli", err)
		}
	}
	if err := r.write(ctx, ""); err != nil {
		return nil, templateFault("record_cli", err)
	}
	return r, cell.Record(ctx, r.answer)
}

// front are the directories that come before all others on PATH.
func (r *recorders) front() []string {
	if r == nil {
		return nil
	}
	return []string{path.Join(r.workspace, recorderDir)}
}

// answer answers a call, which the called program also writes into the log in
// the workspace, for whoever looks there meanwhile.
func (r *recorders) answer(call isolation.Call) isolation.Reply {
	reply := r.recorder.Call(call.Tool, call.Argv, call.Fault)
	said := isolation.Reply{Exit: reply.Exit, Stdout: reply.Stdout, Stderr: reply.Stderr}
	if reply.Line != "" {
		said.Log, said.Line = path.Join(r.workspace, callLog), reply.Line
	}
	return said
}

// keep ends what is counted: calls from now on are answered, and are not the agent's.
// It returns the log; nil: nothing is recorded.
func (r *recorders) keep() *string {
	if r == nil {
		return nil
	}
	if r.kept == nil {
		log := r.recorder.Log()
		r.kept = &log
	}
	return r.kept
}

// finish writes the log of the calls that were really made, whatever became of
// the one in the workspace.
func (r *recorders) finish(ctx context.Context) error {
	if r == nil {
		return nil
	}
	return r.write(ctx, *r.keep())
}

// write puts a log into the workspace, in place of all that is at its path or
// on the way to it.
func (r *recorders) write(ctx context.Context, log string) error {
	dir := isolation.Entry{Type: protocol.Directory, Mode: 0o755}
	err := r.cell.Put(ctx, r.workspace, recorderDir, dir, nil)
	if errors.Is(err, isolation.ErrNotDir) {
		if err = r.cell.Remove(ctx, r.workspace, recorderDir); err == nil {
			err = r.cell.Put(ctx, r.workspace, recorderDir, dir, nil)
		}
	}
	for _, name := range []string{callLog, callLogError} {
		if err == nil {
			err = r.cell.Remove(ctx, r.workspace, name)
		}
	}
	if err != nil {
		return err
	}
	return r.cell.Put(ctx, r.workspace, callLog, isolation.Entry{Type: protocol.Regular, Mode: 0o644}, strings.NewReader(log))
}

// isOutcome tells whether err says something about the workspace.
func isOutcome(err error) bool { return err != nil && badPlace(err) }
