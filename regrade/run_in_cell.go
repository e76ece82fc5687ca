package regrade

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"podgrade/isolation"
	"podgrade/oci"
	"podgrade/tasks/criteria"
)

// order is one command of the execute phase.
type order struct {
	label   string
	line    string // given to the shell; "": argv
	argv    []string
	env     []string // beside the surroundings
	stdin   []byte
	timeout time.Duration // 0: none
	taskDir bool          // the command may know of the task directory
	agent   bool          // it is the agent
}

// run runs a command in the workspace. Its error is isolation.ErrNoProgram, or
// one that means that the cell is lost; a command that failed is no error.
func (e *execution) run(ctx context.Context, o order) (criteria.Exit, error) {
	around := surroundings{task: e.task, accepted: e.accepted, lookup: e.options.Lookup, front: e.front, withoutTaskDir: !o.taskDir}
	env, err := around.environment(ctx, e.cell, e.image)
	if err != nil {
		return criteria.Exit{}, err
	}
	if o.line != "" {
		o.argv = []string{shell, "-c", o.line}
	}
	stdout, stderr := newCapture(), newCapture()
	out, said, ended := e.live(o, io.MultiWriter(stdout, e.logs.cell), io.MultiWriter(stderr, e.logs.cell))
	exit, err := e.cell.Run(ctx, isolation.Command{
		Argv: o.argv, Env: append(env, o.env...), Dir: e.root(), Timeout: o.timeout, Stdin: o.stdin,
		Stdout: out, Stderr: said,
	})
	ended()
	if err != nil {
		return criteria.Exit{}, notStarted(err)
	}
	e.ended = e.ended || exit.CellEnded
	if o.agent {
		e.agentPath = pathOf(env)
	}
	e.attempts += exit.NetworkAttempts
	result := exitOf(exit, stdout, stderr)
	if o.line == "" {
		o.line = strings.Join(o.argv, " ")
	}
	e.logs.Command(o.label, o.line, result)
	return result, nil
}

// notStarted tells what kept a command from starting from a lost cell: a
// workspace that an earlier command took away is the row's own fault.
func notStarted(err error) error {
	for _, why := range []error{isolation.ErrNotExist, isolation.ErrDenied, isolation.ErrNotDir, isolation.ErrTooLarge} {
		if errors.Is(err, why) {
			return setupFailed("a command could not be started: " + err.Error())
		}
	}
	return err
}

// pathOf is PATH of an environment.
func pathOf(env []string) string {
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, envPath+"="); ok {
			return value
		}
	}
	return ""
}

// sealed tells whether the cell lacks the network that its task has by
// default.
func (e *execution) sealed() bool {
	return e.cell != nil && e.accepted.Network() != oci.Sealed && e.network == oci.Sealed
}
