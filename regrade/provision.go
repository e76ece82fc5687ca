package regrade

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"

	"podgrade/isolation"
	"podgrade/tasks/criteria"
	"podgrade/tasks/record"
)

// lost tells whether the workspace has no longer a directory that packages were
// installed into, for no doing of the agent's: a capture out of the image leaves
// it out, and without the state layer nothing else has it (spec/regrade.md 1.5).
// Where podgrade executed the row and captured nothing, the agent removed it.
func (g *grading) lost(name string) bool {
	info := g.record.Environment
	if info.Text(record.StateDiffID) != "" {
		return false
	}
	_, captured := info.Get(record.CaptureExcluded)
	if info.Text(record.Version) != "" && !captured {
		return false
	}
	workspace, err := findWorkspace(g.row, g.record, g.options.Workspace)
	return err == nil && !isDir(filepath.Join(workspace, name))
}

// provisioned installs in a cell of the grade what was lost and accepted. A
// verdict without it would be one of a bare interpreter, so there is none when
// it cannot be had.
func (g *grading) provisioned(ctx context.Context, spot *place, cell isolation.Cell, err error) (isolation.Cell, error) {
	if err != nil {
		return nil, err
	}
	if spot.calls == nil { // a cell that is made again shows what commands did
		spot.calls = g.readCalls(ctx, cell, nil)
	}
	if err := g.provision(ctx, spot, cell); err != nil {
		return nil, errors.Join(err, cell.Close())
	}
	return cell, nil
}

// readCalls reads the logs of recorded commands in a cell that has run none.
func (g *grading) readCalls(ctx context.Context, cell isolation.Cell, kept *string) *criteria.Calls {
	root := cell.Places().Workspace
	where := criteria.Surroundings{Workspace: root, Ignore: criteria.IgnorePatterns(g.task.Sandbox.IgnorePatterns), Sink: g.logs}
	return criteria.ReadCalls(ctx, g.accepted.Criteria(), where, filesOf{cell, root}, kept)
}

func (g *grading) provision(ctx context.Context, spot *place, cell isolation.Cell) error {
	setup := g.accepted.Setup()
	i := &installer{root: cell.Places().Workspace, run: func(ctx context.Context, o order) (criteria.Exit, error) {
		return g.runIn(ctx, spot, cell, o)
	}}
	err := i.python(ctx, setup.Python)
	if err == nil {
		err = i.node(ctx, setup.Node)
	}
	if b := brokenBy(err); err != nil && b != nil {
		do := "use an image that holds the packages, or grade the row where its state layer is"
		if g.network() != NetworkRecorded {
			do = "let the cell reach them with --network recorded, or " + do
		}
		return &Error{Kind: Infrastructure, Tried: "install again what the workspace has lost of", On: g.row.Dir, Why: b, Do: do}
	}
	return err
}

// runIn runs a program of the grade's own set-up in its cell.
func (g *grading) runIn(ctx context.Context, spot *place, cell isolation.Cell, o order) (criteria.Exit, error) {
	env, err := spot.around.environment(ctx, cell, spot.image)
	if err != nil {
		return criteria.Exit{}, err
	}
	stdout, stderr := newCapture(), newCapture()
	exit, err := cell.Run(ctx, isolation.Command{
		Argv: o.argv, Env: append(env, o.env...), Dir: cell.Places().Workspace, Timeout: o.timeout,
		Stdout: io.MultiWriter(stdout, g.logs.cell), Stderr: io.MultiWriter(stderr, g.logs.cell),
	})
	if err != nil {
		return criteria.Exit{}, notStarted(err)
	}
	spot.attempts.Add(exit.NetworkAttempts)
	ended := exitOf(exit, stdout, stderr)
	g.logs.Command(o.label, strings.Join(o.argv, " "), ended)
	return ended, nil
}
