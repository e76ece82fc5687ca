package regrade

import (
	"context"
	"errors"
	"time"

	"podgrade/isolation"
	"podgrade/policy"
	"podgrade/tasks"
	"podgrade/tasks/record"
)

// Live is what the criteria of a row with `grade: live` found in the agent's own
// cell, before that was closed (design: promise 2).
type Live struct {
	found  *seen
	err    error // why they could not be asked
	logs   *logs // of the grade
	sealed bool  // the cell lacked the network that the task has by default
	began  time.Time
	took   time.Duration
}

// took is how long the criteria of a live grade took.
func (o Options) took() time.Duration {
	if o.Live == nil {
		return 0
	}
	return o.Live.took
}

// Drop ends a live grade that nobody goes on with.
func (l *Live) Drop() {
	if l != nil && l.logs != nil {
		l.logs.close(false, func(string) {})
	}
}

// viewLive is how a live grade sees the workspace: it is the agent's own.
const viewLive = tasks.GradeLive

// gradesLive tells whether the criteria are asked in the agent's cell.
func (e *execution) gradesLive() bool {
	sandbox := e.task.Sandbox
	return e.options.Grading != nil && e.accepted.Place() == policy.InCell && sandbox.Driver != tasks.DriverTempdir &&
		sandbox.Podman != nil && sandbox.Podman.Grade == tasks.GradeLive
}

// askLive asks the criteria in the agent's cell. What keeps them from being asked
// is the grade's to say; a cell that is lost is lost for what follows too.
func (e *execution) askLive(ctx context.Context) {
	live := &Live{logs: openLogs(e.row, e.warn), sealed: e.sealed(), began: time.Now()}
	e.liveGrade = live
	live.found, live.err = e.foundLive(ctx, live)
	live.took = time.Since(live.began)
}

func (e *execution) foundLive(ctx context.Context, live *Live) (*seen, error) {
	g, err := e.liveGrading(live)
	if err != nil {
		return nil, err
	}
	if dir := g.accepted.TaskDir(); dir != "" {
		if err := e.putTaskDir(ctx, dir, "the live grade"); err != nil {
			return nil, err
		}
	}
	spot := &place{
		accepted: g.accepted, whole: g.logs.whole, image: e.image,
		around: surroundings{task: g.task, accepted: g.accepted, lookup: g.options.Lookup, recorded: e.agentPath},
		open:   func(context.Context) (isolation.Cell, error) { return liveCell{e.cell}, nil },
	}
	spot.calls = g.readCalls(ctx, e.cell, e.recorders.keep())
	found := &seen{spot: spot}
	if _, _, err = spot.current(ctx); err == nil {
		began := time.Now()
		found.results, err = g.check(ctx, spot)
		found.grading = time.Since(began)
	}
	spot.drop()
	return found, errors.Join(err, e.emptyTaskDir(ctx))
}

// liveGrading is a grade of the record as it stands now, without what is only
// known when the cell is closed.
func (e *execution) liveGrading(live *Live) (*grading, error) {
	e.name()
	e.facts.Status = record.NotGraded
	e.environment()
	made, err := record.New(e.facts)
	if err != nil {
		return nil, err
	}
	g := &grading{row: e.row, options: *e.options.Grading, record: made, logs: live.logs, began: time.Now()}
	g.options.Live = live
	if g.task, err = g.taskOf(); err == nil {
		err = authorErrors(e.row.Dir, g.task)
	}
	if err == nil {
		err = g.consent()
	}
	return g, err
}

// liveCell is the agent's cell as its grade sees it: the execute phase closes it.
type liveCell struct{ isolation.Cell }

// Close does nothing.
func (liveCell) Close() error { return nil }

// Made says that the workspace is the agent's own.
func (c liveCell) Made() isolation.Made {
	made := c.Cell.Made()
	made.View = isolation.View{Kind: viewLive, Reason: "graded in the agent's own cell, as its task asks"}
	return made
}
