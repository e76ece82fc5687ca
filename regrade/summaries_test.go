package regrade

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"podgrade/tasks/record"
)

// Writing the summary of a large run takes as long as many rows: what took long
// is done less often.
func TestASlowSummaryIsWrittenLessOften(t *testing.T) {
	row := filepath.Join(t.TempDir(), "default", "task", "00")
	run := filepath.Dir(filepath.Dir(filepath.Dir(row)))
	if err := os.WriteFile(filepath.Join(run, record.RunFile), []byte(`{"task_results": []}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newSummaries(time.Millisecond, func(string) {})
	for _, test := range []struct {
		took    time.Duration
		pending int
	}{{time.Hour, 1}, {0, 0}} {
		s.took, s.written = test.took, time.Now().Add(-time.Minute)
		s.graded(row, record.Identity{VariantID: "default", TaskID: "task"})
		if len(s.pending) != test.pending {
			t.Errorf("after a write of %v %d runs are left to write, want %d", test.took, len(s.pending), test.pending)
		}
	}
}
