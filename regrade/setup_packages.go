package regrade

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"podgrade/isolation"
	"podgrade/tasks"
	"podgrade/tasks/criteria"
)

// Directories of the workspace that packages go to.
const (
	venvDir = ".venv"
	nodeDir = "node_modules"
)

// installer runs the programs that put packages into a workspace, in the cell of
// an agent or of a grade.
type installer struct {
	run  func(ctx context.Context, o order) (criteria.Exit, error)
	root string // the workspace
}

func (e *execution) installer() *installer { return &installer{run: e.run, root: e.root()} }

// python and node are the set-up's steps of packages.
func (e *execution) python(ctx context.Context) error {
	return e.installer().python(ctx, e.accepted.Setup().Python)
}

func (e *execution) node(ctx context.Context) error {
	return e.installer().node(ctx, e.accepted.Setup().Node)
}

// installTimeout bounds each program that the set-up runs.
const installTimeout = 300 * time.Second

// install runs one program of the set-up, which must succeed.
func (i *installer) install(ctx context.Context, label string, argv []string, env ...string) error {
	exit, err := i.run(ctx, order{label: label, argv: argv, env: env, timeout: installTimeout})
	switch {
	case errors.Is(err, isolation.ErrNoProgram):
		return setupFailed(fmt.Sprintf("%s: the image has no %s", label, argv[0]))
	case err != nil:
		return err
	case exit.TimedOut:
		return setupFailed(fmt.Sprintf("%s: %s was ended after %v", label, argv[0], installTimeout))
	case exit.Code != 0:
		return setupFailed(fmt.Sprintf("%s: %s ended with exit code %d: %s", label, argv[0], exit.Code, lastLine(exit)))
	}
	return nil
}

// python makes the virtual environment, which a task gets unless it says
// `python: null`, and installs the packages. An image without python3 is only
// in the way of a task that names packages.
func (i *installer) python(ctx context.Context, block *tasks.Packages) error {
	if block == nil {
		return nil
	}
	const label = "sandbox.python"
	venv := path.Join(i.root, venvDir)
	made, err := i.first(ctx, label, [][]string{
		{"uv", "venv", "--quiet", "--system-site-packages", venv},
		// A pip of its own takes seconds; the image's is visible from inside.
		{"python3", "-m", "venv", "--system-site-packages", "--without-pip", venv},
	})
	if err != nil || len(block.EnvPackages) == 0 {
		return err
	}
	if !made {
		return setupFailed(label + ": the image cannot make a virtual environment: it needs uv, or python3 with the module venv")
	}
	return i.pythonPackages(ctx, label, path.Join(venv, "bin", "python"), block.EnvPackages)
}

// pythonPackages installs with uv, else with pip, which an image may have only
// as a wheel of ensurepip.
func (i *installer) pythonPackages(ctx context.Context, label, python string, packages []string) error {
	uv, err := i.has(ctx, "uv", "--version")
	if err != nil {
		return err
	}
	if uv {
		return i.install(ctx, label, append([]string{"uv", "pip", "install", "--quiet", "--python", python, "--"}, packages...))
	}
	pip, err := i.has(ctx, python, "-m", "pip", "--version")
	if err == nil && !pip {
		err = i.install(ctx, label, []string{python, "-m", "ensurepip"})
	}
	if err != nil {
		return err
	}
	return i.install(ctx, label, append([]string{python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--"}, packages...))
}

// node installs packages of node.
func (i *installer) node(ctx context.Context, block *tasks.Packages) error {
	if block == nil || len(block.EnvPackages) == 0 {
		return nil
	}
	const label = "sandbox.node"
	bun, err := i.has(ctx, "bun", "--version")
	if err != nil {
		return err
	}
	argv := []string{"npm", "install", "--no-audit", "--no-fund", "--"}
	if bun {
		argv = []string{"bun", "add", "--"}
	}
	return i.install(ctx, label, append(argv, block.EnvPackages...))
}

// has tells whether a program of the cell works.
func (i *installer) has(ctx context.Context, argv ...string) (bool, error) {
	return i.first(ctx, "set-up", [][]string{argv})
}

// first runs programs in turn until one succeeds.
func (i *installer) first(ctx context.Context, label string, programs [][]string) (bool, error) {
	for _, argv := range programs {
		exit, err := i.run(ctx, order{label: label, argv: argv, timeout: installTimeout})
		switch {
		case errors.Is(err, isolation.ErrNoProgram):
		case err != nil:
			return false, err
		case exit.Code == 0 && !exit.TimedOut:
			return true, nil
		}
	}
	return false, nil
}
