package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"podgrade/tasks/record"
)

// regraded changes a row's record and its line of run.json, as a grade does.
func regraded(t *testing.T, dir string, r row) record.Identity {
	t.Helper()
	id := record.Identity{VariantID: r.variant, TaskID: r.task, Replicate: r.replicate}
	if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(id.String()), record.TaskFile), []byte(r.text()), 0o600); err != nil {
		t.Fatal(err)
	}
	parsed, err := record.Parse([]byte(r.text()))
	if err != nil {
		t.Fatal(err)
	}
	if err := record.RefreshRun(dir, record.UpdateOf(id, parsed)); err != nil {
		t.Fatal(err)
	}
	return id
}

func holds(t *testing.T, path string, wants ...string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range wants {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s holds no %s:\n%s", filepath.Base(path), want, text)
		}
	}
}

// A grade is told of in every file that a run leaves.
func TestAggregatesFollowAGrade(t *testing.T) {
	good := criterion(1, "d", "found")
	dir := runOf(t, nil,
		row{"base", "s/1", 0, record.Success, "1.0", "", "s", good},
		row{"base", "s/2", 0, record.Success, "1.0", "", "s", good},
		row{"base", "o/1", 0, record.Failure, "0.0", "", "o", criterion(0, "d", "")})
	suite := filepath.Join(dir, "base", "s", record.SuiteFile)
	holds(t, suite, `"rows_passed": 2`)
	// A row of which nothing can be read any more counts as one without a result.
	if err := os.WriteFile(filepath.Join(dir, "base", "s", "2", "00", record.TaskFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	id := regraded(t, dir, row{"base", "s/1", 0, record.Failure, "0.0", "", "s", criterion(0, "d", "")})
	missed, err := RefreshAggregates(dir, []record.Identity{id})
	if err != nil {
		t.Fatal(err)
	}
	if len(missed) != 1 || missed[0].SuiteID != "s" {
		t.Errorf("missed: %v; the suite o is that of no row that was graded", missed)
	}
	holds(t, suite, `"rows_total": 2`, `"rows_failed": 1`, `"completion_rate": 0.5`)
	holds(t, filepath.Join(dir, "base", record.VariantFile), `"tasks_failed": 2`)
	holds(t, filepath.Join(dir, record.ExperimentFile), `"tasks_failed": 2`, `"description": "Two variants."`)
}

// What execute has left without a verdict, and what another program left without
// files of variants, gets none.
func TestAggregatesAreNotMadeOfNothing(t *testing.T) {
	dir := runOf(t, nil, row{"base", "s/1", 0, record.NotGraded, "null", "", "s", ""})
	suite := filepath.Join(dir, "base", "s", record.SuiteFile)
	for _, path := range []string{suite, filepath.Join(dir, record.ExperimentFile), filepath.Join(dir, "base", record.VariantFile)} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	missed, err := RefreshAggregates(dir, []record.Identity{{VariantID: "base", TaskID: "s/1"}})
	if err != nil || len(missed) > 0 {
		t.Errorf("%v, %v", missed, err)
	}
	s, _, err := record.Rebuild(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{suite, filepath.Join(dir, record.ExperimentFile)} {
		if _, err := os.Lstat(name); err == nil {
			t.Errorf("%s was made", name)
		}
	}
	if err := Rebuild(dir, dir, s); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(suite); err == nil {
		t.Error("a rebuild made a suite of rows that nobody graded")
	}
	holds(t, filepath.Join(dir, "base", record.VariantFile), `"tasks_not_graded": 1`)
}

// A name that leads elsewhere is no directory of the run, in a summary of a stranger's.
func TestAggregatesOfStrangeNamesStayInTheRun(t *testing.T) {
	good := criterion(1, "d", "")
	dir := runOf(t, nil, row{"base", "a", 0, record.Success, "1.0", "", "", good}, row{"new", "s/1", 0, record.Success, "1.0", "", "s", good})
	id := regraded(t, dir, row{"new", "s/1", 0, record.Success, "1.0", "", "../../out", good})
	path := filepath.Join(dir, record.RunFile)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(text), `"variant_id": "base"`, `"variant_id": "base/a"`)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = RefreshAggregates(dir, []record.Identity{id})
	if err == nil || !strings.Contains(err.Error(), `the variant "base/a" cannot`) || !strings.Contains(err.Error(), `"new/../../out/00" cannot`) {
		t.Errorf("error %v", err)
	}
	for _, name := range []string{"base/a/" + record.VariantFile, "base/a/" + record.VariantPage, "../out", "out"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s was made", name)
		}
	}
}

// Whoever executes rows again leaves no roll-up of what they were before.
func TestASuiteTellsOfRowsThatWereExecutedAgain(t *testing.T) {
	dir := runOf(t, nil, row{"base", "s/1", 0, record.Success, "1.0", "", "s", criterion(1, "d", "")})
	regraded(t, dir, row{"base", "s/1", 0, record.NotGraded, "null", "", "s", ""})
	s, _, err := record.Rebuild(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, s, About{Ungraded: true}); err != nil {
		t.Fatal(err)
	}
	holds(t, filepath.Join(dir, "base", "s", record.SuiteFile), `"rows_not_graded": 1`, `"passed": false`)
}
