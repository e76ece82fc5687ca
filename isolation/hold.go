package isolation

import (
	"context"
	"fmt"
	"path/filepath"

	"podgrade/isolation/process"
	"podgrade/isolation/worker"
)

// Labels of a holder: who made it, so that a later podgrade can tell a dead
// one's.
const (
	labelHolder = "podgrade.holder" // value: pid:start time:boot id
)

// Hold keeps an image from being pruned while several rows are graded: it
// creates a container that is never started. It costs 130 ms, so a grade of
// one row does without. A holder stops `image prune`, not `rmi -f`: see
// CheckImage.
func (h *Host) Hold(ctx context.Context, image Image) (release func() error, err error) {
	name := fmt.Sprintf("podgrade-%s-holder-%d", filepath.Base(h.run.dir), h.holders.Add(1))
	owner, err := processIdentity()
	if err == nil {
		// A killed Podman can leave one that has no label yet, and no other list has.
		err = h.noteContainer(name)
	}
	if err == nil {
		_, err = h.podmanSays(ctx, "create", "--name", name, "--pull=never", "--network=none", "--label", labelHolder+"="+owner, "--entrypoint", `["/podgrade-holder"]`, "--", image.Pin.ID)
	}
	if err != nil {
		return nil, &Fault{Tried: "hold the image", On: image.Pin.String(), Why: err, Do: "see what `podgrade doctor` says"}
	}
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), containerGrace)
		defer cancel()
		_, err := h.podmanSays(ctx, "rm", "--force", "--", name)
		if err == nil {
			err = h.strikeContainer(name)
		}
		if err != nil {
			return &Fault{Tried: "remove the holder of the image", On: image.Pin.String(), Why: err, Do: "podman rm " + name}
		}
		return nil
	}, nil
}

// processIdentity is the value of a label that says whose a container is.
func processIdentity() (string, error) {
	self, err := process.Self()
	return self.String(), err
}

// CheckImage implements Cell: a cell whose image is removed under it sees
// files vanish, and must not be judged.
func (c *cell) CheckImage(ctx context.Context) error { return c.check(ctx) }

// checkLayers tells whether the layers that the cell stands on are all still
// in Podman's store, as they were before they were mounted.
func (c *cell) checkLayers(ctx context.Context) error {
	if c.made.Engine == EngineHost {
		return nil
	}
	reply, err := c.ask(ctx, worker.Request{Op: worker.OpLayers})
	if err != nil {
		return &Fault{Tried: "check the image", On: c.order.Image.Pin.String(), Why: c.host.workerFault(err)}
	}
	if reply.Missing == "" {
		reply.Missing = c.host.privilege.missing(c)
	}
	if reply.Missing != "" {
		return &Fault{Tried: "check the image", On: c.order.Image.Pin.String(),
			Why: fmt.Errorf("%w: its layer %s was removed while the cell stood on it", ErrNoImage, reply.Missing),
			Do:  "the row is unchanged: make the image again, then grade again"}
	}
	return nil
}
