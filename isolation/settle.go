package isolation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"podgrade/isolation/worker"
	"podgrade/oci"
)

// Settle says what is taken of an execute cell.
type Settle struct {
	// Capture is an existing empty directory of the caller's, which gets the tree
	// at Order.WorkingDir; "" where the order has none.
	Capture string
	// Ignore are patterns (path.Match) of base names that the capture leaves
	// out, at every level.
	Ignore []string
	// KeepState keeps what changed outside of the workspace as a state layer.
	KeepState bool
	// LookState, without KeepState, says what such a layer would be.
	LookState bool
}

// Settled is what an execute cell left.
type Settled struct {
	// Digest, Times, Entries and Bytes are of the workspace, as the view of a grade
	// says them of the same tree.
	Digest  string
	Times   string // "": its file system need not keep the times of files
	Entries int
	Bytes   int64
	// OtherOwners are entries of the workspace that belong neither to the
	// image's user nor now to the caller, or that belonged to the caller (the
	// image's root) before; at most tree.MaxHazards of them.
	OtherOwners     []string
	MoreOtherOwners int // beyond the cap
	Excluded        int // entries that the capture left out
	State           StateLayer
}

// StateLayer is what changed in a cell outside of its workspace.
type StateLayer struct {
	DiffID  string   // sha256:...; "" when nothing changed
	Bytes   int64    // of regular files
	Changed []string // absolute paths, of directories only those that hold nothing
	Deleted []string // absolute paths of what the image has
	More    int      // paths beyond the cap of these
	// Replaced are those of them that bend a program of the image, capped.
	Replaced []string
	// NotCarried are changes that no state layer holds, capped: the absolute path
	// and what is there.
	NotCarried []string
	// Problem is why nothing could be kept although it was asked for, "" when
	// nothing had to be.
	Problem string
}

// Settle implements Cell.
func (c *cell) Settle(ctx context.Context, s Settle) (Settled, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.order.Create || c.settled || c.isClosed() {
		return Settled{}, &Fault{Tried: "settle the cell", Why: errors.New("it is no execute cell, or it was settled or closed before")}
	}
	if (c.order.WorkingDir != "") != (s.Capture != "") {
		return Settled{}, &Fault{Tried: "settle the cell", Why: errors.New("a capture is for a cell with a working directory, and for none else")}
	}
	c.end(false, true)
	c.closed, c.settled = true, true
	excluded, err := c.capture(ctx, s)
	if err != nil {
		return Settled{}, err
	}
	settled, err := c.takeBackLent(ctx)
	settled.Excluded = excluded
	if err == nil && (s.KeepState || s.LookState) {
		settled.State, err = c.keepState(ctx, worker.Request{Op: worker.OpKeep, Look: !s.KeepState})
	}
	return settled, err
}

// KeepBefore implements Cell.
func (c *cell) KeepBefore(ctx context.Context) (StateLayer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.order.Create || c.closed {
		return StateLayer{}, &Fault{Tried: "keep what changed before the agent started", Why: errors.New("it is no execute cell, or it was closed")}
	}
	return c.keepState(ctx, worker.Request{Op: worker.OpBefore})
}

// isClosed tells whether the cell was closed, not only lost.
func (c *cell) isClosed() bool {
	c.host.mu.Lock()
	defer c.host.mu.Unlock()
	return !c.host.open[c]
}

// keepState keeps what changed outside of the workspace, as r says.
func (c *cell) keepState(ctx context.Context, r worker.Request) (StateLayer, error) {
	if problem := c.stateProblem(); problem != "" {
		return StateLayer{Problem: problem}, nil
	}
	pin := c.order.Image.Pin
	r.Hosts = c.etcContent()[hostsFile]
	r.Cell, r.Pin, r.SearchPath, r.Root = c.name, pin.String(), c.order.Image.searchPath(), &worker.Root{Layers: c.order.Image.Layers}
	reply, err := c.host.worker.do(ctx, r)
	var failed *workerError
	if errors.As(err, &failed) && failed.cause.Workspace {
		return StateLayer{Problem: failed.Error()}, nil // no fault of the host's
	}
	if err != nil {
		return StateLayer{}, stateFault(pin, c.host.workerFault(err))
	}
	if reply.State == nil {
		return StateLayer{}, stateFault(pin, errors.New("the worker's answer says nothing"))
	}
	if made := reply.State; made.DiffID != "" && !r.Look && c.order.Row != "" {
		if err := c.host.NoteState(made.DiffID, c.order.Row); err != nil {
			return StateLayer{}, stateFault(pin, err)
		}
	}
	return c.stateLayer(reply.State), nil
}

func (c *cell) stateLayer(made *worker.StateMade) StateLayer {
	s := StateLayer{
		DiffID: made.DiffID, Bytes: made.Bytes, Changed: made.Changed, Deleted: made.Deleted, More: made.More,
		Replaced: made.Replaced, NotCarried: c.etcEdits(),
	}
	if made.HostsLost {
		s.NotCarried = append([]string{"/etc/hosts: it is too large, or /etc is no directory"}, s.NotCarried...)
	}
	for _, socket := range made.Pruned.Sockets {
		s.NotCarried = append(s.NotCarried, socket+": a socket, whose process is gone")
	}
	if more := made.Pruned.More; more > 0 {
		s.NotCarried = append(s.NotCarried, fmt.Sprintf("and %d sockets more", more))
	}
	return s
}

// etcEdits names the files of /etc that a cell has of ours and that were written
// to: a grade's cell has its own, but for hosts, which the layer carries.
func (c *cell) etcEdits() (edited []string) {
	for name, content := range c.etcContent() {
		if name == hostsFile {
			continue
		}
		text, err := readHead(filepath.Join(worker.EtcDir(c.host.run.dir, c.name), name), len(content)+1)
		if err != nil || string(text) != content {
			edited = append(edited, "/etc/"+name+": every cell has its own")
		}
	}
	slices.Sort(edited)
	return edited
}

// readHead reads the first bytes of a file that somebody else can write to.
func readHead(path string, most int) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, int64(most)))
}

// stateProblem says why nothing of the cell can be kept.
func (c *cell) stateProblem() string {
	switch {
	case c.made.Engine == EngineHost:
		return "without a container there is nothing to keep but the workspace"
	case c.made.Engine == EnginePodman && c.order.Image.Driver != overlayDriver:
		return fmt.Sprintf("the storage driver of Podman is %s, and a state layer is kept of %s alone", c.order.Image.Driver, overlayDriver)
	case c.made.Engine == EnginePodman && c.container == "":
		return "the container was removed"
	}
	return ""
}

func stateFault(pin oci.Pin, err error) error {
	return &Fault{Tried: "keep what changed outside of the workspace", On: "of " + pin.String(), Why: err, Do: "check that there is space in the scratch directory"}
}

// takeBackLent takes the lent workspace back, once.
func (c *cell) takeBackLent(ctx context.Context) (Settled, error) {
	reply, err := c.host.takeBack(ctx, c.lent)
	if err != nil {
		return Settled{}, err
	}
	c.lent = nil
	settled := Settled{}
	if t := reply.Tree; t != nil {
		settled.Digest, settled.Times, settled.Entries, settled.Bytes = t.Digest, t.Times, t.Entries, t.Bytes
	}
	if r := reply.Returned; r != nil {
		settled.OtherOwners, settled.MoreOtherOwners = r.Others, r.More
	}
	return settled, nil
}
