package isolation

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"

	"podgrade/isolation/worker"
)

// What an execute cell of the Podman engine leaves is in its container, which is
// held until the cell is closed.

// podmanUpper is the upper directory of the cell's container, "" where its
// storage driver has none, or keeps it in a way of its own.
func (c *cell) podmanUpper(ctx context.Context) string {
	if !c.order.Create {
		return "" // nothing of it is kept
	}
	return c.containersUpper(ctx)
}

// containersUpper is it for a cell of either phase.
func (c *cell) containersUpper(ctx context.Context) string {
	if c.order.Image.Driver != overlayDriver {
		return ""
	}
	said, err := c.host.podmanSays(ctx, "container", "inspect", "--format", "{{json .GraphDriver}}", c.container)
	var driver struct {
		Name string
		Data map[string]string
	}
	if err != nil || json.Unmarshal([]byte(said), &driver) != nil || driver.Name != overlayDriver || !filepath.IsAbs(driver.Data["UpperDir"]) {
		return ""
	}
	return driver.Data["UpperDir"]
}

// mountContainer lets Podman mount the root of the cell's ended container;
// of another engine's cell the worker has it.
func (c *cell) mountContainer(ctx context.Context) (dir string, release func() error, err error) {
	if c.made.Engine != EnginePodman {
		return "", func() error { return nil }, nil
	}
	if c.container == "" {
		return "", nil, errors.New("its container was removed")
	}
	if _, err := c.host.podmanSays(ctx, "container", "wait", c.container); err != nil {
		return "", nil, err
	}
	return c.mounted(ctx)
}

// applyState puts the state layer of a grade into the container, which was not
// started: Podman's store knows nothing of such layers. Nothing but the row's
// own container has it.
func (c *cell) applyState(ctx context.Context) error {
	if c.order.State == "" {
		return nil
	}
	dir, release, err := c.mounted(ctx)
	if err != nil {
		return err
	}
	_, err = c.host.worker.do(ctx, worker.Request{
		Op: worker.OpApply, Mounted: dir, Root: &worker.Root{State: c.host.stateDir(c.order.State)}, Etc: worker.EtcDir(c.host.run.dir, c.name),
	})
	return errors.Join(err, release())
}

func (c *cell) mounted(ctx context.Context) (dir string, release func() error, err error) {
	dir, err = c.host.podmanSays(ctx, "container", "mount", c.container)
	release = func() error {
		_, err := c.host.podmanSays(context.WithoutCancel(ctx), "container", "unmount", c.container)
		return err
	}
	return dir, release, err
}
