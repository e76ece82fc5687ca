package record

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestTwoRunsOfOneSecondShareNothing(t *testing.T) {
	base := filepath.Join(t.TempDir(), "runs", RunID(time.Date(2026, 9, 18, 10, 0, 0, 0, time.Local)))
	seen := map[string]bool{}
	for range 3 {
		dir, err := NewRunDir(base, false)
		if err != nil {
			t.Fatal(err)
		}
		if seen[dir] {
			t.Errorf("%s was given twice", dir)
		}
		seen[dir] = true
	}
	if !seen[base] || !seen[base+"_2"] || !seen[base+"_3"] || filepath.Base(base) != "2026-09-18_10-00-00" {
		t.Errorf("made: %v", seen)
	}
	for range 2 {
		if dir, err := NewRunDir(base, true); err != nil || dir != base {
			t.Errorf("the named directory: %s, %v", dir, err)
		}
	}
}

func TestLatestIsALinkOrNothing(t *testing.T) {
	runs := t.TempDir()
	for _, name := range []string{"a", "b"} {
		if err := PointLatest(filepath.Join(runs, name)); err != nil {
			t.Fatal(err)
		}
		if to, err := os.Readlink(filepath.Join(runs, Latest)); err != nil || to != name {
			t.Errorf("latest leads to %q, %v", to, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(runs, "*.tmp")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	os.Remove(filepath.Join(runs, Latest))
	if err := os.WriteFile(filepath.Join(runs, Latest), []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := PointLatest(filepath.Join(runs, "a")); err == nil {
		t.Error("a file was replaced by the link")
	}
	if text, _ := os.ReadFile(filepath.Join(runs, Latest)); string(text) != "mine" {
		t.Errorf("the file is %q", text)
	}
}

func TestCreate(t *testing.T) {
	run := t.TempDir()
	id := Identity{VariantID: "v", TaskID: "suite/row-1", Replicate: 3}
	for range 2 {
		row, err := Create(run, id)
		if err != nil {
			t.Fatal(err)
		}
		if want := filepath.Join(run, "v/suite/row-1/03"); row.Dir != want || row.Replicate() != 3 {
			t.Errorf("made %s, want %s", row.Dir, want)
		}
		if err := row.Write(TaskFile, []byte("{}")); err != nil {
			t.Error(err)
		}
		row.Close()
	}
	if info, err := os.Stat(filepath.Join(run, "v/suite")); err != nil || info.Mode().Perm()&^0o755 != 0 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestCreateMakesNothingElsewhere(t *testing.T) {
	outside := t.TempDir()
	for name, id := range map[string]Identity{
		"a task that climbs":    {VariantID: "v", TaskID: "../../x"},
		"a variant that climbs": {VariantID: "..", TaskID: "x"},
		"a variant of two":      {VariantID: "a/b", TaskID: "x"},
		"an empty element":      {VariantID: "v", TaskID: "a//b"},
		"an absolute task":      {VariantID: "v", TaskID: "/x"},
		"no variant":            {TaskID: "x"},
		"no task":               {VariantID: "v"},
		"a byte of zero":        {VariantID: "v", TaskID: "a\x00b"},
		"an agent's directory":  {VariantID: "v", TaskID: "x/artifacts/y"},
	} {
		if row, err := Create(t.TempDir(), id); err == nil {
			t.Errorf("%s: made %s", name, row.Dir)
			row.Close()
		}
	}
	run := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(run, "v")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(run, "w"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, variant := range []string{"v", "w"} {
		if _, err := Create(run, Identity{VariantID: variant, TaskID: "x"}); !errors.Is(err, ErrNotPlain) {
			t.Errorf("%s: %v", variant, err)
		}
	}
	if left, _ := os.ReadDir(outside); len(left) > 0 {
		t.Errorf("made through a link: %v", left)
	}
}

func TestRunOf(t *testing.T) {
	dir := tree(t, map[string]string{
		"owned/run.json":               `{"task_results": []}`,
		"owned/v/s/row/02/x":           "",
		"interrupted/v/s/row/02/x":     "",
		"elsewhere/rows/of/mine/x":     "",
		"tool/run.json":                `{"name": "x"}`,
		"tool/v/s/row/02/x":            "",
		"owned/v/s/row/02/artifacts/x": "",
	})
	id := Identity{VariantID: "v", TaskID: "s/row", Replicate: 2}
	for row, want := range map[string]string{
		"owned/v/s/row/02":       "owned",
		"interrupted/v/s/row/02": "interrupted",
		"tool/v/s/row/02":        "tool",
		"elsewhere/rows/of/mine": "elsewhere/rows/of/mine",
	} {
		if got := RunOf(filepath.Join(dir, row), id); got != filepath.Join(dir, want) {
			t.Errorf("%s belongs to %s, want %s", row, got, want)
		}
	}
}
