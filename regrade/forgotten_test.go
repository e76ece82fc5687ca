package regrade

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
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
				// Whoever is killed now leaves this.
				if s, err := record.ReadSummary(c.o.Dir); err != nil || len(s.Rows) > 0 || s.NotRun() != 1 {
					t.Errorf("while it is executed the run's summary has %d rows, %d not run: %v", len(s.Rows), s.NotRun(), err)
				}
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
			if len(result.Summary.Rows) != test.left || result.Summary.NotRun() != 1-test.left {
				t.Errorf("%d rows in the summary, %d not run", len(result.Summary.Rows), result.Summary.NotRun())
			}
			for _, name := range []string{record.VariantFile, record.VariantPage} {
				if _, err := os.Stat(filepath.Join(c.o.Dir, "default", name)); (err == nil) != (test.left > 0) {
					t.Errorf("%s of a variant with %d rows: %v", name, test.left, err)
				}
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

// Rows that a run did not come to are told of as they still are.
func TestARowThatWasNotBegunIsWhatItWas(t *testing.T) {
	c := newRun(t, "a", "b")
	c.run(ExitPassed, labels("a", "b")...)
	c.write("a", "another", "another")
	c.write("b", "another", "another")
	c.o.Resume, c.o.RerunChanged, c.o.Parallel = true, true, 1
	ctx, cancel := context.WithCancel(t.Context())
	c.agent = func(string) (record.Status, int, error) { cancel(); return "", 0, ctx.Err() }
	result, err := Run(ctx, c.jobs(), c.o)
	if err != nil || len(result.Summary.Rows) != 1 || result.Summary.Rows[0].TaskID != "b" || result.Summary.Rows[0].Status != record.Success || result.Summary.NotRun() != 1 {
		t.Errorf("%v: %+v", err, result.Summary)
	}
	c.is("b", record.Success, 1)
}

// A row that its host or its set-up ended while the agent worked has no score, on no
// way: what is there is not what the agent would have left.
func TestARowThatTheHostEndedIsNotGraded(t *testing.T) {
	for _, category := range []string{record.CategoryInfrastructure, record.CategorySetup} {
		t.Run(category, func(t *testing.T) {
			c := newRun(t, "a")
			c.o.Grade, c.category = false, category
			c.agent = func(string) (record.Status, int, error) { return record.Error, 1, nil }
			c.run(ExitFailed, labels("a")...)
			c.o.Grade, c.o.Resume = true, true
			if result := c.run(ExitFailed); result.Rows[0].Owed || !result.Rows[0].Kept {
				t.Errorf("%+v", result.Rows[0])
			}
			c.is("a", record.Error, -1)
			row, err := record.OpenRow(c.row("a"))
			if err != nil {
				t.Fatal(err)
			}
			defer row.Close()
			o := c.o.Grading
			o.Start, o.Notice = c.fake.start, &c.notice
			if _, err := Grade(t.Context(), row, o); KindOf(err) != TaskFault || !strings.Contains(err.Error(), "there is nothing to grade") {
				t.Errorf("a grade: %v", err)
			}
			c.is("a", record.Error, -1)
			c.o.Retry, c.agent = RetryError, nil
			c.run(ExitPassed, labels("a")...)
		})
	}
	c := newRun(t, "a")
	c.category = record.CategoryAgent
	c.agent = func(string) (record.Status, int, error) { return record.Error, 1, nil }
	c.run(ExitFailed, labels("a")...)
	c.is("a", record.Error, 1)
}

// The verdict of other criteria is none by those of now, also where these cannot be
// asked.
func TestAVerdictOfOtherCriteriaIsNotTold(t *testing.T) {
	c := newRun(t, "a")
	c.run(ExitPassed, labels("a")...)
	c.o.Resume = true
	c.write("a", "a", "something else")
	c.fake.layers = errors.New("the disk is gone")
	result := c.run(ExitFailed)
	if row := result.Summary.Rows[0]; row.Status != record.Error || row.Score != nil {
		t.Errorf("%+v", row)
	}
	c.is("a", record.Success, 1) // by the criteria of before
	c.fake.layers = nil
	c.run(ExitFailed)
	c.is("a", record.Failure, 0)
}

// What no cell can be told or given is refused before an agent works.
func TestWhatNoCellCanTakeIsRefusedFirst(t *testing.T) {
	c := newRun(t, "a")
	c.texts["a"] = strings.Replace(c.texts["a"], "cat > said", "cat > said; : "+strings.Repeat("x", 130<<10), 1)
	c.refused(Refused, "agent.command", "put it into a file")
	c.write("a", "a", "a")
	odd := filepath.Join(t.TempDir(), "a\xffb")
	if err := os.Mkdir(odd, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(odd)
	c.refused(Refused, `a\xffb`, "its path is not UTF-8")
}
