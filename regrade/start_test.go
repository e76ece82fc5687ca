package regrade

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"podgrade/isolation"
	"podgrade/tasks"
	"podgrade/tasks/record"
	"podgrade/tasks/record/fixture"
)

// A command that cannot be started through its own line, or through what the
// commands before it did to the workspace, has failed. It must not keep the
// row from being graded.
func TestACommandThatCannotStartFailsAlone(t *testing.T) {
	for _, kind := range []error{isolation.ErrDenied, isolation.ErrNotExist, isolation.ErrTooLarge} {
		c := newCase(t, fixture.Pinned, criteriaOf(runCommand("true"), runCommand("closed")))
		c.fake.run = startFails(kind)
		if v := c.pass(); v.Status != record.Failure || v.Score != 0.5 || v.Results[1].Error == nil {
			t.Errorf("%v: %s %v", kind, v.Status, v.Score)
		}
	}
	c := newCase(t, fixture.Pinned, criteriaOf(runCommand("true"), runCommand("echo \x00")))
	if v := c.pass(); v.Status != record.Failure || v.Score != 0.5 {
		t.Errorf("a NUL byte: %s %v", v.Status, v.Score)
	}
}

func TestAHookThatCannotStartIsSaid(t *testing.T) {
	c := newCase(t, fixture.Pinned, func(o *fixture.Order) {
		o.Change = func(task *tasks.Task) {
			task.SuccessCriteria = tasks.Criteria{runCommand("true")}
			task.PostRun = []tasks.PostRun{{Command: "closed", Timeout: 5}}
		}
	})
	c.fake.run = startFails(isolation.ErrDenied)
	if v := c.pass(); v.Status != record.Success {
		t.Errorf("%s: post_run changed the verdict", v.Status)
	}
	if !strings.Contains(c.file(record.TaskFile), "permission denied") {
		t.Error("the record does not say that the hook did not run")
	}
}

// startFails refuses the command line "closed".
func startFails(kind error) func(*fakeCell, string, io.Writer) (isolation.Exit, error) {
	return func(_ *fakeCell, line string, _ io.Writer) (isolation.Exit, error) {
		if line == "closed" {
			return isolation.Exit{}, fmt.Errorf("%w: start it", kind)
		}
		return isolation.Exit{}, nil
	}
}
