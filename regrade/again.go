package regrade

import (
	"context"
	"fmt"
	"time"

	"podgrade/isolation"
	"podgrade/tasks/criteria"
)

// seen is what the criteria found in one place.
type seen struct {
	spot     *place
	unpinned string // the reference that was looked up, when nothing is pinned
	results  []criteria.Result
	grading  time.Duration // of the criteria
}

// ask opens a place with a view of the workspace and asks the criteria. The
// place is open afterwards, unless there is an error.
func (g *grading) ask(ctx context.Context, engines GradeEngines, view string) (*seen, error) {
	spot, unpinned, err := g.place(ctx, engines, view)
	if err != nil {
		return nil, err
	}
	if view == isolation.ViewBind {
		g.warn("--workspace-view bind: the commands of this grade change the workspace itself, " + g.workspace + "; no later grade sees it as it was")
	}
	s := &seen{spot: spot, unpinned: unpinned}
	if _, _, err = spot.current(ctx); err == nil {
		opened := time.Now()
		s.results, err = g.check(ctx, spot)
		s.grading = time.Since(opened)
	}
	if err != nil {
		spot.drop()
		return nil, err
	}
	return s, nil
}

// doubt says why what was seen may come from the view rather than from the
// workspace; "": it does not. An overlay refuses to rename a directory of the
// lower layer, for one, so no criterion may lose a point there.
func (s *seen) doubt() string {
	if s.spot.made.View.Kind != isolation.ViewOverlay {
		return ""
	}
	if i := firstFailed(s.results); i >= 0 {
		return fmt.Sprintf("criterion %d scored %.3f under an overlay, which may be the overlay's doing", i+1, s.results[i].Score)
	}
	return ""
}

// askAgain closes the place and asks in a new one, on a copy of the workspace:
// what is found there counts.
func (g *grading) askAgain(ctx context.Context, engines GradeEngines, first *seen, reason string) (*seen, error) {
	g.logs.Note("podgrade", reason+": the row is graded again under a copy")
	if err := first.spot.finish(ctx); err != nil {
		return nil, err
	}
	again, err := g.ask(ctx, engines, isolation.ViewCopy)
	if err != nil {
		return nil, err
	}
	again.spot.made.View.Reason = reason + ": graded again under a copy"
	return again, nil
}
