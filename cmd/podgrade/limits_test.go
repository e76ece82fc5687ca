package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"podgrade/tasks"
	"podgrade/tasks/record/fixture"
)

// TestD94RequireLimitsRefusesBeforeAnyCommand: exit 2, the remedy, and the
// record as it was; without the flag the row is graded and stamped.
func TestD94RequireLimitsRefusesBeforeAnyCommand(t *testing.T) {
	row, err := fixture.Write(fixture.Order{Task: byod, Form: fixture.Pinned, Out: t.TempDir(), Pin: byodImage(t),
		Change: func(task *tasks.Task) { task.Sandbox.Limits.MaxMemoryMB = 512 }})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(row, "task.json")
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(buildDir(t), "bin", "podgrade")
	cmd := exec.Command(program, "evaluate", row, "--allow-recorded-commands", "--require-limits")
	said, _ := cmd.CombinedOutput() // its status is looked at
	if code := cmd.ProcessState.ExitCode(); code != 2 || !strings.Contains(string(said), "without --require-limits") || !strings.Contains(string(said), "memory") {
		t.Errorf("exit %d: %s", code, said)
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
		t.Errorf("the record was changed, %v", err)
	}
	cmd = exec.Command(program, "evaluate", row, "--allow-recorded-commands")
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	after, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(after), `"limits_not_enforced": "memory"`) {
		t.Errorf("the row is not stamped, %v", err)
	}
}
