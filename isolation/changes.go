package isolation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"podgrade/isolation/tree"
	"podgrade/isolation/worker"
)

// ErrNoChanges is wrapped when nothing tells what commands changed.
var ErrNoChanges = errors.New("what commands changed is not known")

// changesGrace bounds the search for what commands changed: some 100,000 entries
// take a second.
const changesGrace = 2 * time.Minute

// Changes implements Cell.
func (c *cell) Changes(ctx context.Context, bound Bound, take func(Change, io.Reader) error) (Changed, error) {
	changed, err := c.changes(ctx, bound, take)
	var failed *workerError
	if errors.As(err, &failed) && failed.cause.Refused {
		return changed, fmt.Errorf("%w: %w", ErrNoChanges, err)
	}
	if err != nil {
		return changed, &Fault{Tried: "look at what commands changed", On: "of " + c.order.Workspace, Why: c.host.workerFault(err)}
	}
	return changed, nil
}

func (c *cell) changes(ctx context.Context, bound Bound, take func(Change, io.Reader) error) (changed Changed, err error) {
	ctx, cancel := context.WithTimeout(ctx, changesGrace)
	defer cancel()
	dir, err := openPath(c.order.Workspace)
	if err != nil {
		return changed, err
	}
	defer dir.Close()
	from, to, err := os.Pipe()
	if err != nil {
		return changed, err
	}
	defer from.Close()
	read := make(chan error, 1)
	go func() {
		err := worker.ReadChanges(from, take)
		from.Close() // a worker that writes on finds that nobody reads
		read <- err
	}()
	r := worker.Request{Op: worker.OpChanges, Cell: c.name, Changes: &bound}
	if c.order.WorkingDir != "" {
		r.Capture = &worker.Capture{Dir: c.order.WorkingDir, Owner: tree.Owner{UID: c.user.UID, GID: c.user.GID}, Ignore: c.order.Ignore}
	}
	reply, err := c.host.worker.do(ctx, r, dir, to)
	to.Close()
	if ctx.Err() != nil {
		from.Close()
	}
	if reply.Changed != nil {
		changed = *reply.Changed
	}
	// What take says comes first: for its sake the worker may have been cut off.
	return changed, errors.Join(<-read, err)
}
