package regrade

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"podgrade/tasks/record"
)

// newSignedRun is a run whose rows and verdicts this user's own key has signed:
// those of "good" pass and those of "bad" do not.
func newSignedRun(t *testing.T) *runCase {
	t.Helper()
	c := newRun(t, "bad", "good")
	c.write("bad", "bad", "something else")
	keys := newKeys(t)
	c.o.Execute.Keys, c.o.Grading.Keys, c.signWith = keys, keys, keys
	c.run(ExitFailed, labels("bad", "good")...)
	c.o.Resume = true
	c.run(ExitFailed)
	if c.count(RowKept) != 2 || c.notice.Len() > 0 {
		t.Fatalf("a resume of what was signed: %v, %s", c.events, c.notice.String())
	}
	return c
}

// forge replaces texts of the record of the row "bad".
func (c *runCase) forge(texts ...string) {
	c.t.Helper()
	path := filepath.Join(c.row("bad"), record.TaskFile)
	before, err := os.ReadFile(path)
	if err != nil {
		c.t.Fatal(err)
	}
	after := strings.NewReplacer(texts...).Replace(string(before))
	if after == string(before) {
		c.t.Fatalf("nothing of %q is in the record:\n%s", texts, before)
	}
	if err := os.WriteFile(path, []byte(after), 0o644); err != nil {
		c.t.Fatal(err)
	}
}

// TestAResumeDoesNotBelieveAForgedVerdict of a row whose verdict was signed, and
// reaches it again.
func TestAResumeDoesNotBelieveAForgedVerdict(t *testing.T) {
	pass := []string{`"final_status": "FAILURE"`, `"final_status": "SUCCESS"`, `"weighted_score": 0.0`, `"weighted_score": 1.0`}
	for name, forge := range map[string]func(c *runCase){
		"a status and a score": func(c *runCase) { c.forge(pass...) },
		"a stamp": func(c *runCase) {
			c.forge(`"`+record.GradedSpecSHA256+`"`, `"`+record.GradedFromCapture+`": true, "`+record.GradedSpecSHA256+`"`)
		},
		"without its signature": func(c *runCase) {
			c.forge(pass...)
			os.Remove(filepath.Join(c.row("bad"), record.GradeEnvelope))
		},
		"with a stranger's signature": func(c *runCase) {
			c.forge(pass...)
			text, err := newKeys(t).Sign([]byte("{}"))
			if err == nil {
				err = os.WriteFile(filepath.Join(c.row("bad"), record.GradeEnvelope), text, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newSignedRun(t)
			forge(c)
			c.run(ExitFailed)
			c.is("bad", record.Failure, 0)
			if c.count(RowGraded) != 1 || c.count(RowKept) != 1 {
				t.Errorf("%v", c.events)
			}
			if got := c.notice.String(); strings.Count(got, "default/bad/00 is graded again: this user's own key has signed ") != 1 {
				t.Error(got)
			}
			c.notice.Reset()
			c.run(ExitFailed) // which made it good
			if c.count(RowKept) != 2 || c.notice.Len() > 0 {
				t.Errorf("%v, %s", c.events, c.notice.String())
			}
		})
	}
}

// TestAResumeRefusesARowThatIsNotTheSignedOne, and passes on nothing that it says.
func TestAResumeRefusesARowThatIsNotTheSignedOne(t *testing.T) {
	c := newSignedRun(t)
	c.forge(`"final_status": "FAILURE"`, `"final_status": "SUCCESS"`, `"weighted_score": 0.0`, `"weighted_score": 1.0`,
		`"early_stop": null`, `"early_stop": {"gate_threshold": 0.01}`)
	result := c.run(ExitFailed)
	row := result.Rows[0]
	if row.Err == nil || KindOf(row.Err) != Refused || !strings.Contains(row.Err.Error(), "signed another rest of the record") {
		t.Errorf("%v", row.Err)
	}
	if row.Status == record.Success {
		t.Error("the forged status was passed on")
	}
}

// TestAResumeBelievesWhatNobodySigned, as every record is believed.
func TestAResumeBelievesWhatNobodySigned(t *testing.T) {
	c := newSignedRun(t)
	for _, name := range []string{record.ExecuteEnvelope, record.GradeEnvelope} {
		if err := os.Remove(filepath.Join(c.row("bad"), name)); err != nil {
			t.Fatal(err)
		}
	}
	c.run(ExitFailed)
	if c.count(RowKept) != 2 || c.notice.Len() > 0 {
		t.Errorf("%v, %s", c.events, c.notice.String())
	}
}

// TestARecordThatCannotBeReadIsSaidToBe, before its row is executed again.
func TestARecordThatCannotBeReadIsSaidToBe(t *testing.T) {
	c := newSignedRun(t)
	c.forge(`{`, `[`)
	c.run(ExitFailed, labels("bad")...)
	if c.count(RowExecuted) != 1 || !strings.Contains(c.notice.String(), "bad/00 is executed again: its record cannot be read: ") {
		t.Errorf("%v, %s", c.events, c.notice.String())
	}
}
