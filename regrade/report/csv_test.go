package report

import (
	"bytes"
	"encoding/csv"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"podgrade/tasks/record"
)

// measuredRow is a record that says all that a table shows.
const measuredRow = `{"task_id": "a", "variant_id": "base", "task_description": "d", "agent_type": "none", 
"started_at": "2026-09-18T10:00:01", "duration_seconds": 62.5, "iteration_count": 2,
"final_status": "FAILURE", "weighted_score": 0.3333333333333333, "model_used": "a-model", "actual_commands": 0, "error_message": "=1+1; -2\nnext, \"line\"",
"error_details": {"error_category": "timeout"}, "iterations": [{"iteration": 1, "token_usage": {"uncached_input_tokens": 5, "total_cost_usd": null}}],
"total_token_usage": {"uncached_input_tokens": 0, "output_tokens": 1234, "cache_creation_input_tokens": 1000, "cache_read_input_tokens": 1e3, "total_cost_usd": 1e-05},
"success_criteria_results": [{"criterion_type": "llm_judge", "score": 0.3, "token_usage": {"total_cost_usd": 2.0}}],
"environment_info": {"graded_without_network": 3, "graded_with_replaced_tools": ["/bin/a;=b"], "graded_live": true},
"task_config": {"resolved": {"tags": ["one", "lang:go"]}}}`

// silentRow is a record that says next to nothing.
const silentRow = `{"task_id": "b/2", "task_description": "d", "agent_type": "none", "started_at": "2026-09-18T10:00:01", "iteration_count": 0, "final_status": "ERROR", "weighted_score": null}`

func summaryOf(t *testing.T, records ...string) *record.Summary {
	t.Helper()
	s := &record.Summary{RunID: "2026-09-18_10-00-00"}
	for i, text := range records {
		r, err := record.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		s.Rows = append(s.Rows, record.NewSummaryRow(r, i, "tasks/a.yaml"))
	}
	return s
}

func csvOf(t *testing.T, s *record.Summary) string {
	t.Helper()
	var b bytes.Buffer
	if err := CSV(&b, s); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestCSV(t *testing.T) {
	golden(t, "testdata/rows.csv", []byte(csvOf(t, summaryOf(t, measuredRow, silentRow))))
}

// TestCSVShowsNoMeasureAsEmpty: of a row that says nothing, no column that could
// be a measure holds anything, and least of all 0.
func TestCSVShowsNoMeasureAsEmpty(t *testing.T) {
	table, err := csv.NewReader(strings.NewReader(csvOf(t, summaryOf(t, silentRow)))).ReadAll()
	if err != nil || len(table) != 2 {
		t.Fatalf("%q, %v", table, err)
	}
	filled := map[string]string{
		"run_id": "2026-09-18_10-00-00", "variant_id": "default", "task_id": "b/2", "replicate_index": "0", "status": "ERROR",
		"cost_complete": "True", "task_path": "tasks/a.yaml",
	}
	for i, name := range table[0] {
		if table[1][i] != filled[name] {
			t.Errorf("%s is %q, want %q", name, table[1][i], filled[name])
		}
	}
}

// TestNoStringOfARecordBecomesAFormula: whatever a record or a summary of a
// stranger says, a line is a row, and no field is a formula or moves a cursor.
func TestNoStringOfARecordBecomesAFormula(t *testing.T) {
	dir := t.TempDir()
	bad := quoted("=cmd|' /C calc'!A0\x1b[2J\u202e\r\n\"x\";=1,@y\x00")
	row := `"replicate_index": 1`
	for _, key := range []string{"task_id", "variant_id", "status", "weighted_score", "model_used", "input_tokens", "output_tokens", "total_tokens", "total_cost_usd",
		"cost_complete", "actual_commands", "error_category", "error_message", "task_path", record.GradedWithoutNetwork} {
		row += `, "` + key + `": ` + bad
	}
	nested := `{"a": [` + bad + `]}`
	text := `{"run_id": ` + bad + `, "task_results": [{` + row + `, "tags": [` + bad + `, 1, null]}, {"task_id": "n", "model_used": ` + nested + `, "total_tokens": NaN,
"agent_cost_usd": -Infinity, "judge_cost_usd": -2.5, "weighted_score": ` + nested + `, "error_message": [` + bad + `], "tags": 7, "duration": "=1"}]}`
	if err := os.WriteFile(filepath.Join(dir, record.RunFile), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := record.ReadSummary(dir)
	if err != nil {
		t.Fatal(err)
	}
	got := csvOf(t, s)
	if lines := strings.Count(got, "\n"); lines != 3 || strings.Count(got, "\r\n") != 3 {
		t.Errorf("%d lines for two rows:\n%q", lines, got)
	}
	for _, r := range strings.ReplaceAll(got, "\r\n", "") {
		if r < ' ' || r == 0x7f || r == '\u202e' {
			t.Errorf("it holds %U", r)
		}
	}
	table, err := csv.NewReader(strings.NewReader(got)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	formulas := 0
	for _, line := range table[1:] {
		for i, field := range line {
			if strings.Contains(field, "=cmd") {
				formulas++
			}
			if table[0][i] == "judge_cost_usd" {
				continue // a number may be less than nothing
			}
			for _, part := range strings.Split(field, ";") {
				if part = strings.TrimLeft(part, ` "`); part != "" && strings.Contains("=+-@", part[:1]) {
					t.Errorf("%s of %q is a formula: %q", table[0][i], table[1][2], field)
				}
			}
		}
	}
	if formulas < 16 {
		t.Errorf("%d fields of the stranger's came through", formulas)
	}
	if at := strings.Split(got, "\r\n")[2]; !strings.Contains(at, ",-2.5,") || strings.Contains(strings.ToLower(at), "nan") || strings.Contains(strings.ToLower(at), ",-inf") {
		t.Errorf("the numbers of %q", at)
	}
}
