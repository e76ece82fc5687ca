package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"podgrade/isolation"
	"podgrade/regrade"
	"podgrade/tasks/record"
)

// What is no part of the run is named and not removed with it.
func TestForeignFilesAreNotRemovedWithARun(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{record.RunFile: `{"task_results": []}`, "letter": "precious"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	_, err := openRun(dir)
	if regrade.KindOf(err) != regrade.Refused || !strings.Contains(err.Error(), "letter") {
		t.Fatalf("with a file of somebody else: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "letter")); err != nil {
		t.Fatal(err)
	}
	run, err := openRun(dir)
	if err != nil {
		t.Fatal(err)
	}
	run.close()
}

// A run that rows are run in is not removed under them, which would lose what
// they come to; and no run begins in one that is being removed.
func TestARunUnderWayIsNotRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.MkdirAll(filepath.Join(dir, "default", "task", "00"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, record.RunFile), []byte(`{"task_results": []}`), 0o644); err != nil {
		t.Fatal(err)
	}
	running, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := regrade.LockRun(running); err != nil {
		t.Fatal(err)
	}
	if _, err := openRun(dir); regrade.KindOf(err) != regrade.Refused || !errors.Is(err, regrade.ErrRunning) {
		t.Errorf("while rows run: %v", err)
	}
	running.Close()
	run, err := openRun(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer run.close()
	other, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := regrade.LockRun(other); !errors.Is(err, regrade.ErrRunning) {
		t.Errorf("while it is removed: %v", err)
	}
}

// What keeps other hosts away is a file in the run: over NFS a run could not be
// removed as long as it is open.
func TestOtherHostsAreLetInBeforeARunIsRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	file := filepath.Join(dir, record.RunFile)
	if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(file, []byte(`{"task_results": []}`), 0o644)); err != nil {
		t.Fatal(err)
	}
	run, err := openRun(dir)
	if err != nil {
		t.Fatal(err)
	}
	released := 0
	run.release = func() {
		released++
		if _, err := os.Lstat(file); err != nil {
			t.Errorf("when it is released: %v", err)
		}
	}
	if err := run.remove(t.Context(), isolation.Options{Scratch: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	run.close()
	if released != 1 {
		t.Errorf("it was released %d times", released)
	}
}
