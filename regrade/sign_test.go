package regrade

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"podgrade/policy"
	"podgrade/tasks"
	"podgrade/tasks/record"
	"podgrade/tasks/record/fixture"
)

// newKeys are the keys of a user who has none yet.
func newKeys(t *testing.T) *policy.Keys {
	return &policy.Keys{Dir: filepath.Join(t.TempDir(), "keys")}
}

// newSigned is a row that this user has executed, graded without any answer.
func newSigned(t *testing.T, change func(*fixture.Order)) *rowCase {
	t.Helper()
	c := newCase(t, fixture.Pinned, func(o *fixture.Order) {
		if change != nil {
			change(o)
		}
		facts := map[string]any{
			record.WorkspaceDigest: "sha256:tree", record.WorkspaceTimes: "sha256:times", record.State: record.StateKept, record.StateDiffID: "sha256:state",
			record.TaskDigest: "task", record.RunDigest: "run", record.Variables: "",
		}
		maps.Copy(facts, o.Environment)
		o.Environment = facts
	})
	c.fake.states = []string{"sha256:state"}
	c.options.Answer = policy.Answer{}
	c.options.Keys = newKeys(t)
	c.signWith(c.options.Keys)
	return c
}

// signWith signs the row as execute does.
func (c *rowCase) signWith(keys *policy.Keys) {
	c.t.Helper()
	row := c.open()
	defer row.Close()
	rec := c.record()
	text, err := executedStatement(nameOfRow(row, identityOf(row, rec)), rec, "9.9.9")
	if err == nil {
		text, err = keys.Sign(text)
	}
	if err == nil {
		err = row.Write(record.ExecuteEnvelope, text)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *rowCase) open() *record.Row {
	c.t.Helper()
	row, err := record.OpenRow(c.dir)
	if err != nil {
		c.t.Fatal(err)
	}
	return row
}

func (c *rowCase) verify() Vouched {
	c.t.Helper()
	row := c.open()
	defer row.Close()
	v, err := Verify(row, c.options.signers())
	if err != nil {
		c.t.Fatal(err)
	}
	return v
}

func TestARowOfThisUsersOwnIsNotAskedFor(t *testing.T) {
	c := newSigned(t, nil)
	for range 3 { // the first grade rewrites the record
		if v := c.pass(); v.Status != record.Success {
			t.Errorf("%s", v.Status)
		}
		if v := c.verify(); !v.Holds() || v.Verdict == nil || v.Verdict.By != policy.Own {
			t.Errorf("%+v, %+v", v, v.Verdict)
		}
	}
	if got := strings.Count(c.notice.String(), "by the signature of your own key"); got != 3 {
		t.Errorf("said %d times: %s", got, c.notice.String())
	}
	if order := c.fake.orders[0]; order.State != "sha256:state" || !slices.Contains(order.Hidden, c.options.Keys.Dir) {
		t.Errorf("order %+v", order)
	}
}

// TestWhatIsNotSignedIsRefusedByName is the second Show of signatures: one byte
// of any part, and the row is refused with the name of the part.
func TestWhatIsNotSignedIsRefusedByName(t *testing.T) {
	for _, test := range []struct {
		part, old, new string
	}{
		{"resolved task", "test -f /opt/byod_marker", "test -f /opt/byod_marke"},
		{"task file", "coder-eval/tasks/byod_smoke_test.yaml", "coder-eval/tasks/byod_smoke_tesu.yaml"},
		{"pin", imageID, otherID},
		{"pin", "linux/amd64", "linux/amd65"},
		{"workspace", "sha256:tree", "sha256:trea"},
		{"times of the workspace's files", "sha256:times", "sha256:time5"},
		{"workspace path", "artifacts/byod_smoke_test", "artifacts/byod_smoke_tesu"},
		{"state layer", "sha256:state", "sha256:stata"},
		{"state layer", `"` + record.StateKept + `"`, `"` + record.StateUnchanged + `"`},
		{"environment", "/usr/local/sbin:", "/tmp/evil:"},
		{"environment", `"` + record.Variables + `": ""`, `"` + record.Variables + `": "AWS_SECRET"`},
		{"status", `"` + string(record.NotGraded) + `"`, `"` + string(record.Timeout) + `"`},
		{"trajectory", `"Done."`, `"Done!"`},
		{"rest of the record", `"max_turns_exhausted": false`, `"max_turns_exhausted": true`},
		{"rest of the record", `"early_stop": null`, `"early_stop": {"gate_threshold": 0.01}`},
		{"identity, rest of the record", `"variant_id": "default"`, `"variant_id": "other"`},
		{"identity, rest of the record", `"task_id": "byod_smoke_test"`, `"task_id": "byod_smoke_tesu"`},
	} {
		t.Run(test.part+": "+test.old, func(t *testing.T) {
			c := newSigned(t, nil)
			c.edit(test.old, test.new)
			for _, answer := range []policy.Answer{{}, {RecordedCommands: true}} {
				c.options.Answer = answer
				c.notice.Reset()
				c.refused(Refused, "this user's own key has signed another "+test.part+" than the row holds now", false)
				if said := c.notice.String(); !answer.RecordedCommands && strings.Contains(said, "accepted") {
					t.Errorf("before the signature was found not to hold: %s", said)
				}
			}
			if _, err := c.grade(); ExitCode(err) != ExitUsage {
				t.Errorf("exit code %d", ExitCode(err))
			}
			if v := c.verify(); v.Holds() || v.Execute.Holds() || v.Execute.By != policy.Own {
				t.Errorf("verified: %+v", v)
			}
		})
	}
}

// TestAnotherWorkspaceThanTheSignedIsRefused before anything looks at it.
func TestAnotherWorkspaceThanTheSignedIsRefused(t *testing.T) {
	c := newSigned(t, func(o *fixture.Order) { o.Environment = map[string]any{record.WorkspaceDigest: "sha256:other"} })
	c.refused(Refused, "signed another workspace", true)
	if len(c.fake.cells) != 1 || len(c.fake.cells[0].ran) > 0 {
		t.Errorf("%d cells", len(c.fake.cells))
	}
	c.options.Workspace = t.TempDir() // the operator names a tree
	c.pass()
}

func TestASignedRowIsNoOther(t *testing.T) {
	move := func(c *rowCase, to string) {
		t.Helper()
		dir := filepath.Join(filepath.Dir(c.dir), to)
		if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(c.dir, dir); err != nil {
			t.Fatal(err)
		}
		c.dir = dir
	}
	c := newSigned(t, nil)
	move(c, "01")
	c.refused(Refused, "another identity", false)
	for _, to := range []string{"000", "../../../other/byod_smoke_test/00", "../../../00", "../../../elsewhere/default/byod_smoke_test/00"} {
		c := newSigned(t, nil)
		move(c, to)
		c.refused(Refused, "--allow-recorded-commands", false)
		if !strings.Contains(c.notice.String(), "does not lie in it") {
			t.Errorf("%s: %s", to, c.notice.String())
		}
	}
	// A run that moves as a whole keeps its name, and so do its rows.
	c = newSigned(t, nil)
	run := filepath.Join(c.dir, "../../..")
	moved := filepath.Join(t.TempDir(), filepath.Base(run))
	if err := os.Rename(run, moved); err != nil {
		t.Fatal(err)
	}
	c.dir = filepath.Join(moved, "default/byod_smoke_test/00")
	c.pass()
}

func TestWhoseSignatureItIs(t *testing.T) {
	stranger, friend := newKeys(t), newKeys(t)
	key, err := friend.Public()
	if err != nil {
		t.Fatal(err)
	}
	t.Run("a stranger's counts as none", func(t *testing.T) {
		c := newSigned(t, nil)
		c.signWith(stranger)
		c.edit("Done.", "Done!") // and is not compared
		c.refused(Refused, "--allow-recorded-commands", false)
		public, _ := stranger.Public()
		if !strings.Contains(c.notice.String(), "neither yours nor trusted: "+public) {
			t.Error(c.notice.String())
		}
	})
	t.Run("a trusted key's is compared", func(t *testing.T) {
		c := newSigned(t, nil)
		c.signWith(friend)
		c.options.Answer.Policy = &policy.File{Keys: []policy.TrustedKey{{Name: "friend", Key: key}}}
		row := c.open()
		defer row.Close()
		g := &grading{row: row, options: c.options}
		if err := g.read(); err != nil {
			t.Fatal(err)
		}
		if err := g.vouch(); err != nil || g.signedBy(policy.InCell) != policy.Trusted || g.signedBy(policy.OnHost) != policy.Unsigned {
			t.Errorf("%v, by %q", err, g.signedBy(policy.InCell))
		}
		c.edit("Done.", "Done!")
		c.refused(Refused, "the trusted key friend has signed another trajectory", false)
	})
	t.Run("nobody's is asked for", func(t *testing.T) {
		c := newSigned(t, nil)
		os.Remove(filepath.Join(c.dir, record.ExecuteEnvelope))
		c.refused(Refused, "--allow-recorded-commands", false)
	})
	t.Run("on the host it is asked for", func(t *testing.T) {
		c := newSigned(t, nil)
		c.options.AllowHost = true
		c.refused(Refused, "on this host, as you", false)
	})
}

// TestEnvelopesThatAreNone count as none, whatever lies in their place.
func TestEnvelopesThatAreNone(t *testing.T) {
	for name, spoil := range map[string]func(c *rowCase, path string){
		"a link":          func(_ *rowCase, path string) { os.Rename(path, path+".x"); os.Symlink(path+".x", path) },
		"a directory":     func(_ *rowCase, path string) { os.Remove(path); os.Mkdir(path, 0o755) },
		"a pipe":          func(_ *rowCase, path string) { os.Remove(path); mkfifo(path) },
		"too large":       func(_ *rowCase, path string) { os.Truncate(path, 2<<30) },
		"empty":           func(_ *rowCase, path string) { os.Truncate(path, 0) },
		"no JSON":         func(_ *rowCase, path string) { os.WriteFile(path, []byte("\x1b[2Jsigned"), 0o644) },
		"of a verdict":    func(c *rowCase, path string) { c.signOther(path, saysGrade) },
		"of another kind": func(c *rowCase, path string) { c.signOther(path, "urn:other") },
	} {
		t.Run(name, func(t *testing.T) {
			c := newSigned(t, nil)
			spoil(c, filepath.Join(c.dir, record.ExecuteEnvelope))
			c.refused(Refused, "--allow-recorded-commands", false)
			if got := strings.Count(c.notice.String(), "warning: the row's signature counts as none: "); got != 1 || strings.ContainsRune(c.notice.String(), 0x1b) {
				t.Errorf("said %d times: %q", got, c.notice.String())
			}
		})
	}
}

// signOther signs a statement of another type.
func (c *rowCase) signOther(path, says string) {
	text, err := json.Marshal(statement[executedRow]{Type: inToto, PredicateType: says})
	if err == nil {
		text, err = c.options.Keys.Sign(text)
	}
	if err == nil {
		err = os.WriteFile(path, text, 0o644)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// TestAVerdictIsSigned: what a grade came to, by the name of its parts.
func TestAVerdictIsSigned(t *testing.T) {
	for _, test := range []struct{ part, old, new string }{
		{"verdict", `"final_status": "SUCCESS"`, `"final_status": "FAILURE"`},
		{"score", `"weighted_score": 1.0`, `"weighted_score": 0.9`},
		{"criterion results", `"score": 1.0`, `"score": 0.5`},
		{"row as it was executed", `"Done."`, `"Done!"`},
		{"facts of the grade", `"` + record.GradedImageID + `": "1`, `"` + record.GradedImageID + `": "2`},
		{"facts of the grade", `"` + record.WorkspaceView + `": "copy"`, `"` + record.WorkspaceView + `": "bind"`},
		{"facts of the grade", `"` + record.GradedWorkspace + `": "sha256:tree"`, `"` + record.GradedWorkspace + `": "sha256:trea"`},
		{"facts of the grade", `"` + record.GradedSpecSHA256 + `"`, `"` + record.CleanRoom + `": "` + record.CleanRoomSame + `", "` + record.GradedSpecSHA256 + `"`},
		{"stamps", `"` + record.GradedSpecSHA256 + `"`, `"` + record.GradedOtherWorkspace + `": "/x", "` + record.GradedSpecSHA256 + `"`},
	} {
		t.Run(test.part, func(t *testing.T) {
			c := newSigned(t, nil)
			c.pass()
			c.edit(test.old, test.new)
			v := c.verify()
			if v.Verdict == nil || v.Verdict.Holds() || v.Holds() || len(v.Verdict.Differ) != 1 || string(v.Verdict.Differ[0]) != test.part {
				t.Errorf("%+v", v.Verdict)
			}
		})
	}
	t.Run("another row's", func(t *testing.T) {
		c, other := newSigned(t, nil), newSigned(t, criteriaOf(fileExists("answer.txt")))
		other.options.Keys = c.options.Keys
		other.signWith(c.options.Keys)
		c.pass()
		other.pass()
		os.WriteFile(filepath.Join(c.dir, record.GradeEnvelope), []byte(other.file(record.GradeEnvelope)), 0o644)
		if v := c.verify(); v.Verdict.Holds() {
			t.Errorf("%+v", v.Verdict)
		}
	})
	t.Run("one on the host is not", func(t *testing.T) {
		c := newSigned(t, nil)
		c.pass()
		c.options.AllowHost, c.options.Answer.RecordedCommands = true, true
		c.pass()
		if v := c.verify(); v.Verdict.By != policy.Unsigned || c.file(record.GradeEnvelope) != "" || !v.Execute.Holds() {
			t.Errorf("%+v", v)
		}
	})
	t.Run("without a key that can be used it is not", func(t *testing.T) {
		c := newSigned(t, nil)
		c.pass()
		os.Chmod(c.options.Keys.Dir, 0o755)
		c.options.Keys = &policy.Keys{Dir: c.options.Keys.Dir}
		c.options.Answer.RecordedCommands = true
		c.pass()
		if !strings.Contains(c.notice.String(), "the verdict is not signed") || c.file(record.GradeEnvelope) != "" {
			t.Error(c.notice.String())
		}
	})
}

// otherTask is a task file of the operator's that the row can be graded by.
func (c *rowCase) otherTask() *Given {
	c.t.Helper()
	file, err := tasks.Load(byod)
	if err != nil {
		c.t.Fatal(err)
	}
	file.Task.SuccessCriteria = []tasks.Criterion{fileExists("answer.txt")}
	given, err := Give(file.Task, file)
	if err != nil {
		c.t.Fatal(err)
	}
	return given
}

// TestAGradeByAnotherTaskIsSignedAnew: the record holds the operator's own task
// then, and the next grade by the record asks no more than before.
func TestAGradeByAnotherTaskIsSignedAnew(t *testing.T) {
	c := newSigned(t, nil)
	c.options.Given = c.otherTask()
	c.pass()
	c.options.Given = nil
	if v := c.verify(); !v.Holds() {
		t.Errorf("%+v, %+v", v, v.Verdict)
	}
	c.pass()

	// The recorded task is not used then, and all else is.
	c = newSigned(t, nil)
	c.edit("test -f /opt/byod_marker", "test -f /opt/byod_marke")
	c.options.Given = c.otherTask()
	c.pass()
	c = newSigned(t, nil)
	c.edit("Done.", "Done!")
	c.options.Given = c.otherTask()
	c.refused(Refused, "signed another trajectory", false)

	friend := newKeys(t)
	key, err := friend.Public()
	if err != nil {
		t.Fatal(err)
	}
	c = newSigned(t, nil)
	c.options.Answer.Policy = &policy.File{Keys: []policy.TrustedKey{{Name: "friend", Key: key}}}
	c.signWith(friend)
	c.options.Given = c.otherTask()
	c.pass()
	if v := c.verify(); v.Execute.By != policy.Unsigned || !strings.Contains(c.notice.String(), "that signature is removed") || !v.Verdict.Holds() {
		t.Errorf("%+v: %s", v, c.notice.String())
	}
}

// TestStatementsSayWhatTheRowIs in words that others can read.
func TestStatementsSayWhatTheRowIs(t *testing.T) {
	c := newSigned(t, nil)
	c.pass()
	for name, says := range map[string]string{record.ExecuteEnvelope: saysExecute, record.GradeEnvelope: saysGrade} {
		signed, err := c.options.signers().open([]byte(c.file(name)))
		if err != nil {
			t.Fatal(err)
		}
		var s struct {
			Type          string `json:"_type"`
			PredicateType string
			Subject       []subject
			Predicate     map[string]any
		}
		if err := json.Unmarshal(signed.Statement, &s); err != nil {
			t.Fatal(err)
		}
		if s.Type != "https://in-toto.io/Statement/v1" || s.PredicateType != says || s.Subject[0].Name != record.TaskFile || len(s.Subject[0].Digest["sha256"]) != 64 {
			t.Errorf("%s: %+v", name, s)
		}
		row := s.Predicate["row"].(map[string]any)
		if row["task"] != "byod_smoke_test" || row["variant"] != "default" || row["replicate"] != 0.0 || row["run"] == "" || s.Predicate["taskDigest"] != "task" {
			t.Errorf("%s: %v", name, s.Predicate)
		}
		if says == saysGrade && (s.Predicate["status"] != "SUCCESS" || s.Predicate["score"] != 1.0 || len(s.Predicate["criteria"].([]any)) != 1 || len(s.Subject) != 2) {
			t.Errorf("%v, %v", s.Predicate, s.Subject)
		}
		if says == saysExecute && (s.Predicate["stateDiffID"] != "sha256:state" || s.Predicate["workspace"] != "sha256:tree" || s.Predicate["workspaceTimes"] != "sha256:times" || s.Predicate["status"] != "NOT_GRADED") {
			t.Errorf("%v", s.Predicate)
		}
	}
}

func mkfifo(path string) {
	if err := syscall.Mkfifo(path, 0o644); err != nil {
		panic(err)
	}
}
