package regrade

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"podgrade/isolation"
	"podgrade/isolation/protocol"
	"podgrade/policy"
	"podgrade/tasks/criteria"
)

const directoryType = protocol.Directory

// shell is the program that a command line is given to.
const shell = "/bin/sh"

// place is where one row is graded: it answers what criteria ask. When a
// command ends its own cell, the cell is made again for the next question, on
// the same view of the workspace.
type place struct {
	open     func(context.Context) (isolation.Cell, error)
	around   surroundings
	image    isolation.Image
	accepted policy.Accepted
	// whole opens what takes all of a stream of a command; nil: nobody does.
	whole func(label, stream string) io.Writer

	mu   sync.Mutex
	cell isolation.Cell // nil: the next question opens one
	env  []string

	commands atomic.Int64   // that were run
	attempts atomic.Uint64  // to reach a network
	remade   atomic.Int64   // cells that a command ended
	made     isolation.Made // for the cell
	room     isolation.Room // a disk that was full when a command failed
	shadows  []string       // what stands in front of programs of the image
	lacked   []string       // programs of the image that were not there
	places   isolation.Places
	calls    *criteria.Calls // that were logged before any command; nil: none was read yet
}

var _ criteria.Cell = (*place)(nil)

// current returns the cell and the environment of its commands.
func (p *place) current(ctx context.Context) (isolation.Cell, []string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cell != nil {
		return p.cell, p.env, nil
	}
	cell, err := p.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	env, err := p.around.environment(ctx, cell, p.image)
	if err != nil {
		return nil, nil, errors.Join(err, cell.Close())
	}
	hidden, err := p.around.shadows(ctx, cell, p.image, env)
	if err != nil {
		return nil, nil, errors.Join(err, cell.Close())
	}
	p.cell, p.env, p.made, p.places = cell, env, cell.Made(), cell.Places()
	p.shadows = hidden
	return cell, env, nil
}

// replaced are the programs of the pinned image that commands did not get as
// the image has them.
func (p *place) replaced() []string {
	return slices.Concat(p.made.ReplacedTools, p.shadows, p.lacked)
}

// takenAway is where the image has a program that the cell's shell did not find;
// "": it never had it.
func (p *place) takenAway(program string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	where := p.made.Programs[program]
	if where != "" && !slices.Contains(p.made.ReplacedTools, where) && !slices.Contains(p.lacked, where) {
		p.lacked = append(p.lacked, where)
	}
	return where
}

// finish ends the place after the last question. It fails when the image is no
// longer whole: no verdict may be made of what was seen.
func (p *place) finish(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cell == nil {
		return nil
	}
	err := errors.Join(p.cell.CheckImage(ctx), p.cell.Close())
	p.cell = nil
	return err
}

// drop ends the place when there is no verdict to make.
func (p *place) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cell != nil {
		p.cell.Close()
		p.cell = nil
	}
}

// Run runs a command line with the shell in the workspace.
func (p *place) Run(ctx context.Context, command criteria.Command) (criteria.Exit, error) {
	if !p.accepted.Runs() {
		return criteria.Exit{}, &Error{Kind: Refused, Tried: "run", On: command.Line,
			Why: errors.New("no recorded command was accepted"), Do: "use --allow-recorded-commands"}
	}
	if strings.ContainsRune(command.Line, 0) {
		return criteria.Exit{}, fmt.Errorf("%w: it holds a NUL byte", criteria.ErrNoLine)
	}
	cell, env, err := p.current(ctx)
	if err != nil {
		return criteria.Exit{}, err
	}
	p.commands.Add(1)
	stdout, stderr := newCapture(), newCapture()
	if p.whole != nil {
		stdout.open = func() io.Writer { return p.whole(command.Label, streamStdout) }
		stderr.open = func() io.Writer { return p.whole(command.Label, streamStderr) }
	}
	exit, err := cell.Run(ctx, isolation.Command{
		Argv:    []string{shell, "-c", command.Line},
		Env:     env,
		Dir:     cell.Places().Workspace,
		Timeout: command.Timeout,
		Stdout:  stdout,
		Stderr:  stderr,
	})
	if errors.Is(err, isolation.ErrNoProgram) {
		return criteria.Exit{Code: noProgram, NoShell: true}, nil
	}
	if errors.Is(err, isolation.ErrTooLarge) {
		return criteria.Exit{}, fmt.Errorf("%w: %v", criteria.ErrNoLine, err)
	}
	if errors.Is(err, isolation.ErrNotExist) || errors.Is(err, isolation.ErrDenied) {
		return criteria.Exit{}, asked(err) // the workspace, which an earlier command closed or moved
	}
	if err != nil {
		return criteria.Exit{}, err
	}
	p.attempts.Add(exit.NetworkAttempts)
	if exit.CellEnded {
		p.remade.Add(1)
	}
	if exit.Code != 0 || exit.TimedOut {
		err = p.lookForRoom(ctx, cell)
	}
	return exitOf(exit, stdout, stderr), err
}

// noProgram is what shells return for a program that is not there.
const noProgram = 127

func exitOf(exit isolation.Exit, stdout, stderr *capture) criteria.Exit {
	code := exit.Code
	if exit.TimedOut {
		code = -1
	}
	return criteria.Exit{
		Code:            code,
		TimedOut:        exit.TimedOut,
		Held:            exit.Held,
		CellEnded:       exit.CellEnded,
		NetworkAttempts: exit.NetworkAttempts,
		Stdout:          stdout.output(),
		Stderr:          stderr.output(),
		Duration:        exit.Duration,
	}
}

// Stat describes a file of the workspace.
func (p *place) Stat(ctx context.Context, name string) (criteria.File, error) {
	return below{p, inWorkspace}.Stat(ctx, name)
}

// Read returns the bytes of a file of the workspace.
func (p *place) Read(ctx context.Context, name string, limit int64) ([]byte, error) {
	return below{p, inWorkspace}.Read(ctx, name, limit)
}

// List returns the entries of a directory of the workspace.
func (p *place) List(ctx context.Context, name string) ([]criteria.File, error) {
	return below{p, inWorkspace}.List(ctx, name)
}

// reference reads the reference directory.
func (p *place) reference() criteria.Files { return below{p, inReference} }

// taskDir reads the task directory.
func (p *place) taskDir() criteria.Files { return below{p, inTaskDir} }

// below is a tree of the place: workspace, task directory or reference.
type below struct {
	place *place
	tree  func(isolation.Places) string
}

func inWorkspace(p isolation.Places) string { return p.Workspace }
func inTaskDir(p isolation.Places) string   { return p.TaskDir }
func inReference(p isolation.Places) string { return p.Reference }

// cell returns the cell and the tree's place in it.
func (b below) cell(ctx context.Context) (isolation.Cell, string, error) {
	cell, _, err := b.place.current(ctx)
	if err != nil {
		return nil, "", err
	}
	return cell, b.tree(cell.Places()), nil
}

// mostListed bounds the entries of one directory.
const mostListed = 1 << 20

func (b below) Stat(ctx context.Context, name string) (criteria.File, error) {
	cell, base, err := b.cell(ctx)
	if err != nil {
		return criteria.File{}, err
	}
	return filesOf{cell, base}.Stat(ctx, name)
}

func (b below) Read(ctx context.Context, name string, limit int64) ([]byte, error) {
	cell, base, err := b.cell(ctx)
	if err != nil {
		return nil, err
	}
	return filesOf{cell, base}.Read(ctx, name, limit)
}

func (b below) List(ctx context.Context, name string) ([]criteria.File, error) {
	cell, base, err := b.cell(ctx)
	if err != nil {
		return nil, err
	}
	return filesOf{cell, base}.List(ctx, name)
}

// filesOf is a tree of one cell.
type filesOf struct {
	cell isolation.Cell
	base string
}

func (f filesOf) Stat(ctx context.Context, name string) (criteria.File, error) {
	file, err := f.cell.Stat(ctx, f.base, name)
	if err != nil {
		return criteria.File{}, asked(err)
	}
	found := fileOf(f.base, file)
	found.Name = name
	return found, nil
}

func (f filesOf) Read(ctx context.Context, name string, limit int64) ([]byte, error) {
	var content bytes.Buffer
	if _, err := f.cell.Read(ctx, f.base, name, limit, &content); err != nil {
		return nil, asked(err)
	}
	return content.Bytes(), nil
}

func (f filesOf) List(ctx context.Context, name string) ([]criteria.File, error) {
	entries, err := f.cell.List(ctx, f.base, name, mostListed)
	if err != nil {
		return nil, asked(err)
	}
	files := make([]criteria.File, len(entries))
	for i, entry := range entries {
		files[i] = fileOf(f.base, entry)
		if entry.Link {
			files[i].Type = criteria.Symlink
		}
	}
	return files, nil
}

// fileOf tells criteria of a file; its place is relative to the tree.
func fileOf(base string, f protocol.File) criteria.File {
	place := strings.TrimPrefix(strings.TrimPrefix(f.Path, base), "/")
	kind := criteria.Other
	switch f.Type {
	case protocol.Regular:
		kind = criteria.Regular
	case protocol.Directory:
		kind = criteria.Directory
	case protocol.Symlink:
		kind = criteria.Symlink
	}
	return criteria.File{Name: f.Name, Path: place, Type: kind, Size: f.Size}
}

// asked turns what a cell answers into what criteria know; any other error
// means that the cell is lost, and stays as it is.
func asked(err error) error {
	for _, pair := range []struct{ cell, criterion error }{
		{isolation.ErrNotExist, criteria.ErrNotExist},
		{isolation.ErrEscapes, criteria.ErrEscapes},
		{isolation.ErrNotRegular, criteria.ErrNotRegular},
		{isolation.ErrNotDir, criteria.ErrNotDir},
		{isolation.ErrTooLarge, criteria.ErrTooLarge},
		{isolation.ErrDenied, criteria.ErrDenied},
		{isolation.ErrBroken, criteria.ErrIO},
	} {
		if errors.Is(err, pair.cell) {
			return fmt.Errorf("%w (%v)", pair.criterion, err)
		}
	}
	return err
}
