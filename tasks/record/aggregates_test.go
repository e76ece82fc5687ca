package record

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// one is what a row of a test came to.
type one struct {
	variant, task string
	replicate     int
	status        Status
	score         float64 // below 0: none
	tokens        int64
}

func (o one) row() *SummaryRow {
	doc := NewObject()
	doc.Set(FieldTaskID, o.task)
	doc.Set(FieldVariantID, o.variant)
	doc.Set(rowReplicate, o.replicate)
	doc.Set(rowStatus, string(o.status))
	doc.Set(rowDuration, float64(10*(1+o.replicate)))
	doc.Set(FieldIterationCount, 1+o.replicate)
	doc.Set(FieldWeightedScore, nil)
	if o.score >= 0 {
		doc.Set(FieldWeightedScore, o.score)
	}
	if o.tokens > 0 {
		doc.Set(rowTokens, o.tokens)
	}
	return rowFrom(doc)
}

func summaryOf(rows ...one) *Summary {
	start := time.Date(2026, 9, 18, 10, 0, 0, 0, time.Local)
	s := &Summary{RunID: "r", Start: start, End: start.Add(time.Minute)}
	for _, row := range rows {
		s.Rows = append(s.Rows, row.row())
	}
	return s
}

func TestVariantsAndExperiment(t *testing.T) {
	s := summaryOf(
		one{"base", "a", 0, Success, 1, 100}, one{"base", "a", 1, Failure, 0.5, 50},
		one{"base", "b", 0, NotGraded, -1, 0}, one{"base", "c", 0, Error, -1, 0},
		one{"new", "a", 0, Success, 0.75, 0}, one{"new", "b", 0, Success, 1, 7}, one{"new", "c", 0, Error, 0, 0},
	)
	e := s.Experiment("exp", "Two variants.")
	golden(t, "testdata/experiment.json", Encode(e))
	for _, task := range e.Tasks {
		want := map[string]string{"a": "new true 0", "b": "new false 0", "c": "new true 0"}[task.TaskID]
		if got := fmt.Sprint(task.BestVariant, task.IsTie, task.ScoreSpread); strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(want, " ", "") {
			t.Errorf("%s: %s, want %s", task.TaskID, got, want)
		}
	}
}

func TestTheWorstReplicateIsTheTask(t *testing.T) {
	for want, statuses := range map[Status][]Status{
		Success:     {Success, Success},
		NotGraded:   {Success, NotGraded},
		Failure:     {NotGraded, Failure, Success},
		BuildFailed: {Failure, BuildFailed, Success},
		Timeout:     {Timeout, Failure},
	} {
		var rows []*SummaryRow
		for i, status := range statuses {
			rows = append(rows, one{"v", "t", i, status, -1, 0}.row())
		}
		if got := fold(rows); got.status != want || got.replicates != len(statuses) {
			t.Errorf("%v fold to %s, want %s", statuses, got.status, want)
		}
	}
}

// TestNothingMeasuredIsNoScore: not even where a row ended in an error.
func TestNothingMeasuredIsNoScore(t *testing.T) {
	v := summaryOf(one{"v", "a", 0, NotGraded, -1, 0}, one{"v", "b", 0, Error, -1, 0}).Variants()[0]
	if v.AverageScore != nil || v.PassRate != nil {
		t.Errorf("score %v, rate %v", v.AverageScore, v.PassRate)
	}
	v = summaryOf(one{"v", "a", 0, Success, 1, 0}, one{"v", "b", 0, Error, -1, 0}).Variants()[0]
	if *v.AverageScore != 0.5 || *v.PassRate != 0.5 {
		t.Errorf("an error is a miss: score %v, rate %v", *v.AverageScore, *v.PassRate)
	}
}

// suiteRow is a row of a suite whose one criterion gave labels.
func suiteRow(t *testing.T, id, expected, observed string, status Status) *SummaryRow {
	t.Helper()
	score := 0.0
	if expected == observed {
		score = 1
	}
	results := "[]"
	if observed != "" {
		results = fmt.Sprintf(`[{"result_kind": "classification", "criterion_type": "classification_match", "description": "label", "score": %v,
			"details": "first line\nsecond", "error": null, "gating": true, "observed_label": %q, "expected_label": %q}]`, score, observed, expected)
	}
	text := fmt.Sprintf(`{"task_id": "suite/%s", "task_description": "", "agent_type": "none", "iteration_count": 1, "final_status": "%s",
		"weighted_score": %v, "success_criteria_results": %s, "task_config": {"resolved": {"suite_id": "suite", "row_id": %q,
		"success_criteria": [{"type": "classification_match", "description": "label", "suite_thresholds": {"accuracy": 0.5, "f1.cat": 0.9, "absent": 0}}]}}}`,
		id, status, score, results, id)
	r, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return NewSummaryRow(r, 0, "")
}

func TestSuite(t *testing.T) {
	s := &Summary{Rows: []*SummaryRow{
		suiteRow(t, "1", "cat", "cat", Success), suiteRow(t, "2", "cat", "dog", Failure),
		suiteRow(t, "3", "dog", "dog", Success), suiteRow(t, "4", "dog", "", Error),
		one{"default", "alone", 0, Success, 1, 0}.row(),
	}}
	suites := s.Suites()
	if len(suites) != 1 {
		t.Fatalf("%d suites", len(suites))
	}
	golden(t, "testdata/suite.json", Encode(suites[0]))
	if suites[0].Passed {
		t.Error("a threshold was missed and the suite passed")
	}
	dir := t.TempDir()
	if err := suites[0].Write(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "default", "suite", SuiteFile)); err != nil {
		t.Error(err)
	}
}

func TestASuiteWithoutResultsFailsItsThresholds(t *testing.T) {
	s := (&Summary{Rows: []*SummaryRow{suiteRow(t, "1", "cat", "", Error)}}).Suites()[0]
	if s.Passed || s.Aggregates[0].Error == nil {
		t.Errorf("%+v", s.Aggregates[0])
	}
}

func TestFingerprint(t *testing.T) {
	dir := t.TempDir()
	if drift, err := (Fingerprint{"a": 1}).Drift(dir); err != nil || drift != nil {
		t.Errorf("without a file: %v, %v", drift, err)
	}
	if err := (Fingerprint{"model": "m", "repeats": 2, "agent": map[string]any{"b": 1, "a": 2.5}, "gone": true}).Write(dir); err != nil {
		t.Fatal(err)
	}
	drift, err := Fingerprint{"model": "n", "repeats": 2, "agent": map[string]any{"a": 2.5, "b": 1}, "new": 1}.Drift(dir)
	if err != nil || strings.Join(drift, " ") != "model" {
		t.Errorf("drift: %v, %v", drift, err)
	}
	os.WriteFile(filepath.Join(dir, FingerprintFile), []byte("{"), 0o644)
	if drift, err := (Fingerprint{"a": 1}).Drift(dir); err != nil || drift != nil {
		t.Errorf("a broken file: %v, %v", drift, err)
	}
}

func TestExperimentLog(t *testing.T) {
	run := t.TempDir()
	ids := []Identity{{"v", "a", 0}, {"v", "b", 0}, {"v", "c", 0}}
	for i, id := range ids[:2] {
		row, err := Create(run, id)
		if err != nil {
			t.Fatal(err)
		}
		row.Write(TaskLog, []byte(fmt.Sprintf("log %d", i)))
		row.Close()
	}
	secret := filepath.Join(t.TempDir(), "secret")
	os.WriteFile(secret, []byte("secret"), 0o644)
	if err := os.Symlink(secret, filepath.Join(run, "v/b/00", GradeLog)); err != nil {
		t.Fatal(err)
	}
	if err := WriteExperimentLog(run, ids); err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(filepath.Join(run, ExperimentLog))
	if want := "==== v/a/00/task.log\nlog 0\n==== v/b/00/task.log\nlog 1\n"; string(text) != want {
		t.Errorf("got %q", text)
	}
}
