package regrade

import (
	"context"
	"errors"
	"fmt"
	"io"

	"podgrade/isolation"
	"podgrade/policy"
	"podgrade/tasks/record"
)

// Session is what somebody at a shell reads and types.
type Session struct {
	In          io.ReadCloser
	Out, Err    io.Writer
	Terminal    *isolation.Size       // of theirs; nil: they have none
	Resized     <-chan isolation.Size // that it has become
	Environment []string              // for the terminal, beside what a criterion gets
	Begin       func()                // called when the shell is about to start; nil: nothing is to do
}

// Shell opens the cell in which the row would be graded, and runs a shell in it
// where a criterion's command would run. Nothing of the row is written. It
// returns the shell's exit code; errors are those of Grade.
func Shell(ctx context.Context, row *record.Row, o Options, session Session) (int, error) {
	g, err := prepare(row, o)
	if err != nil {
		return 0, err
	}
	g.logs = noLogs()
	engines, err := o.Start(ctx)
	if err != nil {
		return 0, err
	}
	code, err := g.shell(ctx, engines, session)
	if closing := engines.Close(); closing != nil {
		g.warn("ending the engines: " + closing.Error())
	}
	if err != nil && ctx.Err() != nil {
		err = &Interrupted{What: "the row is as it was"}
	}
	return code, err
}

func (g *grading) shell(ctx context.Context, engines Engines, session Session) (int, error) {
	spot, _, err := g.place(ctx, engines, g.options.View)
	if err != nil {
		return 0, err
	}
	defer spot.drop()
	cell, env, err := spot.current(ctx)
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(g.options.Notice, "a shell where %s would be graded; what it changes is gone when it ends\n", g.identity())
	argv := []string{shell}
	if session.Terminal != nil {
		argv = append(argv, "-i")
	}
	if session.Begin != nil {
		session.Begin()
	}
	exit, err := cell.Run(ctx, isolation.Command{
		Argv: argv, Env: append(env, session.Environment...), Dir: cell.Places().Workspace,
		Live: session.In, Terminal: session.Terminal, Resized: session.Resized,
		Stdout: session.Out, Stderr: session.Err,
	})
	if errors.Is(err, isolation.ErrNoProgram) {
		return 0, &Error{Kind: User, Tried: "start a shell in", On: g.row.Dir, Why: errors.New("the image has no " + shell), Do: "look at the workspace on the host: " + g.workspace}
	}
	return exit.Code, err
}

// identity names the row, safe to print.
func (g *grading) identity() string {
	return policy.Neutral(g.rowIdentity().String())
}
