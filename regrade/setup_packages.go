package regrade

import (
	"context"
	"errors"
	"path"

	"podgrade/isolation"
)

// Directories of the workspace that packages go to.
const (
	venvDir = ".venv"
	nodeDir = "node_modules"
)

// python makes the virtual environment, which a task gets unless it says
// `python: null`, and installs the packages. An image without python3 is only
// in the way of a task that names packages.
func (e *execution) python(ctx context.Context) error {
	block := e.accepted.Setup().Python
	if block == nil {
		return nil
	}
	const label = "sandbox.python"
	venv := path.Join(e.root(), venvDir)
	made, err := e.first(ctx, label, [][]string{
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
	return e.pythonPackages(ctx, label, path.Join(venv, "bin", "python"), block.EnvPackages)
}

// pythonPackages installs with uv, else with pip, which an image may have only
// as a wheel of ensurepip.
func (e *execution) pythonPackages(ctx context.Context, label, python string, packages []string) error {
	uv, err := e.has(ctx, "uv", "--version")
	if err != nil {
		return err
	}
	if uv {
		return e.install(ctx, label, append([]string{"uv", "pip", "install", "--quiet", "--python", python, "--"}, packages...))
	}
	pip, err := e.has(ctx, python, "-m", "pip", "--version")
	if err == nil && !pip {
		err = e.install(ctx, label, []string{python, "-m", "ensurepip"})
	}
	if err != nil {
		return err
	}
	return e.install(ctx, label, append([]string{python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--"}, packages...))
}

// node installs packages of node.
func (e *execution) node(ctx context.Context) error {
	block := e.accepted.Setup().Node
	if block == nil || len(block.EnvPackages) == 0 {
		return nil
	}
	const label = "sandbox.node"
	bun, err := e.has(ctx, "bun", "--version")
	if err != nil {
		return err
	}
	argv := []string{"npm", "install", "--no-audit", "--no-fund", "--"}
	if bun {
		argv = []string{"bun", "add", "--"}
	}
	return e.install(ctx, label, append(argv, block.EnvPackages...))
}

// has tells whether a program of the cell works.
func (e *execution) has(ctx context.Context, argv ...string) (bool, error) {
	return e.first(ctx, "set-up", [][]string{argv})
}

// first runs programs in turn until one succeeds.
func (e *execution) first(ctx context.Context, label string, programs [][]string) (bool, error) {
	for _, argv := range programs {
		exit, err := e.run(ctx, order{label: label, argv: argv, timeout: installTimeout})
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
