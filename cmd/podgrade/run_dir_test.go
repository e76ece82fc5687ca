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
	for _, args := range [][]string{{"--run-dir", filepath.Join(dir, "r")}, {"--run-dir", filepath.Join(dir, "r")}, nil} {
		if _, err := made(args...); err != nil {
			t.Errorf("%q: %v", args, err)
		}
	}
}
