package regrade

import (
	"context"
	"fmt"

	"podgrade/isolation"
	"podgrade/policy"
	"podgrade/tasks/criteria"
)

// lookForRoom remembers a full disk, when a command of the cell has failed: it may
// have failed for that. It need not be full any more when the last criterion has
// been asked.
func (p *place) lookForRoom(ctx context.Context, cell isolation.Cell) error {
	p.mu.Lock()
	known := p.room
	p.mu.Unlock()
	if known.Full && !known.Own {
		return nil
	}
	room, err := cell.Room(ctx)
	if err != nil || !room.Full {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// Another command may have looked meanwhile, and found that it is somebody else's.
	if !p.room.Full || p.room.Own {
		p.room = room
	}
	return nil
}

// hadRoom refuses results that a full disk may have had a hand in: it is not the
// agent's, and no score may be lost to it (design: promise 13). A disk that the
// row's own commands have filled is.
func (g *grading) hadRoom(ctx context.Context, spot *place, results []criteria.Result) error {
	failed := firstFailed(results)
	if failed < 0 {
		return nil
	}
	cell, _, err := spot.current(ctx)
	if err == nil {
		err = spot.lookForRoom(ctx, cell)
	}
	if err != nil {
		return err
	}
	switch room := spot.room; {
	case room.Full && room.Own:
		g.logs.Note("podgrade", "the disk of "+policy.Neutral(room.Disk)+" is full with what the row's own commands wrote")
	case room.Full:
		return &Error{Kind: Infrastructure, Tried: "check", On: g.row.Dir,
			Why: fmt.Errorf("%w: that of %s was full while the criteria were asked, and criterion %d did not pass", isolation.ErrNoSpace, room.Disk, failed+1),
			Do:  "free some space on it, or choose another disk with --scratch, and grade the row again: it is as it was"}
	}
	return nil
}

// firstFailed is the first result that lost a point; -1: none.
func firstFailed(results []criteria.Result) int {
	for i, result := range results {
		if result.Score < 1 || !result.Passed() {
			return i
		}
	}
	return -1
}
