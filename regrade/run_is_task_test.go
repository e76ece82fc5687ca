package regrade

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"podgrade/tasks/record"
)

// A task directory that is a run's too would show answers to what sees it; a run
// below it does not, and is no reason to refuse.
func TestATaskDirectoryIsNoRunDirectory(t *testing.T) {
	dir := t.TempDir()
	run := filepath.Join(dir, "runs")
	if err := os.Mkdir(run, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dir, run string
		refused  bool
	}{{dir, run, false}, {"", run, false}, {dir, dir, true}} {
		err := refuseTaskDirOfRun(c.dir, c.run)
		if (KindOf(err) == Refused) != c.refused || !c.refused && err != nil {
			t.Errorf("task directory %q, run %q: %v", c.dir, c.run, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, record.RunFile), []byte(`{"task_results": []}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := refuseTaskDirOfRun(dir, run); KindOf(err) != Refused || !strings.Contains(err.Error(), "podgrade evaluate") {
		t.Errorf("with an old run in it: %v", err)
	}
}
