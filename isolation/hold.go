package isolation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

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
	owner, err := processIdentity()
	if err != nil {
		return nil, &Fault{Tried: "hold the image", On: image.Pin.String(), Why: err}
	}
	out, said, code, err := h.runPodman(ctx, "create", "--pull=never", "--network=none", "--label", labelHolder+"="+owner, "--entrypoint", `["/podgrade-holder"]`, "--", image.Pin.ID)
	if err != nil {
		return nil, err
	}
	if code != 0 {
		return nil, &Fault{Tried: "hold the image", On: image.Pin.String(), Why: errors.New("podman said: " + said)}
	}
	id := strings.TrimSpace(string(out))
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_, said, code, err := h.runPodman(ctx, "rm", "--force", "--", id)
		if err == nil && code != 0 {
			err = errors.New("podman said: " + said)
		}
		if err != nil {
			return &Fault{Tried: "remove the holder of the image", On: image.Pin.String(), Why: err, Do: "podman rm " + id}
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
