package isolation

import (
	"context"
	"errors"
	"io"
	"os"

	"podgrade/isolation/tree"
	"podgrade/isolation/worker"
)

// RemoveTree removes everything in the directory dir, whoever of this user's
// ids owns it, and follows no link. dir itself stays. What is mounted below it would be
// emptied too: see hostfacts.MountPoints. A tree that holds files
// of subordinate ids is removed in podgrade's user namespace; any other needs
// neither a worker nor Podman.
func RemoveTree(ctx context.Context, o Options, dir *os.File) error {
	if err := tree.Empty(int(dir.Fd())); err == nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return removeInside(ctx, o, dir)
}

// RemoveTree removes everything in the directory dir, as the function of this
// name does, with the worker that is there already. It waits until the workspaces
// of dead podgrades are given back: dir may be one, and what is made in its
// place may get its inode.
func (h *Host) RemoveTree(ctx context.Context, dir *os.File) error {
	select {
	case <-h.swept:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := tree.Empty(int(dir.Fd())); err == nil {
		return nil
	}
	return h.removeTree(ctx, dir)
}

func removeInside(ctx context.Context, o Options, dir *os.File) error {
	return inside(ctx, o, func(h *Host) error { return h.removeTree(ctx, dir) })
}

// releaseInside is states.Release in podgrade's user namespace.
func releaseInside(ctx context.Context, o Options, dir string) error {
	return inside(ctx, o, func(h *Host) error { return h.stage(ctx, nil, worker.StageRelease, dir) })
}

// inside calls f with a worker that is started for that alone.
func inside(ctx context.Context, o Options, f func(h *Host) error) (err error) {
	if o, err = o.withDefaults(); err != nil {
		return err
	}
	h, err := trialHost(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.leave()) }()
	return f(h)
}

// stage runs a stage of the worker that says nothing unless it fails.
func (h *Host) stage(ctx context.Context, dir *os.File, stage string, args ...string) error {
	said := &tail{max: 4 << 10}
	code, err := h.execInside(ctx, h.workerArgs(stage, args...), hostEnv(), dir, io.Discard, said)
	if err == nil && code != 0 {
		err = errors.New(said.String())
	}
	return err
}

func (h *Host) removeTree(ctx context.Context, dir *os.File) error {
	if err := h.stage(ctx, dir, worker.StageRemove); err != nil {
		return &Fault{Tried: "remove what is in", On: dir.Name(), Why: err, Do: "remove it as the user who owns it"}
	}
	return nil
}
