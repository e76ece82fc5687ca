package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"podgrade/isolation/states"
	"podgrade/isolation/tree"
)

// keepBefore makes a state layer of what an execute cell has changed so far,
// before its agent starts. The cell goes on working in its upper directory, so
// the layer is a copy of that, made while every process of the cell but its
// first stands still. Nothing is kept when nothing changed.
func (s *server) keepBefore(ctx context.Context, c *cell, r Request, answer *Reply) error {
	upper := c.upperDir()
	if !c.create || upper == "" || c.marks == nil {
		return fmt.Errorf("cell %s has no state to keep: it is no execute cell, or was not measured", c.name)
	}
	if !c.mounted {
		if r.Root == nil {
			return errors.New("nothing is said of what is below the state layer")
		}
		if err := c.holdLayers(ctx, *r.Root); err != nil {
			return err
		}
	}
	dir := filepath.Join(c.dir, "before")
	for _, made := range []string{dir, states.LayerDir(dir)} {
		if err := os.Mkdir(made, 0o700); err != nil {
			return fmt.Errorf("make the state layer: %w", err)
		}
	}
	marks, lost, err := c.copyUpper(ctx, upper, states.LayerDir(dir), r.Hosts)
	if err != nil {
		return treeFault("keep what changed before the agent started", err)
	}
	made, err := c.canonical(ctx, states.LayerDir(dir), marks, r)
	if err != nil {
		return treeFault("keep what changed before the agent started", err)
	}
	made.HostsLost = lost
	answer.State = made
	if made.DiffID == "" {
		return s.trash.throw(dir)
	}
	return s.store(ctx, dir, made)
}

// copyUpper copies the upper directory of a living cell, with its /etc/hosts
// (carryHosts), and returns the marks of the copy.
func (c *cell) copyUpper(ctx context.Context, upper, to, hosts string) (marks tree.Marks, lost bool, err error) {
	src, err := openDirectory(upper)
	if err != nil {
		return nil, false, err
	}
	defer unix.Close(src)
	dst, err := openDirectory(to)
	if err != nil {
		return nil, false, err
	}
	defer unix.Close(dst)
	goOn, err := c.standStill(ctx)
	if err != nil {
		return nil, false, err
	}
	defer goOn()
	if _, err := tree.Copy(ctx, src, dst, tree.Options{}); err != nil {
		return nil, false, err
	}
	if marks, err = c.marks.Carried(ctx, src, dst); err != nil {
		return nil, false, err
	}
	lost, err = c.carryHosts(ctx, dst, hosts)
	return marks, lost, err
}
