package regrade

import (
	"context"
	"errors"
	"fmt"

	"podgrade/tasks/criteria"
)

// check runs the criteria.
func (g *grading) check(ctx context.Context, spot *place) ([]criteria.Result, error) {
	trajectory, err := trajectoryOf(g.record)
	if err != nil {
		return nil, &Error{Kind: TaskFault, Tried: "read the trajectory of", On: g.row.Dir, Why: err, Do: "execute the row again"}
	}
	where := criteria.Surroundings{
		Cell:            spot,
		Workspace:       spot.places.Workspace,
		Trajectory:      trajectory,
		Calls:           spot.calls,
		NetworkWithheld: g.networkWithheld(),
		Sink:            g.logs,
		TakenAway:       spot.takenAway,
		Ignore:          criteria.IgnorePatterns(g.task.Sandbox.IgnorePatterns),
		RegexTimeout:    g.options.SearchTimeout,
	}
	if g.accepted.TaskDir() != "" {
		where.TaskDir = spot.taskDir()
	}
	if g.accepted.Reference() != "" {
		where.Reference, where.ReferencePath = spot.reference(), spot.places.Reference
	}
	results, err := criteria.Check(ctx, g.accepted.Criteria(), where)
	if err == nil {
		return results, g.hadRoom(ctx, spot, results)
	}
	return nil, g.checkError(err)
}

// checkError gives an error of a criterion the parts that every error has. What
// names the criterion is text of the record, so it must not become a line of
// its own.
func (g *grading) checkError(err error) error {
	var author *criteria.AuthorError
	var lost *criteria.InfrastructureError
	switch {
	case errors.As(err, &author):
		return &Error{Kind: TaskFault, Tried: "check", On: author.Error(), Do: correctTask(g.row.Dir)}
	case errors.As(err, &lost):
		on := fmt.Sprintf("criterion %d (%s: %s)", lost.Index+1, lost.Type, lost.Description)
		return &Error{Kind: KindOf(lost.Err), Tried: "check", On: on, Why: lost.Err, Do: "the row is as it was, and can be graded again"}
	}
	return err
}
