package record

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// summarised is a row with a status and, if not negative, a score.
func summarised(t *testing.T, task string, status Status, score float64) *SummaryRow {
	t.Helper()
	r, err := New(executed(t))
	if err != nil {
		t.Fatal(err)
	}
	r.Set(FieldTaskID, task)
	r.TaskID, r.Status = task, status
	if score >= 0 {
		r.Score = &score
	}
	return NewSummaryRow(r, 0, "tasks/add-footer.yaml")
}

func TestSummary(t *testing.T) {
	start := time.Date(2026, 9, 18, 10, 0, 0, 0, time.Local)
	s := &Summary{
		RunID: "2026-09-18_10-00-00", Start: start, End: start.Add(90 * time.Second), MaxParallel: 4, Framework: "0.1.0",
		Skipped: []Skipped{{Path: "tasks/old.yaml", Reason: "skip: true"}},
		Rows: []*SummaryRow{
			summarised(t, "a", Success, 1), summarised(t, "b", Failure, 0.5),
			summarised(t, "c", Timeout, -1), summarised(t, "d", NotGraded, -1),
		},
	}
	s.Rows[2].Explain("its cell is gone")
	dir := t.TempDir()
	if err := s.Write(dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, RunFile))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/run.json", text)
}

// TestNoRateWithoutAMeasure: the four cases of spec/run-record.md 6.2.
func TestNoRateWithoutAMeasure(t *testing.T) {
	type row struct {
		status   Status
		measured bool
	}
	for name, test := range map[string]struct {
		rows []row
		pass any
	}{
		"no row":                    {nil, nil},
		"only ungraded rows":        {[]row{{NotGraded, false}}, nil},
		"ungraded rows and a crash": {[]row{{NotGraded, false}, {Error, false}}, nil},
		"D-24: ungraded rows and one that ran out of time": {[]row{{NotGraded, false}, {Timeout, false}}, nil},
		"a crash alone": {[]row{{Error, false}}, 0.0},
		"one measured":  {[]row{{NotGraded, false}, {Error, false}, {Success, true}}, 0.5},
	} {
		c := &counts{}
		for _, row := range test.rows {
			c.add(row.status, row.measured)
		}
		var got any
		if rate := c.public().PassRate; rate != nil {
			got = *rate
		}
		if got != test.pass {
			t.Errorf("%s: %v, want %v", name, got, test.pass)
		}
	}
}
