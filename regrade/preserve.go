package regrade

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"podgrade/tasks/record"
)

// absolute is a path of this host from the root.
func absolute(path string) string {
	if whole, err := filepath.Abs(path); err == nil {
		return whole
	}
	return path
}

// preserve gives the workspace the place that the preservation mode wants, once
// the agent's cell is closed.
func (e *execution) preserve(ctx context.Context) error {
	if e.settled == nil || e.mode() == PreserveDirect {
		return nil
	}
	draft := filepath.Join(e.row.Dir, record.WorkspaceDraft)
	if e.mode() == PreserveNone {
		if e.options.Graded {
			return nil // the grade needs it
		}
		e.workspace = ""
		return removeTree(ctx, e.engines, draft)
	}
	// The task's id holds slashes: what moves is the directory above it.
	artifacts := filepath.Join(e.row.Dir, record.ArtifactsDir)
	if err := os.Rename(draft, artifacts); err != nil {
		return &Error{Kind: Infrastructure, Tried: "move the workspace", On: draft, Why: err, Do: "remove what is left of an earlier run"}
	}
	e.workspace = filepath.Join(artifacts, e.task.TaskID)
	return nil
}

// Discard removes the workspace of a row whose preservation mode is
// PreserveNone, once it is graded, and says so in its record. A row that has
// none stays as it is.
func Discard(ctx context.Context, engines Engines, row *record.Row) error {
	draft := filepath.Join(row.Dir, record.WorkspaceDraft)
	if info, err := os.Lstat(draft); errors.Is(err, os.ErrNotExist) || err == nil && !info.IsDir() {
		return nil
	}
	unlock, err := row.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	r, _, err := row.Read()
	if err != nil {
		return err
	}
	r.Set(record.FieldSandboxPath, nil)
	if err := row.Write(record.TaskFile, r.Bytes()); err != nil {
		return err
	}
	return removeTree(ctx, engines, draft)
}

// removeTree removes a directory, whoever of this user's ids owns what is in
// it.
func removeTree(ctx context.Context, engines Engines, path string) error {
	dir, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := engines.RemoveTree(ctx, dir); err != nil {
		return err
	}
	return os.Remove(path)
}
