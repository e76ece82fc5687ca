package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"podgrade/regrade"
)

// A row that was finished is not called one that was begun.
func TestARunSaysWhyRowsAreRemoved(t *testing.T) {
	var out strings.Builder
	printFound(&out, regrade.Found{Rows: 4, Execute: 4, Cleared: 4, Changed: 1, Retried: 2}, regrade.RunOptions{Resume: true, Parallel: 1})
	for _, part := range []string{"4 rows to execute (of them, and first removed: 1 finished row whose task has changed, 2 finished rows that had ended badly, 1 row begun before), "} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("%q does not say %q", out.String(), part)
		}
	}
}

// A run is not begun among files that are none of it, whose owner would remove
// them with the run.
func TestARunDirectoryHoldsNothingElse(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "task.yaml"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv(runsVariable, filepath.Join(dir, "runs"))
	made := func(args ...string) (path string, err error) {
		app := &cli.App{ErrWriter: io.Discard, Commands: []*cli.Command{{Name: "run", Flags: runFlags(), Action: func(c *cli.Context) error {
			path, err = runDir(c)
			return nil
		}}}}
		if failed := app.Run(append([]string{"podgrade", "run"}, args...)); failed != nil {
			t.Fatal(failed)
		}
		return path, err
	}
	if _, err := made("--run-dir", dir); regrade.KindOf(err) != regrade.User || !strings.Contains(err.Error(), "task.yaml") {
		t.Errorf("beside a task file: %v", err)
	}
	odd := filepath.Join(dir, "a\xffb")
	if _, err := made("--run-dir", odd); regrade.KindOf(err) != regrade.User || !strings.Contains(err.Error(), `a\xffb": its path is not UTF-8`) {
		t.Errorf("a name that is not UTF-8: %v", err)
	}
	if _, err := os.Stat(odd); err == nil {
		t.Error("it was made")
	}
	for _, args := range [][]string{{"--run-dir", filepath.Join(dir, "r")}, {"--run-dir", filepath.Join(dir, "r")}, nil} {
		if _, err := made(args...); err != nil {
			t.Errorf("%q: %v", args, err)
		}
	}
}
