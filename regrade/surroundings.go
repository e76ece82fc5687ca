package regrade

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"podgrade/isolation"
	"podgrade/oci"
	"podgrade/policy"
	"podgrade/tasks"
)

// What commands find around them when neither image nor host says otherwise.
const (
	fallbackPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	envPath      = "PATH"
	envHome      = "HOME"
)

// fromHost are the variables of the caller that a command on the host gets:
// what programs need to run at all. No other is passed on without a grant, so
// no credential reaches a recorded command.
var fromHost = []string{"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"}

// surroundings is the environment of every command of one grade.
type surroundings struct {
	task     *tasks.Task
	accepted policy.Accepted
	lookup   func(string) (string, bool)
	recorded string // the agent's PATH, from the record
	// front are directories of the cell that come before all others on PATH:
	// mocks and recorders while the agent works.
	front []string
	// withoutTaskDir: the commands are not told where the task directory is.
	withoutTaskDir bool
}

// environment is the one table of what a command finds in its environment
// (design: Surroundings of a command). Later lines win.
//
//	where  name                     value
//	cell   the image's own          its configuration
//	host   fromHost                 the caller's
//	both   PATH                     mocks and recorders while the agent works,
//	                                node_modules/.bin and .venv/bin of the
//	                                workspace where they exist, the agent's
//	                                PATH, then the image's or the host's
//	both   VIRTUAL_ENV              .venv of the workspace where it exists
//	both   NODE_PATH                empty
//	both   NPM_CONFIG_PREFIX        .npm-prefix of the workspace
//	cell   HOME                     of the image's user, always writable
//	both   accepted variables       the caller's
//	cell   CODER_EVAL_IN_CONTAINER  1
//	both   TELEMETRY_ENABLED        false
//	both   TASK_DIR                 the task directory, when there is one
//	both   REFERENCE_DIR            the reference, when there is one
func (s surroundings) environment(ctx context.Context, cell isolation.Cell, image isolation.Image) ([]string, error) {
	env := newEnvironment()
	inCell := s.accepted.Place() == policy.InCell
	env.set(envPath, fallbackPath)
	if inCell {
		env.add(image.Env)
	} else {
		for _, name := range fromHost {
			if value, ok := s.lookup(name); ok {
				env.set(name, value)
			}
		}
	}
	if err := s.searchPath(ctx, cell, env); err != nil {
		return nil, err
	}
	env.set("NODE_PATH", "")
	env.set("NPM_CONFIG_PREFIX", path.Join(cell.Places().Workspace, ".npm-prefix"))
	if inCell {
		env.set(envHome, cell.Made().Home)
	}
	env.add(s.accepted.Env())
	if inCell {
		env.set(oci.EnvInContainer, "1")
	}
	env.set(oci.EnvTelemetry, "false")
	s.directories(env, cell.Places())
	return env.list(), nil
}

// directories names the task directory and the reference as commands see them.
func (s surroundings) directories(env *environment, places isolation.Places) {
	if s.accepted.TaskDir() != "" && !s.withoutTaskDir {
		env.set(oci.EnvTaskDir, places.TaskDir)
	}
	if s.accepted.Reference() != "" {
		env.set(oci.EnvReferenceDir, places.Reference)
	}
}

// searchPath puts directories in front of PATH, in upstream's order
// (spec/task-file.md 7.8).
func (s surroundings) searchPath(ctx context.Context, cell isolation.Cell, env *environment) error {
	front := slices.Clone(s.front)
	node, err := directoryBelow(ctx, cell, cell.Places().Workspace, "node_modules/.bin")
	if err != nil {
		return err
	}
	if node != "" {
		front = append(front, node)
	}
	if s.task.Sandbox.Python != nil {
		venv, err := directoryBelow(ctx, cell, cell.Places().Workspace, ".venv/bin")
		if err != nil {
			return err
		}
		if venv != "" {
			front = append(front, venv)
			env.set("VIRTUAL_ENV", path.Dir(venv))
		}
	}
	agent, err := s.agentPath(ctx, cell)
	if err != nil {
		return err
	}
	front = append(front, agent...)
	env.set(envPath, strings.Join(append(front, env.get(envPath)), ":"))
	return nil
}

// mostEntries bounds the agent's recorded PATH.
const mostEntries = 256

// agentPath keeps those entries of the agent's recorded PATH that are
// directories of the image: the record is untrusted, and the agent could write
// to the workspace (spec/regrade.md 1.8). On the host policy has chosen them.
func (s surroundings) agentPath(ctx context.Context, cell isolation.Cell) ([]string, error) {
	if s.accepted.Place() == policy.OnHost {
		return s.accepted.SearchPath(), nil
	}
	var kept []string
	entries := strings.Split(s.recorded, ":")
	for _, entry := range entries[:min(len(entries), mostEntries)] {
		if !path.IsAbs(entry) || strings.ContainsRune(entry, 0) {
			continue
		}
		real, err := directoryBelow(ctx, cell, "/", entry)
		if err != nil {
			return nil, err
		}
		if real != "" && !lies(real, oci.WorkPath) && !lies(real, cell.Places().Workspace) {
			kept = append(kept, entry)
		}
	}
	return kept, nil
}

// lies tells whether a clean path is dir or lies in it.
func lies(name, dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }

// directoryBelow is the place of a directory, "" when there is none.
func directoryBelow(ctx context.Context, cell isolation.Cell, base, name string) (string, error) {
	file, err := cell.Stat(ctx, base, name)
	switch {
	case errors.Is(err, isolation.ErrNotExist), errors.Is(err, isolation.ErrEscapes),
		errors.Is(err, isolation.ErrDenied), errors.Is(err, isolation.ErrNotDir), errors.Is(err, isolation.ErrBroken):
		return "", nil
	case err != nil:
		return "", err
	case file.Type != directoryType:
		return "", nil
	}
	return file.Path, nil
}

// environment is an ordered set of variables.
type environment struct {
	names  []string
	values map[string]string
}

func newEnvironment() *environment { return &environment{values: map[string]string{}} }

func (e *environment) set(name, value string) {
	if _, ok := e.values[name]; !ok {
		e.names = append(e.names, name)
	}
	e.values[name] = value
}

func (e *environment) get(name string) string { return e.values[name] }

func (e *environment) add(entries []string) {
	for _, entry := range entries {
		if name, value, ok := strings.Cut(entry, "="); ok && name != "" {
			e.set(name, value)
		}
	}
}

func (e *environment) list() []string {
	list := make([]string, len(e.names))
	for i, name := range e.names {
		list[i] = name + "=" + e.values[name]
	}
	return list
}
