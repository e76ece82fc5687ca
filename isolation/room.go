package isolation

import (
	"context"
	"path/filepath"
	"strings"

	"podgrade/isolation/worker"
)

// Room implements Cell.
func (c *cell) Room(ctx context.Context) (Room, error) {
	room, err := c.roomLeft(ctx, "")
	if err == nil && room.Full && !room.Own && c.made.Engine == EnginePodman {
		// Only Podman knows where its container's own files are, and it takes
		// longer to ask than all the rest.
		if upper := c.containersUpper(ctx); upper != "" {
			room, err = c.roomLeft(ctx, upper)
		}
	}
	if err != nil {
		return Room{}, &Fault{Tried: "look for room on the disks", On: "of " + c.order.Workspace, Why: c.host.workerFault(err)}
	}
	return room, nil
}

func (c *cell) roomLeft(ctx context.Context, upper string) (Room, error) {
	dir, err := openPath(c.order.Workspace)
	if err != nil {
		return Room{}, err
	}
	defer dir.Close()
	ctx, cancel := context.WithTimeout(ctx, changesGrace)
	defer cancel()
	reply, err := c.host.worker.do(ctx, worker.Request{Op: worker.OpRoom, Cell: c.name, Upper: upper}, dir)
	if err != nil || reply.Room == nil {
		return Room{}, err
	}
	room := *reply.Room
	if strings.HasPrefix(room.Disk, c.host.run.dir+"/") {
		room.Disk = filepath.Dir(c.host.run.dir) // what the operator knows it by
	}
	return room, nil
}
