package record_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"podgrade/tasks/record"
)

const smallRecord = `{"task_id": "suite/one", "variant_id": "default", "task_description": "", "agent_type": "none", "iteration_count": 0, "final_status": "SUCCESS"}`

// rowsOf makes the files and asks what they are.
func rowsOf(t *testing.T, files map[string]string) (int, error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		switch text {
		case "pipe":
			if err := syscall.Mkfifo(path, 0o644); err != nil {
				t.Fatal(err)
			}
		case "link":
			outside := filepath.Join(t.TempDir(), "outside")
			if err := os.WriteFile(outside, []byte(smallRecord), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(outside, path); err != nil {
				t.Fatal(err)
			}
		default:
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	return record.RowsOfRun(root)
}

func TestRowsOfRun(t *testing.T) {
	const row = "default/suite/one/00/task.json"
	for name, test := range map[string]struct {
		files map[string]string
		want  int // 0: not a run
	}{
		"a summary":                   {map[string]string{"run.json": `{"task_results": [{}, {}]}`}, 2},
		"rows without a summary":      {map[string]string{row: smallRecord, "default/suite/one/12/task.json": smallRecord}, 2},
		"a broken summary and rows":   {map[string]string{"run.json": "{", row: smallRecord}, 1},
		"another program's run.json":  {map[string]string{"run.json": `{"name": "x"}`}, 0},
		"nothing":                     {nil, 0},
		"a directory that has a run":  {map[string]string{"2026/" + row: smallRecord}, 0},
		"a row":                       {map[string]string{"task.json": smallRecord}, 0},
		"a row of another task":       {map[string]string{"default/other/00/task.json": smallRecord}, 0},
		"a record in a workspace":     {map[string]string{"default/x/00/artifacts/" + row: smallRecord}, 0},
		"a link to a record":          {map[string]string{row: "link"}, 0},
		"a link to a summary":         {map[string]string{"run.json": "link"}, 0},
		"a pipe in a record's place":  {map[string]string{row: "pipe"}, 0},
		"a pipe in a summary's place": {map[string]string{"run.json": "pipe"}, 0},
		"no record":                   {map[string]string{row: "[]"}, 0},
		"a record below many others":  {map[string]string{strings.Repeat("d/", 40) + row: smallRecord, row: smallRecord}, 1},
	} {
		got, err := rowsOf(t, test.files)
		if got != test.want || (err != nil) != (test.want == 0) {
			t.Errorf("%s: %d rows (%v), want %d", name, got, err, test.want)
		}
		if err != nil && !errors.Is(err, record.ErrNotARun) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAnEmptySummaryIsARun: its rows are counted, and there is none.
func TestAnEmptySummaryIsARun(t *testing.T) {
	if rows, err := rowsOf(t, map[string]string{"run.json": `{"task_results": []}`}); rows != 0 || err != nil {
		t.Errorf("%d rows (%v)", rows, err)
	}
}
