package record

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func recordText(task string, status Status) string {
	return fmt.Sprintf(`{"task_id": %q, "variant_id": "v", "task_description": "", "agent_type": "none", "iteration_count": 0,
"started_at": "2026-09-18T10:00:01", "duration_seconds": 2.5, "final_status": %q, "weighted_score": null}`, task, status)
}

// tree writes files; "-> X" makes a link to X.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if to, link := strings.CutPrefix(text, "-> "); link {
			err = os.Symlink(to, path)
		} else {
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func labels(s *Summary) string {
	var all []string
	for _, row := range s.Rows {
		all = append(all, row.Identity.String()+"="+string(row.Status))
	}
	return strings.Join(all, " ")
}

func TestRebuildCountsTheRowsOfTheRunAndNoOthers(t *testing.T) {
	planted := recordText("planted", Success)
	outside := filepath.Join(t.TempDir(), TaskFile)
	os.WriteFile(outside, []byte(planted), 0o644)
	dir := tree(t, map[string]string{
		"v/b/01/task.json":                    recordText("b", Failure),
		"v/b/00/task.json":                    recordText("b", NotGraded),
		"v/s/row/00/task.json":                recordText("s/row", Error),
		"v/b/00/artifacts/b/v/x/00/task.json": planted,
		"v/b/00/artifacts/task.json":          planted,
		"v/l/00/task.json":                    "-> " + outside,
		"v/broken/00/task.json":               "{",
		"v/c/00/task.json":                    `{"task_id": "c", "task_description": "", "agent_type": "none", "iteration_count": 0}`,
		"v/b/00.bak/task.json":                recordText("b", Success),
		"nested/run.json":                     `{"task_results": []}`,
		"nested/v/x/00/task.json":             planted,
		"tool/run.json":                       `{"name": "another program's"}`,
		"tool/v/y/00/task.json":               recordText("y", Success),
		"v/b/00/task.execute.json":            planted,
		"v/link":                              "-> " + filepath.Dir(outside),
	})
	s, dropped, err := Rebuild(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := labels(s); got != "v/b/00=NOT_GRADED v/b/01=FAILURE v/s/row/00=ERROR v/y/00=SUCCESS" {
		t.Errorf("rows: %s", got)
	}
	var names []string
	for _, d := range dropped {
		names = append(names, d.Path)
	}
	if got := strings.Join(names, " "); got != "v/b/00.bak/task.json v/broken/00/task.json v/c/00/task.json v/l/00/task.json" {
		t.Errorf("dropped: %s", got)
	}
	if s.RunID != filepath.Base(dir) || s.Start.Format("05") != "01" || s.End.Sub(s.Start).Seconds() != 2.5 {
		t.Errorf("%s: %s to %s", s.RunID, s.Start, s.End)
	}
}

func TestRebuildKeepsWhatOnlyTheSummaryKnows(t *testing.T) {
	dir := tree(t, map[string]string{
		"v/b/00/task.json": recordText("b", Success),
		RunFile: `{"run_id": "other", "start_time": "2026-09-18T09:00:00", "end_time": "2026-09-18T09:30:00", "max_parallel": 0,
			"skipped_tasks": [{"path": "p", "reason": "r"}, 7], "unknown": {"kept": [1]}, "framework_version": "0.12.8",
			"environment_info": {"os": "linux"}, "task_results": [
			{"task_id": "b", "variant_id": "v", "replicate_index": 0, "status": "NOT_GRADED", "tags": ["x"], "task_path": "tasks/b.yaml",
			 "startup_ms": 3, "graded_on_host": true, "simulator_cost_usd": 0.5, "error_message": "could not be graded"},
			{"task_id": "gone", "variant_id": "v", "replicate_index": 0, "status": "SUCCESS"}]}`,
	})
	s, _, err := Rebuild(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Write(dir); err != nil {
		t.Fatal(err)
	}
	again, err := ReadSummary(dir)
	if err != nil {
		t.Fatal(err)
	}
	row := again.Rows[0]
	for name, got := range map[string][2]string{
		"rows":      {labels(again), "v/b/00=SUCCESS"},
		"tags":      {string(Encode(row.Value("tags").Length())), "1"},
		"path":      {string(row.Value("task_path")), `"tasks/b.yaml"`},
		"unknown":   {string(row.Value("startup_ms")), "3"},
		"stamp":     {string(row.Value(GradedOnHost)), ""},
		"cost":      {string(row.Value("total_cost_usd")), "0.5"},
		"message":   {string(row.Value("error_message")), "null"},
		"start":     {string(TimeOf(again.Start)), "2026-09-18T09:00:00"},
		"skipped":   {string(Encode(len(again.Skipped))), "1"},
		"framework": {again.Framework, "0.12.8"},
		"parallel":  {string(Encode(again.MaxParallel)), "1"},
		"id":        {again.RunID, filepath.Base(dir)},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %s, want %s", name, got[0], got[1])
		}
	}
	text, _ := os.ReadFile(filepath.Join(dir, RunFile))
	if !strings.Contains(string(text), `"unknown": {"kept": [1]}`) {
		t.Errorf("an unknown key is gone:\n%s", text)
	}
}

func TestRebuildRefusesWhatIsNoRun(t *testing.T) {
	dir := tree(t, map[string]string{
		"v/b/00/task.json":  recordText("b", Success),
		"empty/x":           "",
		"run/run.json":      `{"task_results": []}`,
		"run/v/b/task.json": recordText("b", Success),
		"run/v/x/y":         "",
	})
	for name, want := range map[string]error{"v/b/00": ErrIsRow, "empty": ErrNoRows, "run/v": ErrInsideRun, "absent": os.ErrNotExist} {
		if _, _, err := Rebuild(filepath.Join(dir, name)); !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestASummaryIsWrittenThroughNoLink(t *testing.T) {
	victim := filepath.Join(t.TempDir(), "victim")
	os.WriteFile(victim, []byte("mine"), 0o644)
	dir := tree(t, map[string]string{RunFile: "-> " + victim, "v/b/00/task.json": recordText("b", Success)})
	s, _, err := Rebuild(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Write(dir); !errors.Is(err, ErrNotPlain) {
		t.Errorf("%v", err)
	}
	if text, _ := os.ReadFile(victim); string(text) != "mine" {
		t.Errorf("the victim is %q", text)
	}
}

func TestCountsThatContradictAreRefused(t *testing.T) {
	dir := tree(t, map[string]string{RunFile: `{"tasks_run": 2, "tasks_succeeded": 1, "tasks_failed": 0, "tasks_error": 0, "task_results": []}`})
	if _, err := ReadSummary(dir); !errors.Is(err, ErrCounts) {
		t.Errorf("%v", err)
	}
}

func FuzzSummary(f *testing.F) {
	f.Add([]byte(`{"task_results": [{"task_id": "a", "iterations": [{"assistant_turn_count": 2}]}], "skipped_tasks": [{"path": "p", "reason": "r"}]}`))
	text, err := os.ReadFile("testdata/run.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, RunFile), data, 0o644); err != nil {
			t.Fatal(err)
		}
		s, err := ReadSummary(dir)
		if err != nil {
			return
		}
		s.Experiment("", "")
		s.Suites()
		if err := s.Write(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadSummary(dir); err != nil {
			t.Fatalf("a summary that was written cannot be read: %v", err)
		}
	})
}

// FuzzSummaryRow makes the row of any record that can be read.
func FuzzSummaryRow(f *testing.F) {
	for _, name := range []string{"testdata/minimal.json", "testdata/executed.json"} {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Parse(data)
		if err != nil {
			return
		}
		row := NewSummaryRow(r, 0, "")
		if _, err := ParseObject(row.text); err != nil {
			t.Fatalf("the row is not JSON: %v", err)
		}
		(&Summary{Rows: []*SummaryRow{row}}).Suites()
	})
}

// FuzzSmallFiles reads what else a run directory holds.
func FuzzSmallFiles(f *testing.F) {
	suite, err := os.ReadFile("testdata/suite.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(suite)
	f.Add([]byte(`{"model": "m", "agent": {"b": [1, {"c": NaN}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		os.MkdirAll(filepath.Join(dir, "v", "s"), 0o755)
		os.WriteFile(filepath.Join(dir, "v", "s", SuiteFile), data, 0o644)
		os.WriteFile(filepath.Join(dir, FingerprintFile), data, 0o644)
		for _, gate := range ReadGates(dir) {
			if len(gate.Missed) > 0 && !strings.Contains(string(data), "criterion_aggregates") {
				t.Errorf("missed %q", gate.Missed)
			}
		}
		if _, err := (Fingerprint{"model": "m", "agent": nil}).Drift(dir); err != nil {
			t.Fatal(err)
		}
	})
}
