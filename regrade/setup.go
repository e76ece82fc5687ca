package regrade

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"podgrade/isolation"
	"podgrade/isolation/protocol"
	"podgrade/tasks"
	"podgrade/tasks/criteria"
	"podgrade/tasks/record"
)

// setUp makes the workspace what the task asks for, inside of the cell and in
// upstream's order: templates, recorders, packages, then pre_run. What changed by
// then is kept where the task asks for it.
func (e *execution) setUp(ctx context.Context) error {
	for _, step := range e.steps.inCell {
		if err := step.do(e, ctx); err != nil {
			return err
		}
	}
	return e.keepBefore(ctx)
}

// templates puts the template sources into the workspace, one after the other.
func (e *execution) templates(ctx context.Context) error {
	for i, source := range e.accepted.Setup().Templates {
		put, known := e.steps.templates[source.Type]
		if !known {
			return setupFailed(fmt.Sprintf("template_sources[%d]: %q is no type of a source", i, source.Type))
		}
		if err := put(e, ctx, fmt.Sprintf("template_sources[%d]", i), source); err != nil {
			return err
		}
	}
	return nil
}

// templateDir puts a copy of a directory into the workspace.
func (e *execution) templateDir(ctx context.Context, label string, source tasks.TemplateSource) error {
	n, err := e.putTree(ctx, hostTree{
		dir: source.Path, base: e.root(), below: source.MountPoint, ignore: e.ignored(), refuseLinks: true,
		// A template may be the task directory itself.
		hidden: append(e.hidden(), referenceDirs(e.job.Row)...),
	})
	if err != nil {
		return templateFault(label, err)
	}
	e.logs.Note(label, fmt.Sprintf("%d entries of %s were put into the workspace", n, source.Path))
	return nil
}

// templateFault tells the host's faults from the task's.
func templateFault(label string, err error) error {
	var bad *badTree
	if errors.As(err, &bad) || badPlace(err) {
		return setupFailed(label + ": " + err.Error())
	}
	return err
}

// badPlace: the workspace itself is why a file could not be put there.
func badPlace(err error) bool {
	for _, why := range []error{isolation.ErrNotExist, isolation.ErrEscapes, isolation.ErrNotRegular, isolation.ErrNotDir, isolation.ErrDenied, isolation.ErrBroken} {
		if errors.Is(err, why) {
			return true
		}
	}
	return false
}

// ignored are the names that a template leaves behind.
func (e *execution) ignored() []string {
	return criteria.IgnorePatterns(e.task.Sandbox.IgnorePatterns)
}

// root is the workspace as the cell has it.
func (e *execution) root() string { return e.cell.Places().Workspace }

// starterFiles writes the files that stand in the task.
func (e *execution) starterFiles(ctx context.Context, label string, source tasks.TemplateSource) error {
	for _, file := range source.Files {
		if !filepath.IsLocal(file.Path) {
			return setupFailed(fmt.Sprintf("%s: %q leaves the workspace", label, file.Path))
		}
		entry := isolation.Entry{Type: protocol.Regular, Mode: 0o644}
		if err := e.cell.Put(ctx, e.root(), file.Path, entry, strings.NewReader(file.Content)); err != nil {
			return templateFault(label+": "+file.Path, err)
		}
	}
	e.logs.Note(label, fmt.Sprintf("%d starter files were written", len(source.Files)))
	return nil
}

// repository clones a repository with the cell's own git.
func (e *execution) repository(ctx context.Context, label string, source tasks.TemplateSource) error {
	if strings.HasPrefix(source.Commit, "-") {
		return setupFailed(fmt.Sprintf("%s: %q is no commit", label, source.Commit))
	}
	// What follows -- is never an option, whatever it starts with.
	lines := [][]string{{"git", "clone", "--quiet", "--", source.URL, e.root()}}
	if source.Commit != "" {
		lines = append(lines, []string{"git", "-C", e.root(), "checkout", "--quiet", source.Commit, "--"})
	}
	for _, argv := range lines {
		if err := e.installer().install(ctx, label, argv, "GIT_TERMINAL_PROMPT=0"); err != nil {
			return err
		}
	}
	return nil
}

// lastLine is what a program said last.
func lastLine(exit criteria.Exit) string {
	for _, stream := range [][]byte{exit.Stderr.Text, exit.Stdout.Text} {
		lines := bytes.Split(bytes.TrimSpace(stream), []byte("\n"))
		if last := lines[len(lines)-1]; len(last) > 0 {
			return clipped(string(last))
		}
	}
	return "it said nothing"
}

// clipped bounds text of a cell for a message.
func clipped(s string) string {
	const most = 400
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + record.CutMark
}

// largestMock bounds a mock, which is read and written to make it executable.
const largestMock = 64 << 20

// mocks makes the plain files of the mock directories executable, and puts the
// directories in front of PATH. One that is not there is left out.
func (e *execution) mocks(ctx context.Context) error {
	for _, dir := range e.accepted.Setup().MockDirs {
		where, err := directoryBelow(ctx, e.cell, e.root(), dir)
		if err != nil {
			return err
		}
		if where == "" {
			e.logs.Note("mock_path_dirs", dir+" is not there")
			continue
		}
		if err := e.makeExecutable(ctx, where); err != nil {
			return templateFault("mock_path_dirs: "+dir, err)
		}
		if !slices.Contains(e.front, where) {
			e.front = append(e.front, where)
		}
	}
	return nil
}

func (e *execution) makeExecutable(ctx context.Context, dir string) error {
	files, err := e.cell.List(ctx, e.root(), dir, mostListed)
	if err != nil {
		return err
	}
	for _, file := range files {
		const forAll = 0o111
		if file.Link || file.Type != protocol.Regular || file.Mode&forAll == forAll {
			continue
		}
		name := path.Join(dir, file.Name)
		var content bytes.Buffer
		if _, err := e.cell.Read(ctx, e.root(), name, largestMock, &content); err != nil {
			return err
		}
		entry := isolation.Entry{Type: protocol.Regular, Mode: file.Mode | forAll, ModTime: file.ModTime}
		if err := e.cell.Put(ctx, e.root(), name, entry, &content); err != nil {
			return err
		}
	}
	return nil
}
