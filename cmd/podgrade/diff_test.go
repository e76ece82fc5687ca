package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"podgrade/tasks/record"
	"podgrade/tasks/record/fixture"
)

// verdictRow is a row with a verdict of one criterion.
func verdictRow(t *testing.T, status record.Status, score float64, details string) string {
	t.Helper()
	dir, err := fixture.Write(fixture.Order{Task: byod, Form: fixture.Unpinned, Out: filepath.Join(t.TempDir(), "run")})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, record.TaskFile)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r, err := record.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	r.Set(record.FieldFinalStatus, string(status))
	r.Set(record.FieldWeightedScore, score)
	r.Set(record.FieldCriteriaResults, []any{map[string]any{
		"criterion_type": "run_command", "description": "the \x1b[31mmarker", "score": score, "details": details, "pass_threshold": 0.9, "gating": true,
	}})
	if err := os.WriteFile(file, r.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestDiffForPrograms: --json is the format of docs/grading.md, whole and in
// ASCII, and the exit code says whether the verdicts are the same.
func TestDiffForPrograms(t *testing.T) {
	good, bad := verdictRow(t, record.Success, 1, "it is there"), verdictRow(t, record.Failure, 0, "it is not there")
	other := verdictRow(t, record.Success, 1, "it is there too")
	diff := func(code int, a, b string) []comparison {
		t.Helper()
		var stdout, stderr bytes.Buffer
		if got := run(t.Context(), []string{"podgrade", "diff", "--json", a, b}, &stdout, &stderr); got != code || stderr.Len() > 0 {
			t.Errorf("exit code %d, want %d: %s", got, code, &stderr)
		}
		if strings.ContainsFunc(stdout.String(), func(r rune) bool { return r > 0x7e || r < 0x20 && r != '\n' }) {
			t.Errorf("not printable ASCII: %q", &stdout)
		}
		var list []comparison
		decoder := json.NewDecoder(&stdout)
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&list); err != nil || decoder.More() {
			t.Fatalf("%v: %s", err, &stdout)
		}
		if len(list) != 1 || list[0].Row == "" {
			t.Fatalf("%+v", list)
		}
		return list
	}
	if same := diff(0, good, good)[0]; !same.Equal || len(same.Differences)+len(same.Notes) > 0 || same.Differences == nil || same.Notes == nil {
		t.Errorf("%+v", same)
	}
	if noted := diff(0, good, other)[0]; !noted.Equal || len(noted.Notes) != 1 || noted.Notes[0].Before != "it is there" || noted.Notes[0].After != "it is there too" {
		t.Errorf("%+v", noted)
	}
	found := map[string]difference{}
	differs := diff(1, good, bad)[0]
	for _, d := range differs.Differences {
		found[d.What] = d
	}
	if differs.Equal || found["status"].Before != "SUCCESS" || found["status"].After != "FAILURE" {
		t.Errorf("%+v", differs)
	}
	criterion := false
	for _, d := range differs.Differences {
		criterion = criterion || d.Criterion == 1 && d.Description == "the \x1b[31mmarker"
	}
	if !criterion {
		t.Errorf("no difference names the criterion: %+v", differs)
	}
}
