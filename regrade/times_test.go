package regrade

import (
	"strings"
	"testing"

	"podgrade/policy"
	"podgrade/tasks/record"
	"podgrade/tasks/record/fixture"
)

// withTimes is a signed row whose record says this of the workspace's times; "":
// nothing, as those of an older podgrade.
func withTimes(t *testing.T, times string) *rowCase {
	return newSigned(t, func(o *fixture.Order) {
		o.Environment = map[string]any{record.WorkspaceTimes: times}
	})
}

// TestAWorkspaceThatWasTouchedIsNotTheSignedOne: a criterion can go by times, so it
// is refused, unless the operator says that the row may be graded as one that nobody
// has signed.
func TestAWorkspaceThatWasTouchedIsNotTheSignedOne(t *testing.T) {
	c := newSigned(t, nil)
	c.fake.times = "sha256:touched"
	for _, given := range []*Given{nil, c.otherTask()} {
		c.options.Given = given
		c.fake.cells = nil
		c.refused(Refused, "only times differ: ", true)
		if len(c.fake.cells) != 1 || len(c.fake.cells[0].ran) > 0 {
			t.Errorf("%d cells", len(c.fake.cells))
		}
	}
	c.options.Given = nil
	_, err := c.grade()
	for _, text := range []string{"this user's own key has signed", "cp -a, rsync -a, podgrade export", "--allow-recorded-commands"} {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("nothing is said of %q: %v", text, err)
		}
	}
	row := c.open()
	asked, err := Asks(row, c.options)
	row.Close()
	if err != nil {
		t.Fatal(err)
	}
	for name, answer := range map[string]policy.Answer{
		"--allow-recorded-commands": {RecordedCommands: true},
		"--accept-plan":             {Plans: []string{asked.Plan.Hash()}},
	} {
		c.notice.Reset()
		c.options.Answer = answer
		if v := c.pass(); v.Status != record.Success {
			t.Errorf("%s: %s", name, v.Status)
		}
		if !strings.Contains(c.notice.String(), "warning: the row's signature counts as none: only times differ") {
			t.Errorf("%s: %s", name, c.notice.String())
		}
		// The verdict is this grade's, on a row that it took from nobody.
		if v := c.verify(); !v.Verdict.Holds() || c.record().Environment.Text(record.GradedTimes) != "sha256:touched" {
			t.Errorf("%s: %+v", name, v.Verdict)
		}
	}
	c.options.Answer = policy.Answer{}
	c.options.Workspace = t.TempDir() // the operator names a tree
	c.pass()
}

// TestTheWorkspaceItselfIsComparedFirst: where more than times differs, no answer
// takes the place of the signature.
func TestTheWorkspaceItselfIsComparedFirst(t *testing.T) {
	c := newSigned(t, func(o *fixture.Order) { o.Environment = map[string]any{record.WorkspaceDigest: "sha256:other"} })
	c.fake.times = "sha256:touched"
	c.options.Answer.RecordedCommands = true
	c.refused(Refused, "signed another workspace than", true)
}

// TestASignatureOfAnOlderPodgradeSaysNothingOfTimes, which is said, and is believed in
// all else.
func TestASignatureOfAnOlderPodgradeSaysNothingOfTimes(t *testing.T) {
	c := withTimes(t, "")
	signed, err := c.options.signers().open([]byte(c.file(record.ExecuteEnvelope)))
	if err != nil || !strings.Contains(string(signed.Statement), `"urn:podgrade:execute:v1"`) {
		t.Fatalf("%v: %s", err, signed.Statement)
	}
	for range 2 { // the second time after a grade by another task, which signs anew
		c.notice.Reset()
		c.fake.times = "sha256:touched"
		c.pass()
		if !strings.Contains(c.notice.String(), "without the times of the workspace's files") {
			t.Error(c.notice.String())
		}
		if v := c.verify(); !v.Holds() || len(v.Execute.Without) != 1 || v.Execute.Without[0] != record.PartTimes {
			t.Errorf("%+v", v)
		}
		c.options.Given = c.otherTask()
		c.pass()
		c.options.Given = nil
	}
	// Nobody can make a newer row one of these.
	c = newSigned(t, nil)
	c.edit(`"`+record.WorkspaceTimes+`": "sha256:times"`, `"`+record.WorkspaceTimes+`": ""`)
	c.refused(Refused, "signed another times of the workspace's files than", false)
}

// TestTimesThatTheFileSystemDoesNotKeepAreNotCompared, which the record and trust
// verify say, and no grade again.
func TestTimesThatTheFileSystemDoesNotKeepAreNotCompared(t *testing.T) {
	c := withTimes(t, record.TimesNotKept)
	c.fake.times = "sha256:touched"
	c.pass()
	if strings.Contains(c.notice.String(), "times") {
		t.Error(c.notice.String())
	}
	if v := c.verify(); !v.Holds() || len(v.Execute.Without) != 1 {
		t.Errorf("%+v", v)
	}
}

// TestARowOfNobodySaysThatItsWorkspaceWasTouched, as one that came by git does.
func TestARowOfNobodySaysThatItsWorkspaceWasTouched(t *testing.T) {
	for times, warned := range map[string]int{"sha256:times": 0, "sha256:touched": 1} {
		c := newSigned(t, nil)
		c.options.Keys, c.options.Answer.RecordedCommands = nil, true
		c.fake.times = times
		c.pass()
		if got := strings.Count(c.notice.String(), "but for when its files were changed last"); got != warned {
			t.Errorf("%s: said %d times: %s", times, got, c.notice.String())
		}
	}
}
