package isolation

import (
	"context"
	"errors"
)

// Settle says what is taken of an execute cell.
type Settle struct {
	// Capture is an existing empty directory on the host, which gets the tree
	// at Order.WorkingDir; "": none.
	Capture string
	// Ignore are base names that the capture leaves out, at every level.
	Ignore []string
	// KeepState keeps what changed outside of the workspace as a state layer.
	KeepState bool
}

// Settled is what an execute cell left.
type Settled struct {
	// Digest, Entries and Bytes are of the workspace, as the view of a grade
	// says them of the same tree.
	Digest  string
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
	Changed []string // paths, at most maxChanged of them
	More    int      // paths beyond the cap
}

// Settle implements Cell.
func (c *cell) Settle(ctx context.Context, s Settle) (Settled, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lent == nil {
		return Settled{}, &Fault{Tried: "settle the cell", Why: errors.New("it is no execute cell, or it was settled or closed before")}
	}
	c.end(false, true)
	c.closed = true
	if err := ctx.Err(); err != nil {
		return Settled{}, err
	}
	return c.takeBackLent(ctx)
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
		settled.Digest, settled.Entries, settled.Bytes = t.Digest, t.Entries, t.Bytes
	}
	if r := reply.Returned; r != nil {
		settled.OtherOwners, settled.MoreOtherOwners = r.Others, r.More
	}
	return settled, nil
}
