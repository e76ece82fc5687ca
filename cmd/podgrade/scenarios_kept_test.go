package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"podgrade/tasks/record"
)

// Scenarios of spec/regrade.md 5: what a grade leaves as it was, in the record, in
// the run's rates and outside of the row.

// fields are those of a record, each as its text.
func (s *scene) fields(name string) map[string]json.RawMessage {
	s.t.Helper()
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(s.text(name)), &all); err != nil {
		s.t.Fatal(err)
	}
	for field, value := range all {
		var plain bytes.Buffer
		if err := json.Compact(&plain, value); err != nil {
			s.t.Fatal(err)
		}
		all[field] = plain.Bytes()
	}
	return all
}

// disowned removes the signature of a row whose record a test changes.
func (s *scene) disowned() {
	s.t.Helper()
	if err := os.Remove(s.path(row + "/" + record.ExecuteEnvelope)); err != nil {
		s.t.Fatal(err)
	}
}

// gradedFields are the fields that a grade computes anew.
var gradedFields = []string{
	record.FieldFinalStatus, record.FieldWeightedScore, record.FieldCriteriaResults, record.FieldPostFailure,
	record.FieldGradingMS, record.FieldPostRunResults, record.FieldEnvironment,
}

func TestScenarioFieldsAreKept(t *testing.T) {
	t.Run("D-28, D-34: a field that nobody knows, and the run's own surroundings, stay as they are", func(t *testing.T) {
		s := executed(t, "cat >made", passing)
		s.disowned()
		s.edit(rowRecord, `"iterations": `, `"from_the_future": [1, 2.50, {"a": null}],`+"\n  "+`"iterations": `)
		s.edit(rowRecord, `"environment_info": {`, `"environment_info": {"api_routing": "of the run", "future_fact": 1.0,`)
		version := s.read(row, record.TaskFile).Info[record.Version].(string)
		s.edit(rowRecord, `"podgrade_version": "`+version+`"`, `"podgrade_version": "of the run"`)
		before := s.fields(rowRecord)
		s.podgrade(0, "evaluate", row, trusting)
		after, info := s.fields(rowRecord), s.is(row, "SUCCESS", 1).Info
		for field, value := range before {
			if !slices.Contains(gradedFields, field) && !bytes.Equal(value, after[field]) {
				t.Errorf("%s was %s and is %s", field, value, after[field])
			}
		}
		if len(after) != len(before) {
			t.Errorf("%d fields were there, and %d are", len(before), len(after))
		}
		for key, want := range map[string]any{
			"api_routing": "of the run", "future_fact": json.Number("1.0"), record.Version: "of the run", record.GradedByVersion: version,
		} {
			if info[key] != want {
				t.Errorf("%s is %v, not %v", key, info[key], want)
			}
		}
	})
}

func TestScenarioRates(t *testing.T) {
	t.Run("D-24: a row that ran out of time gives a run without a verdict no rate", func(t *testing.T) {
		s := newScene(t)
		s.write("ends.yaml", sceneTask(t, "cat >made", passing))
		s.write("late.yaml", strings.Replace(sceneTask(t, "cat >made", passing), "task_id: t\n", "task_id: late\n", 1))
		s.podgrade(0, "execute", "ends.yaml", "late.yaml", "--run-dir", "r")
		// The least time that a task may have is too long for a test.
		s.edit("r/default/late/00/"+record.TaskFile, `"final_status": "NOT_GRADED"`, `"final_status": "TIMEOUT"`)
		s.podgrade(0, "report", "r", "--rebuild")
		run := s.fields("r/" + record.RunFile)
		if string(run["tasks_failed"]) != "1" || string(run["tasks_not_graded"]) != "1" {
			t.Errorf("%s failed, %s not graded", run["tasks_failed"], run["tasks_not_graded"])
		}
		variant := s.fields("r/default/" + record.VariantFile)
		if rate := run["pass_rate"]; rate != nil && string(rate) != "null" {
			t.Errorf("the run's pass rate is %s", rate)
		}
		for _, rate := range []string{"pass_rate", "average_score"} {
			if string(variant[rate]) != "null" {
				t.Errorf("%s is %s", rate, variant[rate])
			}
		}
	})
}

func TestScenarioWritesThroughNoLink(t *testing.T) {
	t.Run("D-39: what a grade writes it writes through no link", func(t *testing.T) {
		s := executed(t, "cat >made", `success_criteria:
  - {type: run_command, command: "seq 1 5000; echo x >written", description: it prints and writes}
`)
		s.write("victim", "intact")
		if err := os.Mkdir(s.path("victims"), 0o755); err != nil {
			t.Fatal(err)
		}
		names := []string{record.GradeLog, record.GradeCellLog, record.GradeCellFile, record.ExecuteFile, record.GradeEnvelope, record.RowPage}
		for _, name := range names {
			must(t, linked(s, row+"/"+name, "victim"))
		}
		for _, name := range []string{record.CriterionLogs, record.GradeChanges} {
			must(t, linked(s, row+"/"+name, "victims"))
		}
		_, said := s.podgrade(0, "evaluate", row, trusting)
		s.is(row, "SUCCESS", 1)
		for _, name := range []string{record.GradeLog, record.GradeCellLog, record.GradeCellFile, record.ExecuteFile, record.CriterionLogs, record.GradeChanges} {
			if !strings.Contains(said, name) {
				t.Errorf("nothing is said of %s:\n%s", name, said)
			}
		}
		if text := s.text("victim"); text != "intact" {
			t.Errorf("the victim is %q", text)
		}
		if entries, err := os.ReadDir(s.path("victims")); err != nil || len(entries) > 0 {
			t.Errorf("%v %v", entries, err)
		}
		// The record itself: what its name leads to is not read, and not written.
		must(t, os.Rename(s.path(rowRecord), s.path("elsewhere.json")))
		must(t, os.Symlink(s.path("elsewhere.json"), s.path(rowRecord)))
		before := s.text("elsewhere.json")
		s.podgrade(2, "evaluate", row, trusting)
		if s.text("elsewhere.json") != before {
			t.Error("the record was written through a link")
		}
		if info, err := os.Lstat(filepath.Join(s.dir, rowRecord)); err != nil || info.Mode()&os.ModeSymlink == 0 {
			t.Errorf("%v %v", info, errors.Join(err))
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
