package record

import (
	"slices"
	"strings"
	"testing"
	"time"

	"podgrade/tasks"
)

// executedRecord is a record as execute leaves it.
func executedRecord(t *testing.T) *Record {
	t.Helper()
	info := NewObject()
	for key, value := range map[string]string{
		Version: "1", Image: "image:1", ImageID: "11", Platform: "linux/amd64", WorkspaceDigest: "22", State: StateKept, StateDiffID: "sha256:33",
		TaskDigest: "44", RunDigest: "55", CommandBasePath: "/usr/bin",
	} {
		info.Set(key, value)
	}
	r, err := New(Execution{
		TaskID: "t", Description: "d", AgentType: tasks.NoAgent, Started: time.Unix(0, 0), Status: NotGraded, Iterations: 1, Environment: info,
		SandboxPath: "/run/artifacts/t", TaskConfig: &TaskConfig{Resolved: Raw(`{"task_id": "t", "a": [1, {"b": "c  d"}]}`), SourceYAML: "task_id: t", SourceFile: "/t.yaml"},
		Turns: []Turn{{Iteration: 1, AgentOutput: "done"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// reread is the record as a reader of its file has it.
func reread(t *testing.T, text string) *Record {
	t.Helper()
	r, err := Parse([]byte(text))
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return r
}

func TestEveryFieldOfARecordHasAPart(t *testing.T) {
	text := string(executedRecord(t).Bytes())
	before := reread(t, text).Parts()
	for _, test := range []struct {
		old, new string
		want     []Part
	}{
		{`"c  d"`, `"c d"`, []Part{PartTask}},
		{`"task_id: t"`, `"task_id: u"`, []Part{PartTaskFile}},
		{`"/t.yaml"`, `"/u.yaml"`, []Part{PartTaskFile}},
		{`"image:1"`, `"image:2"`, []Part{PartPin}},
		{`"linux/amd64"`, `"linux/arm64"`, []Part{PartPin}},
		{`"22"`, `"23"`, []Part{PartWorkspace}},
		{`"/run/artifacts/t"`, `"/run/artifacts/u"`, []Part{PartPlace}},
		{`"/run/artifacts/t"`, `null`, []Part{PartPlace}},
		{`"sha256:33"`, `"sha256:34"`, []Part{PartState}},
		{`"` + StateKept + `"`, `"` + StateDropped + `"`, []Part{PartState}},
		{`"/usr/bin"`, `"/tmp:/usr/bin"`, []Part{PartEnvironment}},
		{`"` + CommandBasePath + `":`, `"` + ExecutedOnHost + `": true, "` + CommandBasePath + `":`, []Part{PartEnvironment}},
		{`"` + CommandBasePath + `":`, `"new": true, "` + CommandBasePath + `":`, []Part{PartEnvironment}},
		{string(NotGraded), string(Timeout), []Part{PartStatus}},
		{`"done"`, `"undone"`, []Part{PartTrajectory}},
		{`"early_stop": null`, `"early_stop": {"gate_threshold": 0.1}`, []Part{PartRest}},
		{`"max_turns_exhausted": false`, `"max_turns_exhausted": true`, []Part{PartRest}},
		{`"task_description": "d"`, `"task_description": "e"`, []Part{PartRest}},
		{`"task_description"`, `"from_the_future": 1, "task_description"`, []Part{PartRest}},
		{`"task_id": "t",`, `"task_id": "u",`, []Part{PartRest}},
	} {
		changed := strings.Replace(text, test.old, test.new, 1)
		if changed == text {
			t.Errorf("the record holds no %s", test.old)
			continue
		}
		if got := Differences(before, reread(t, changed).Parts()); !slices.Equal(got, test.want) {
			t.Errorf("%s becomes %s: another %v, want %v", test.old, test.new, got, test.want)
		}
	}
}

// TestAGradeChangesNoPart, nor does another layout of the same text.
func TestAGradeChangesNoPart(t *testing.T) {
	r := executedRecord(t)
	before := r.Parts()
	if len(before) != 10 {
		t.Errorf("the parts are %v", before)
	}
	if again := reread(t, string(r.Bytes())).Parts(); len(Differences(before, again)) > 0 {
		t.Errorf("written and read: another %v", Differences(before, again))
	}
	verdict := r.VerdictParts()
	r.Status = Success
	score := 1.0
	r.Score = &score
	r.Set(FieldFinalStatus, string(Success))
	r.Set(FieldWeightedScore, score)
	r.Set(FieldCriteriaResults, []any{map[string]any{"criterion_type": "x"}})
	r.Set(FieldPostFailure, []any{})
	r.Set(FieldGradingMS, 12.5)
	r.Set(FieldPostRunResults, []HookResult{{Command: "x"}})
	for _, key := range slices.Concat(gradeFacts, gradeStamps) {
		r.Environment.Set(key, "x")
	}
	if got := Differences(before, r.Parts()); len(got) > 0 {
		t.Errorf("a grade makes another %v", got)
	}
	if got, want := Differences(verdict, r.VerdictParts()), []Part{PartVerdictStatus, PartScore, PartResults, PartPostRun, PartStamps, PartFacts}; !slices.Equal(got, want) {
		t.Errorf("of the verdict it makes another %v, want %v", got, want)
	}
	graded := string(r.Bytes())
	for _, space := range []string{"", "\t", " \r\n "} {
		laidOut := strings.ReplaceAll(graded, "\n  ", space)
		if got := Differences(before, reread(t, laidOut).Parts()); len(got) > 0 {
			t.Errorf("another layout makes another %v", got)
		}
	}
}

// TestAnExecutionFactIsPartOfTheStatus: a grade keeps it, so it must not be
// taken away.
func TestAnExecutionFactIsPartOfTheStatus(t *testing.T) {
	text := string(executedRecord(t).Bytes())
	timedOut := strings.Replace(text, string(NotGraded), string(Timeout), 1)
	before := reread(t, timedOut).Parts()
	for _, status := range []Status{NotGraded, Success, Failure, Error} {
		now := reread(t, strings.Replace(text, string(NotGraded), string(status), 1)).Parts()
		if got := Differences(before, now); !slices.Equal(got, []Part{PartStatus}) {
			t.Errorf("%s for %s: another %v", status, Timeout, got)
		}
	}
}
