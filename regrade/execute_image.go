package regrade

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"podgrade/isolation"
	"podgrade/policy"
	"podgrade/tasks/record"
)

// findImage finds the image of the agent's cell, which the record pins, or
// builds it.
func (e *execution) findImage(ctx context.Context) error {
	if e.accepted.Place() == policy.OnHost {
		return nil
	}
	if e.accepted.Setup().Dockerfile != "" {
		return e.steps.build(e, ctx)
	}
	fetching := ctx
	if limit := e.accepted.Setup().Timeouts.Pull; limit > 0 {
		var cancel context.CancelFunc
		fetching, cancel = context.WithTimeout(ctx, time.Duration(limit)*time.Second)
		defer cancel()
	}
	var err error
	if e.image, err = plannedImage(fetching, e.engines, e.accepted); err != nil {
		return err
	}
	if err := checkImage(e.accepted, e.image); err != nil {
		return err
	}
	return runsHere(e.image.Pin)
}

// buildTimeout bounds a build that the task sets no limit for.
const buildTimeout = 30 * time.Minute

// build builds the task's image. What the build says is in the log of the
// cell, and the row is BUILD_FAILED when that fails, and not this host.
func (e *execution) build(ctx context.Context) error {
	setup := e.accepted.Setup()
	limit := buildTimeout
	if asked := setup.Timeouts.Build; asked > 0 {
		limit = time.Duration(asked) * time.Second
	}
	building, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	order := isolation.BuildOrder{
		Containerfile: setup.Dockerfile, ContextDir: filepath.Dir(setup.Dockerfile), Reference: builtName(e.task.TaskID),
		Args: map[string]string{}, Output: e.logs.cell,
	}
	without := e.hidden()
	order.Exclude = without.in(order.ContextDir)
	for name, value := range setup.Build.Args {
		order.Args[name] = os.Expand(value, e.variable)
	}
	if len(setup.Build.Secrets) > 0 || len(setup.Build.ExtraArgs) > 0 {
		return &Error{Kind: Refused, Tried: "build", On: setup.Dockerfile, Why: errors.New("build.secrets and build.extra_args are for docker build, and this release has neither"),
			Do: "build the image beforehand and name it as docker.image"}
	}
	var err error
	e.context, err = treeDigest(order.ContextDir, nil, without)
	switch {
	case errors.Is(err, fs.ErrPermission): // Podman, which reads all of it, would not say what
		return buildFailed(setup.Dockerfile, fmt.Errorf("its directory cannot be read: %w", err))
	case err != nil:
		e.warn("the record holds no digest of the build's directory: " + err.Error())
	}
	pin, err := e.engines.Build(building, order)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case building.Err() != nil:
		return buildFailed(setup.Dockerfile, fmt.Errorf("it had not ended after %v", limit))
	case errors.Is(err, isolation.ErrBuild):
		return buildFailed(setup.Dockerfile, err)
	case err != nil:
		return err // the host could not build, and the row can be run again
	}
	if e.image, err = e.engines.ImageByPin(ctx, pin); err != nil {
		return err
	}
	return runsHere(e.image.Pin)
}

func buildFailed(file string, why error) error {
	return &broken{record.BuildFailed, record.CategoryBuild, record.ComponentSetup, "build " + file + ": " + why.Error()}
}

// variable is what a build argument finds in the caller's environment; one
// that is not set stays as it is written.
func (e *execution) variable(name string) string {
	if value, ok := e.options.Lookup(name); ok {
		return value
	}
	return "${" + name + "}"
}

// builtName is the name of a task's built image, as upstream gives it: the same
// each time, so that layers are used again. The record pins the image itself.
func builtName(id string) string {
	plain := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.', r == '-', r == '_':
			return r
		}
		return '_'
	}, strings.ToLower(id))
	return "localhost/coder-eval-task-" + strings.Trim(plain, "._-") + ":built"
}

// origin says where the image of the cell came from, for people: a grade goes by
// the pin.
func (e *execution) origin() string {
	if file := e.accepted.Setup().Dockerfile; file != "" {
		return file
	}
	for _, name := range e.image.Digests {
		if registry, _, _ := strings.Cut(name, "/"); strings.Contains(registry, ".") {
			return name
		}
	}
	return record.OriginLocal
}
