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
	recorderDir = "cli_mocks"
	callLog     = recorderDir + "/calls.jsonl"
	// callLogError beside the log says that calls could not be logged.
	callLogError = callLog + ".error"
)

// recorders are the commands of a cell that are recorded; nil: there are none.
type recorders struct {
	cell      isolation.Cell
	workspace string
	recorder  *criteria.Recorder
}

// recordCLI sets up what a task's record_cli asks for: links under the
// commands' names in the workspace, an empty log beside them, and the answers.
// With keepLog, in a grade, the log that is there stays.
func recordCLI(ctx context.Context, cell isolation.Cell, workspace string, entries []tasks.RecordCLI, keepLog bool) (*recorders, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	recorder, err := criteria.NewRecorder(entries)
	if err != nil {
		return nil, err
	}
	r := &recorders{cell: cell, workspace: workspace, recorder: recorder}
	for _, tool := range criteria.Tools(entries) {
		link := isolation.Entry{Type: protocol.Symlink, Target: cell.Places().Recorder}
		if err := cell.Put(ctx, workspace, path.Join(recorderDir, tool), link, nil); err != nil {
			return nil, err
		}
	}
	if !keepLog {
		if err := r.write(ctx, ""); err != nil {
			return nil, err
		}
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

// finish writes the log of the calls that were really made, whatever became of
// the one in the workspace.
func (r *recorders) finish(ctx context.Context) error {
	if r == nil {
		return nil
	}
	if err := r.cell.Remove(ctx, r.workspace, callLogError); err != nil {
		return err
	}
	return r.write(ctx, r.recorder.Log())
}

// write puts a log into the workspace, in place of all that is at its path or
// on the way to it.
func (r *recorders) write(ctx context.Context, log string) error {
	entry := isolation.Entry{Type: protocol.Regular, Mode: 0o644}
	err := r.cell.Put(ctx, r.workspace, callLog, entry, strings.NewReader(log))
	if isOutcome(err) {
		for _, name := range []string{callLog, recorderDir} { // a directory or a link in the way
			if err := r.cell.Remove(ctx, r.workspace, name); err != nil {
				return err
			}
			if err = r.cell.Put(ctx, r.workspace, callLog, entry, strings.NewReader(log)); !isOutcome(err) {
				return err
			}
		}
	}
	return err
}

// isOutcome tells whether err says something about the workspace.
func isOutcome(err error) bool {
	for _, known := range []error{isolation.ErrNotExist, isolation.ErrEscapes, isolation.ErrNotDir, isolation.ErrDenied} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}
