package regrade

import (
	"context"
	"errors"
	"testing"

	"podgrade/tasks/record"
)

// A row that is to be executed again, and cannot be, is not told of with the status
// and the score of the execution before, whose record is gone.
func TestTheOldVerdictOfARowThatIsExecutedAgainIsNotTold(t *testing.T) {
	for name, test := range map[string]struct {
		stop bool
		code int
		left int // rows of the summary
	}{"refused": {false, ExitFailed, 1}, "interrupted": {true, ExitInterrupted, 0}} {
		t.Run(name, func(t *testing.T) {
			c := newRun(t, "a")
			c.run(ExitPassed, labels("a")...)
			c.write("a", "another", "another")
			c.o.Resume, c.o.RerunChanged = true, true
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c.agent = func(string) (record.Status, int, error) {
				if test.stop {
					cancel()
					return "", 0, ctx.Err()
				}
				return "", 0, errors.New("the image is gone")
			}
			result, err := Run(ctx, c.jobs(), c.o)
			if err != nil || result.ExitCode() != test.code {
				t.Fatalf("%v, %+v", err, result)
			}
			row := result.Rows[0]
			if row.Status == record.Success || row.Score != nil || row.Kept || row.Unrecorded == test.stop {
				t.Errorf("%+v", row)
			}
			if len(result.Summary.Rows) != test.left {
				t.Errorf("%d rows in the summary", len(result.Summary.Rows))
			}
			for _, row := range result.Summary.Rows {
				if row.Status != record.Error || row.Score != nil {
					t.Errorf("%+v", row)
				}
			}
			c.agent = nil
			c.o.RerunChanged = false
			c.run(ExitPassed, labels("a")...)
		})
	}
}

// A row whose agent crashed can be graded, and an execute that leaves it as it is
// says so: advice to execute it again would cost what the agent did.
func TestAnExecuteKnowsWhichRowsOweAGrade(t *testing.T) {
	c := newRun(t, "crashed", "unbuilt", "fine")
	c.o.Grade = false
	c.agent = func(label string) (record.Status, int, error) {
		switch label {
		case labels("crashed")[0]:
			return record.Error, 1, nil
		case labels("unbuilt")[0]:
			return record.BuildFailed, 0, nil
		}
		return record.NotGraded, 1, nil
	}
	c.run(ExitFailed, labels("crashed", "fine", "unbuilt")...)
	c.o.Resume = true
	result := c.run(ExitFailed)
	for i, owed := range []bool{true, false, true} {
		if row := result.Rows[i]; !row.Kept || row.Owed != owed {
			t.Errorf("%s: %+v", row.Job.Identity(), row)
		}
	}
}
