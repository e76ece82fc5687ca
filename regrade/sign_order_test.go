package regrade

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"podgrade/policy"
	"podgrade/tasks/record"
)

// failing is a Notice that makes the record one that cannot be replaced when it
// hears that task.execute.json is not written, which is just before the record.
type failing struct{ c *rowCase }

func (f failing) Write(text []byte) (int, error) {
	if strings.Contains(string(text), "from before the grade could not be kept") {
		file := filepath.Join(f.c.dir, record.TaskFile)
		if err := errors.Join(os.Rename(file, file+".aside"), os.Mkdir(file, 0o755)); err != nil {
			f.c.t.Error(err)
		}
	}
	return f.c.notice.Write(text)
}

// failToWrite grades, and expects that all goes well but the write of the record,
// which is there again afterwards.
func (c *rowCase) failToWrite() {
	c.t.Helper()
	file, kept := filepath.Join(c.dir, record.TaskFile), filepath.Join(c.dir, record.ExecuteFile)
	if err := errors.Join(os.Remove(kept), os.Mkdir(kept, 0o755)); err != nil {
		c.t.Fatal(err)
	}
	c.options.Notice = failing{c}
	_, err := c.grade()
	c.options.Notice = &c.notice
	if err == nil || !strings.Contains(err.Error(), "write the verdict") {
		c.t.Fatal(err)
	}
	if err := errors.Join(os.Remove(file), os.Rename(file+".aside", file), os.Remove(kept)); err != nil {
		c.t.Fatal(err)
	}
}

// TestAVerdictThatCannotBeWrittenLeavesTheSignatures, and all else that is of the
// record that stays.
func TestAVerdictThatCannotBeWrittenLeavesTheSignatures(t *testing.T) {
	friend := newKeys(t)
	key, err := friend.Public()
	if err != nil {
		t.Fatal(err)
	}
	for _, by := range []policy.Signer{policy.Own, policy.Trusted} {
		c := newSigned(t, nil)
		if by == policy.Trusted {
			c.signWith(friend)
			c.options.Answer = policy.Answer{RecordedCommands: true, Policy: &policy.File{Keys: []policy.TrustedKey{{Name: "friend", Key: key}}}}
		}
		c.pass()
		files := []string{record.TaskFile, record.ExecuteEnvelope, record.GradeEnvelope, record.GradeCellFile}
		before := map[string]string{}
		for _, name := range files {
			before[name] = c.file(name)
		}
		c.options.Given = c.otherTask()
		// Another one than before, as after an update.
		c.options.Version = "10.0.0"
		c.failToWrite()
		for _, name := range files {
			if c.file(name) != before[name] {
				t.Errorf("%s: %s was changed", by, name)
			}
		}
		if v := c.verify(); !v.Holds() || v.Execute.By != by {
			t.Errorf("%s: %+v, %+v", by, v, v.Verdict)
		}
		if left := leftDrafts(t, c.dir); len(left) > 0 {
			t.Errorf("%s: left %q", by, left)
		}
		c.options.Given = nil
		c.pass()
	}
}

func leftDrafts(t *testing.T, dir string) []string {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(dir, "*.tmp"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(left, func(name string) bool { return filepath.Base(name) == record.WorkspaceDraft })
}

// TestAGradeThatWasKilledBeforeItSignedIsMadeGoodByTheNext: its record lies beside
// the signature of the one before.
func TestAGradeThatWasKilledBeforeItSignedIsMadeGoodByTheNext(t *testing.T) {
	c := newSigned(t, nil)
	c.pass()
	executed, graded := c.file(record.ExecuteEnvelope), c.file(record.GradeEnvelope)
	c.options.Given = c.otherTask()
	c.pass()
	for name, text := range map[string]string{record.ExecuteEnvelope: executed, record.GradeEnvelope: graded} {
		if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if v := c.verify(); v.Holds() {
		t.Fatalf("%+v", v)
	}
	c.pass()
	if v := c.verify(); !v.Holds() || v.Execute.By != policy.Own || v.Verdict.By != policy.Own {
		t.Errorf("%+v, %+v", v, v.Verdict)
	}
	c.options.Given = nil
	c.pass()
}

// TestWithoutKeysAnOlderVerdictsSignatureGoes: it is of another verdict.
func TestWithoutKeysAnOlderVerdictsSignatureGoes(t *testing.T) {
	c := newSigned(t, nil)
	c.pass()
	c.options.Keys, c.options.Answer.RecordedCommands = nil, true
	c.pass()
	if c.file(record.GradeEnvelope) != "" || c.file(record.ExecuteEnvelope) == "" {
		t.Error("the signature of the earlier verdict stayed, or that of the row went")
	}
}

// TestTrustVerifyTrustsNoMoreThanAGrade: what a grade asks about, whoever signed
// it, is not as somebody known has signed it.
func TestTrustVerifyTrustsNoMoreThanAGrade(t *testing.T) {
	for name, test := range map[string]struct {
		make    func(t *testing.T) *rowCase
		why     string
		verdict bool // counts
	}{
		"a row that lies in another run": {func(t *testing.T) *rowCase {
			c := newSigned(t, nil)
			c.pass()
			run := filepath.Join(c.dir, "../../..")
			other := filepath.Join(filepath.Dir(run), "other")
			if err := os.Rename(run, other); err != nil {
				t.Fatal(err)
			}
			c.dir = filepath.Join(other, "default/byod_smoke_test/00")
			return c
		}, "and does not lie in it", false},
		"an imported row": {func(t *testing.T) *rowCase {
			c := newSigned(t, nil)
			c.pass()
			c.edit(`"`+record.Version+`"`, `"`+record.Imported+`": "sha256:manifest", "`+record.Version+`"`)
			return c
		}, "was imported", true},
	} {
		t.Run(name, func(t *testing.T) {
			c := test.make(t)
			v := c.verify()
			if v.Holds() || v.Execute.By != policy.Unsigned || !strings.Contains(v.Execute.Why, test.why) || v.Verdict.Holds() != test.verdict {
				t.Errorf("%+v, %+v", v, v.Verdict)
			}
			c.options.Answer = policy.Answer{}
			c.fake.started, c.fake.closed = 0, 0
			if _, err := c.grade(); KindOf(err) != Refused || !strings.Contains(c.notice.String(), v.Execute.Why) {
				t.Errorf("graded: %v: %s", err, c.notice.String())
			}
		})
	}
}

// TestASignatureSaysWhichWorkspace: without a digest any tree would do, also one of
// which nobody knows the digest.
func TestASignatureSaysWhichWorkspace(t *testing.T) {
	c := newSigned(t, nil)
	row := c.open()
	defer row.Close()
	rec := c.record()
	name := nameOfRow(row, identityOf(row, rec))
	rec.Environment.Delete(record.WorkspaceDigest)
	if text, err := executedStatement(name, rec, "9.9.9"); err == nil {
		t.Errorf("made: %s", text)
	}
	// One of whoever signs it all the same.
	c.edit(`"`+record.WorkspaceDigest+`": "sha256:tree"`, `"x": ""`)
	rec = c.record()
	text, err := encodeStatement(statement[executedRow]{Type: inToto, PredicateType: saysExecute, Predicate: executedRow{Row: name, Parts: rec.Parts()}})
	if err == nil {
		text, err = c.options.Keys.Sign(text)
	}
	if err == nil {
		err = row.Write(record.ExecuteEnvelope, text)
	}
	if err != nil {
		t.Fatal(err)
	}
	c.refused(Refused, "--allow-recorded-commands", false)
	if v := c.verify(); v.Execute.By != policy.Unsigned || !strings.Contains(v.Execute.Why, "no digest of its workspace") || !strings.Contains(c.notice.String(), v.Execute.Why) {
		t.Errorf("%+v: %s", v, c.notice.String())
	}
}
