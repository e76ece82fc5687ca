package regrade

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"podgrade/tasks/record"
)

// findWorkspace finds the tree that the agent left (spec/regrade.md 1.10).
// What the record and the row directory lead to must lie inside the row
// directory, every link resolved; what the operator names may lie anywhere.
// When nothing is conclusive it is a refusal: a verdict over the wrong tree
// cannot be told from a low score.
func findWorkspace(row *record.Row, r *record.Record, override string) (string, error) {
	if override != "" {
		return namedWorkspace(override)
	}
	// What an imported row's record names is the place on the row's own host.
	imported := r.Environment.Text(record.Imported) != ""
	if !imported && filepath.IsAbs(r.SandboxPath) && isDir(r.SandboxPath) {
		return recordedWorkspace(row.Dir, r.SandboxPath)
	}
	artifacts := filepath.Join(row.Dir, record.ArtifactsDir)
	if !isDir(artifacts) {
		return "", workspaceError(row.Dir, errors.New("the record's workspace is gone, and there is no directory "+record.ArtifactsDir))
	}
	if id := r.TaskID; filepath.IsLocal(id) && isDir(filepath.Join(artifacts, id)) {
		return inside(row.Dir, filepath.Join(artifacts, id))
	}
	children, err := childDirs(artifacts)
	if err != nil {
		return "", workspaceError(row.Dir, err)
	}
	switch len(children) {
	case 0:
		return inside(row.Dir, artifacts)
	case 1:
		return inside(row.Dir, filepath.Join(artifacts, children[0]))
	}
	return "", workspaceError(row.Dir, fmt.Errorf("%s holds %d directories, and none is named after the task", record.ArtifactsDir, len(children)))
}

func namedWorkspace(dir string) (string, error) {
	resolved, err := filepath.Abs(dir)
	if err == nil {
		resolved, err = filepath.EvalSymlinks(resolved)
	}
	if err == nil && !isDir(resolved) {
		err = errors.New("it is not a directory")
	}
	if err != nil {
		return "", &Error{Kind: User, Tried: "use the workspace", On: dir, Why: err, Do: "give --workspace a directory"}
	}
	return resolved, nil
}

// recordedWorkspace is the absolute path that a record names. In a copy of a row
// that is the workspace of the row it was copied from, which nobody grades by the
// copy; the copy's own is named.
func recordedWorkspace(rowDir, path string) (string, error) {
	found, err := inside(rowDir, path)
	if err == nil {
		return found, nil
	}
	own, ok := sameInCopy(rowDir, path)
	if !ok {
		return "", err
	}
	return "", &Error{Kind: Refused, Tried: "find the workspace of", On: rowDir,
		Why: fmt.Errorf("the row was copied: its record still names %s, of the row that it was copied from", path),
		Do:  "name the copy's own: --workspace " + own + "; or take rows elsewhere with podgrade export and import"}
}

// sameInCopy is the directory of the row that has, below it, the name that path
// has below another row.
func sameInCopy(rowDir, path string) (string, bool) {
	at := strings.LastIndex(path, "/"+record.ArtifactsDir+"/")
	if at < 0 {
		return "", false
	}
	own, err := inside(rowDir, filepath.Join(rowDir, path[at:]))
	return own, err == nil && isDir(own)
}

// inside returns where path leads, if that is below the row directory.
func inside(rowDir, path string) (string, error) {
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", workspaceError(path, err)
	}
	if !strings.HasPrefix(resolved, rowDir+string(filepath.Separator)) {
		why := errors.New("it lies outside of the row directory " + rowDir)
		if resolved != path {
			why = fmt.Errorf("it leads to %s, outside of the row directory", resolved)
		}
		return "", workspaceError(path, why)
	}
	return resolved, nil
}

func workspaceError(on string, why error) error {
	return &Error{Kind: Refused, Tried: "find the workspace of", On: on, Why: why, Do: "name it with --workspace"}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// mostChildren bounds the entries of artifacts that are looked at.
const mostChildren = 100_000

// childDirs names the directories in dir, and links to directories, since one
// that leads out must be refused rather than overlooked.
func childDirs(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var dirs []string
	for seen := 0; ; {
		names, err := f.Readdirnames(1024)
		for _, name := range names {
			if isDir(filepath.Join(dir, name)) {
				dirs = append(dirs, name)
			}
		}
		switch seen += len(names); {
		case errors.Is(err, io.EOF):
			return dirs, nil
		case err != nil:
			return nil, err
		case seen > mostChildren:
			return nil, fmt.Errorf("%s holds more than %d entries", dir, mostChildren)
		}
	}
}
