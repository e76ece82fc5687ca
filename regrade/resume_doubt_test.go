package regrade

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"podgrade/policy"
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
			if got := c.notice.String(); strings.Count(got, "default/bad/00 is graded again: ") != 1 || !strings.Contains(got, "this user's own key") {
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

// TestAResumeMissesASignatureThatWasTakenAway, whatever the row says then of why it
// has none: what was signed is noted where who can write to a run cannot.
func TestAResumeMissesASignatureThatWasTakenAway(t *testing.T) {
	pass := []string{`"final_status": "FAILURE"`, `"final_status": "SUCCESS"`, `"weighted_score": 0.0`, `"weighted_score": 1.0`}
	fact := func(text string) []string {
		return append(pass, `"`+record.GradedSpecSHA256+`"`, text+`, "`+record.GradedSpecSHA256+`"`)
	}
	for name, texts := range map[string][]string{
		"as if nobody had signed it":         pass,
		"as if it had been graded live":      fact(`"` + record.GradedLive + `": true`),
		"as if it had been graded on a host": fact(`"` + record.GradedOnHost + `": true`),
		"as if it had been imported":         fact(`"` + record.Imported + `": "sha256:manifest"`),
	} {
		t.Run(name, func(t *testing.T) {
			c := newSignedRun(t)
			c.forge(texts...)
			c.unsign("bad")
			row, err := record.OpenRow(c.row("bad"))
			if err != nil {
				t.Fatal(err)
			}
			v, err := Verify(row, c.o.Grading.signers())
			row.Close()
			if err != nil || v.Holds() || !v.Execute.Lost || !v.Verdict.Lost {
				t.Errorf("verified: %v, %+v, %+v", err, v, v.Verdict)
			}
			c.run(ExitFailed)
			c.is("bad", record.Failure, 0)
			if got := c.notice.String(); strings.Count(got, "default/bad/00 is graded again: ") != 1 || !strings.Contains(got, "own key") {
				t.Error(got)
			}
			c.notice.Reset()
			c.run(ExitFailed) // which made it good: the verdict is signed
			if c.count(RowKept) != 2 || c.notice.Len() > 0 {
				t.Errorf("%v, %s", c.events, c.notice.String())
			}
		})
	}
}

// moveRun gives the run directory another name, or makes a copy of that name, and goes
// on there.
func (c *runCase) moveRun(name string, byCopy bool) {
	c.t.Helper()
	to := filepath.Join(filepath.Dir(c.o.Dir), name)
	err := error(nil)
	if byCopy {
		err = os.CopyFS(to, os.DirFS(c.o.Dir))
	} else {
		err = os.Rename(c.o.Dir, to)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.o.Dir = to
}

// verified is who vouches for the row "bad".
func (c *runCase) verified() Vouched {
	c.t.Helper()
	row, err := record.OpenRow(c.row("bad"))
	if err != nil {
		c.t.Fatal(err)
	}
	defer row.Close()
	v, err := Verify(row, c.o.Grading.signers())
	if err != nil {
		c.t.Fatal(err)
	}
	return v
}

// TestAResumeDoesNotBelieveAForgedVerdictOfARenamedRun: the signature that lies beside
// it is of a row of another run, and still tells that the verdict was another one.
func TestAResumeDoesNotBelieveAForgedVerdictOfARenamedRun(t *testing.T) {
	for name, byCopy := range map[string]bool{"renamed": false, "copied": true} {
		t.Run(name, func(t *testing.T) {
			c := newSignedRun(t)
			c.moveRun("renamed", byCopy)
			c.forge(`"final_status": "FAILURE"`, `"final_status": "SUCCESS"`, `"weighted_score": 0.0`, `"weighted_score": 1.0`)
			if v := c.verified(); v.Holds() || v.Verdict.By != policy.Unsigned || len(v.Verdict.Differ) != 2 || v.Verdict.Signer == "" {
				t.Errorf("verified: %+v", v.Verdict)
			}
			c.run(ExitFailed)
			if c.count(RowKept) != 1 {
				t.Errorf("%v", c.events)
			}
			got := c.notice.String()
			for _, part := range []string{"default/bad/00 is graded again: this user's own key has signed another verdict, score than it holds now", `signed as one of the run "run"`} {
				if strings.Count(got, part) == 0 {
					t.Errorf("%q is not in: %s", part, got)
				}
			}
			if !byCopy {
				c.is("bad", record.Failure, 0)
				c.notice.Reset()
				c.run(ExitFailed) // which made it good
				if c.count(RowKept) != 2 || c.notice.Len() > 0 {
					t.Errorf("%v, %s", c.events, c.notice.String())
				}
			}
		})
	}
}

// TestAResumeKeepsWhatIsOnlyInARenamedRun, and nobody vouches for it there.
func TestAResumeKeepsWhatIsOnlyInARenamedRun(t *testing.T) {
	c := newSignedRun(t)
	c.moveRun("renamed", false)
	c.run(ExitFailed)
	if c.count(RowKept) != 2 || c.notice.Len() > 0 {
		t.Errorf("%v, %s", c.events, c.notice.String())
	}
	v := c.verified()
	for _, half := range []Vouching{v.Execute, *v.Verdict} {
		if half.By != policy.Unsigned || half.Signer != "" || len(half.Differ) > 0 || !strings.Contains(half.Why, `one of the run "run"`) {
			t.Errorf("verified: %+v", half)
		}
	}
	// Without its signatures it is a row like any other.
	c.forge(`"final_status": "FAILURE"`, `"final_status": "SUCCESS"`)
	c.unsign("bad")
	c.run(ExitPassed)
	if c.count(RowKept) != 2 || c.notice.Len() > 0 {
		t.Errorf("%v, %s", c.events, c.notice.String())
	}
}

// unsign takes the signatures of a row away.
func (c *runCase) unsign(task string) {
	c.t.Helper()
	for _, name := range []string{record.ExecuteEnvelope, record.GradeEnvelope} {
		if err := os.Remove(filepath.Join(c.row(task), name)); err != nil {
			c.t.Fatal(err)
		}
	}
}

// TestAResumeDoesNotBelieveThatARowNeedsNoVerdict, of one that had a signed one.
func TestAResumeDoesNotBelieveThatARowNeedsNoVerdict(t *testing.T) {
	for name, unsigned := range map[string]bool{"without its signatures": true, "beside its signatures": false} {
		t.Run(name, func(t *testing.T) {
			c := newSignedRun(t)
			path := filepath.Join(c.row("bad"), record.TaskFile)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			rec, err := record.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			rec.Set(record.FieldFinalStatus, string(record.Success))
			rec.Set(record.FieldWeightedScore, nil)
			rec.Set(record.FieldCriteriaResults, []string{})
			rec.Set(record.FieldIterationCount, 0)
			if err := os.WriteFile(path, rec.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			if unsigned {
				c.unsign("bad")
			}
			result := c.run(ExitFailed)
			if row := result.Rows[0]; row.Status == record.Success || row.Kept || !unsigned && KindOf(row.Err) != Refused {
				t.Errorf("%+v", row)
			}
		})
	}
}

// TestAResumeBelievesWhatNobodySigned, as every record is believed: rows of somebody
// who signs nothing, and rows that lie where nothing was noted.
func TestAResumeBelievesWhatNobodySigned(t *testing.T) {
	c := newRun(t, "bad", "good")
	c.write("bad", "bad", "something else")
	c.run(ExitFailed, labels("bad", "good")...)
	keys := newKeys(t)
	c.o.Execute.Keys, c.o.Grading.Keys, c.o.Resume = keys, keys, true
	c.run(ExitFailed)
	if c.count(RowKept) != 2 || c.notice.Len() > 0 {
		t.Errorf("%v, %s", c.events, c.notice.String())
	}
	c = newSignedRun(t)
	c.unsign("bad")
	if err := os.Remove(filepath.Join(c.o.Grading.Keys.Dir, "signed")); err != nil {
		t.Fatal(err)
	}
	c.run(ExitFailed)
	if c.count(RowKept) != 2 || c.notice.Len() > 0 {
		t.Errorf("%v, %s", c.events, c.notice.String())
	}
}

// TestAVerdictThatNobodySignsReplacesOneThatWasSigned: it is noted as such, and a
// resume keeps it.
func TestAVerdictThatNobodySignsReplacesOneThatWasSigned(t *testing.T) {
	c := newSignedRun(t)
	row, err := record.OpenRow(c.row("bad"))
	if err != nil {
		t.Fatal(err)
	}
	o := c.o.Grading
	o.AllowHost, o.Answer.RecordedCommands, o.Notice, o.Run = true, true, c.o.Execute.Notice, c.o.Dir
	o.Start = c.o.Execute.Start
	_, err = Grade(t.Context(), row, o)
	row.Close()
	if err != nil {
		t.Fatal(err)
	}
	c.notice.Reset()
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
