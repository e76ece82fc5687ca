package regrade

import (
	"context"
	"errors"
	"path"
	"time"

	"podgrade/isolation"
	"podgrade/tasks/criteria"
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
		{"python3", "-m", "venv", "--system-site-packages", venv},
		// Without the module ensurepip, which Debian keeps apart.
		{"python3", "-m", "venv", "--system-site-packages", "--without-pip", venv},
	})
	if err != nil || len(block.EnvPackages) == 0 {
		return err
	}
	if !made {
		return setupFailed(label + ": the image cannot make a virtual environment: it needs uv, or python3 with the module venv")
	}
	python := path.Join(venv, "bin", "python")
	return e.installWith(ctx, label, block.EnvPackages, [][]string{
		{"uv", "pip", "install", "--quiet", "--python", python, "--"},
		{python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--"},
	})
}

// node installs packages of node.
func (e *execution) node(ctx context.Context) error {
	block := e.accepted.Setup().Node
	if block == nil || len(block.EnvPackages) == 0 {
		return nil
	}
	return e.installWith(ctx, "sandbox.node", block.EnvPackages, [][]string{
		{"bun", "add", "--"},
		{"npm", "install", "--no-audit", "--no-fund", "--"},
	})
}

// installWith installs packages with the first program that the image has.
func (e *execution) installWith(ctx context.Context, label string, packages []string, programs [][]string) error {
	for i, argv := range programs {
		if found, err := e.has(ctx, argv[0]); err != nil {
			return err
		} else if !found && i < len(programs)-1 {
			continue
		}
		return e.install(ctx, label, append(argv, packages...))
	}
	return nil
}

// has tells whether the cell has a program.
func (e *execution) has(ctx context.Context, program string) (bool, error) {
	_, err := e.run(ctx, order{label: "set-up", argv: []string{program, "--version"}, timeout: time.Minute, quiet: true})
	if errors.Is(err, isolation.ErrNoProgram) {
		return false, nil
	}
	return err == nil, err
}

// first runs programs in turn until one succeeds.
func (e *execution) first(ctx context.Context, label string, programs [][]string) (bool, error) {
	for _, argv := range programs {
		var exit criteria.Exit
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
