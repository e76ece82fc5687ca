package regrade

import (
	"context"
	"errors"

	"podgrade/policy"
	"podgrade/tasks/criteria"
	"podgrade/tasks/record"
)

// CleanRoom is what a row came to where its agent changed nothing but the
// workspace (spec/regrade.md 4.2).
type CleanRoom struct {
	// Base is what the clean room stood on.
	Base        string
	Status      record.Status
	Score       float64
	Results     []criteria.Result
	Differences []Difference // to the verdict that counts
}

// What a clean room stands on.
const (
	CleanAsPreRun = "the image with what pre_run left"
	CleanAsImage  = "the image alone"
	CleanWithout  = "the image alone, without what pre_run did: no layer of that was kept"
	CleanAsIs     = "where the row was graded: the agent changed nothing there"
)

// DependsOnSystem tells whether the clean room came to another verdict: what the
// agent changed in the system counts.
func (v *Verdict) DependsOnSystem() bool { return v.Clean != nil && len(v.Clean.Differences) > 0 }

// Stands tells whether the row passed, also where its agent changed nothing but
// the workspace, when that was asked for.
func (v *Verdict) Stands() bool { return v.Passed() && !v.DependsOnSystem() }

// cleanRoom is a clean room with what its commands got.
type cleanRoom struct {
	CleanRoom
	replaced []string // programs of the image, by what the workspace has
	same     bool     // the row was graded in it
}

// cleanState is the state layer that the clean room stands on.
func (g *grading) cleanState() string {
	if !g.options.CleanRoom {
		return ""
	}
	return g.record.Environment.Text(record.PreRunDiffID)
}

// inCleanRoom grades the row in the clean room, where that is another place, and
// compares.
func (g *grading) inCleanRoom(ctx context.Context, engines GradeEngines, v *Verdict) (*cleanRoom, error) {
	if !g.options.CleanRoom {
		return nil, nil
	}
	if g.accepted.Place() != policy.InCell {
		return nil, &Error{Kind: Refused, Tried: "grade in a clean room", On: g.row.Dir,
			Why: errors.New("the row is graded on the host, whose system is this host's own"), Do: "leave --clean-room out"}
	}
	if g.accepted.State() == g.accepted.CleanState() {
		return &cleanRoom{CleanRoom: CleanRoom{Base: CleanAsIs, Status: v.Status, Score: v.Score, Results: v.Results}, same: true}, nil
	}
	room := *g
	room.clean = true
	room.logs.Note("podgrade", "the clean room: "+g.cleanBase())
	found, err := room.find(ctx, engines)
	if err != nil {
		return nil, err
	}
	defer found.spot.drop()
	if err := found.spot.finish(ctx); err != nil {
		return nil, err
	}
	clean, err := room.verdict(found.results)
	if err != nil {
		return nil, err
	}
	differences, err := g.compared(v, clean)
	if err != nil {
		return nil, err
	}
	return &cleanRoom{
		CleanRoom: CleanRoom{Base: g.cleanBase(), Status: clean.Status, Score: clean.Score, Results: clean.Results, Differences: differences},
		replaced:  found.spot.replaced(),
	}, nil
}

func (g *grading) cleanBase() string {
	switch {
	case g.accepted.CleanState() != "":
		return CleanAsPreRun
	case g.record.Get(record.FieldPreRunResults).Length() > 0 && g.record.Environment.Text(record.PreRunState) != record.StateUnchanged:
		return CleanWithout
	}
	return CleanAsImage
}

// compared compares the verdict that counts with that of the clean room.
func (g *grading) compared(counts, clean *Verdict) ([]Difference, error) {
	var standings [2]Standing
	for i, v := range []*Verdict{counts, clean} {
		held, err := record.Parse(g.record.Bytes())
		if err != nil {
			return nil, err
		}
		held.Status, held.Score = v.Status, &v.Score
		held.Set(record.FieldCriteriaResults, v.Results)
		standings[i] = StandingOf(held)
	}
	return Compare(counts.Row.String(), &standings[0], &standings[1]).Differences, nil
}

// fold puts what the clean room came to into the record. Tools that the agent
// replaced in the system bent nothing when the verdict is the same without them.
func (c *cleanRoom) fold(v *Verdict, info *record.Object) {
	if c == nil {
		return
	}
	v.Clean = &c.CleanRoom
	info.Set(record.CleanRoom, record.CleanRoomSame)
	if len(c.Differences) > 0 {
		info.Set(record.CleanRoom, record.CleanRoomOther)
		info.Set(record.CleanRoomStatus, string(c.Status))
		info.Set(record.CleanRoomScore, c.Score)
		return
	}
	if !c.same {
		info.Delete(record.GradedWithReplacedTools)
		setText(info, record.GradedWithReplacedTools, policy.Names(c.replaced))
	}
}
