package criteria

import (
	"fmt"

	"podgrade/tasks"
)

// commandsEfficiency compares the number of tool calls with what was expected
// (task-file 7.11). The spec does not know what counts and what happens
// without a trajectory; every call of every turn counts, since the record's
// own commands_efficiency counts so, and without a trajectory it fails as its
// sisters do.
func (j *judging) commandsEfficiency(c *tasks.CommandsEfficiency) (outcome, error) {
	if j.where.Trajectory == nil {
		return outcome{details: errNoTrajectory, err: errNoTrajectory}, nil
	}
	actual := len(j.where.Trajectory.calls())
	return outcome{
		score:   float64(c.ExpectedCommands) / float64(max(actual, c.ExpectedCommands, 1)),
		details: fmt.Sprintf("%d tool calls, %d expected.", actual, c.ExpectedCommands),
	}, nil
}
