package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"podgrade/isolation"
	"podgrade/isolation/testimages"
	"podgrade/isolation/testimages/stored"
	"podgrade/oci"
	"podgrade/tasks"
	"podgrade/tasks/record/fixture"
)

// These tests run the built program on real cells: the directory in
// PODGRADE_TEST_BUILD, which `make test` sets; by hand build/ of this tree.

func buildDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("PODGRADE_TEST_BUILD")
	if dir == "" {
		dir, _ = filepath.Abs("../../build")
	}
	if _, err := os.Stat(filepath.Join(dir, "bin", "podgrade")); err != nil {
		t.Fatalf("no built podgrade: %v; run make build", err)
	}
	return dir
}

var byodPin struct {
	once sync.Once
	pin  oci.Pin
}

// byodImage imports the image of upstream's smoke task once, and returns its
// pin.
func byodImage(t *testing.T) oci.Pin {
	t.Helper()
	byodPin.once.Do(func() { byodPin.pin = importBYOD(t) })
	if !byodPin.pin.Known() {
		t.Fatal("the image could not be imported")
	}
	return byodPin.pin
}

func importBYOD(t *testing.T) oci.Pin {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	host, err := isolation.Start(ctx, isolation.Options{Libexec: filepath.Join(buildDir(t), "libexec", "podgrade"), Scratch: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	pin, err := stored.Put(ctx, host, testimages.BYOD())
	if err != nil {
		t.Fatal(err)
	}
	return pin
}

// TestCells runs scripts that grade rows in real cells.
func TestCells(t *testing.T) {
	pin := byodImage(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/cell",
		Setup: func(env *testscript.Env) error {
			for _, name := range []string{"HOME", "XDG_RUNTIME_DIR", "XDG_DATA_HOME", "USER"} {
				env.Setenv(name, os.Getenv(name))
			}
			env.Setenv("PODGRADE", filepath.Join(buildDir(t), "bin", "podgrade"))
			env.Setenv("BYOD", pin.ID)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"row":      writeRow,
			"status":   exitStatus,
			"planhash": planHash,
			"sed":      substitute,
		},
	})
}

// substitute is the command `sed s/OLD/NEW/ FILE`, of the first OLD as it
// stands.
func substitute(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 || strings.Count(args[0], "/") != 3 {
		ts.Fatalf("usage: sed s/OLD/NEW/ FILE")
	}
	parts := strings.Split(args[0], "/")
	file := ts.MkAbs(args[1])
	text, err := os.ReadFile(file)
	ts.Check(err)
	changed := strings.Replace(string(text), parts[1], parts[2], 1)
	if changed == string(text) {
		ts.Fatalf("%s holds no %s", args[1], parts[1])
	}
	ts.Check(os.WriteFile(file, []byte(changed), 0o644))
}

// slowRow is a row whose only command is the given line.
func slowRow(t *testing.T, pin oci.Pin, line string) string {
	t.Helper()
	row, err := fixture.Write(fixture.Order{Task: byod, Form: fixture.Pinned, Out: t.TempDir(), Pin: pin,
		Change: func(task *tasks.Task) {
			task.SuccessCriteria = tasks.Criteria{&tasks.RunCommand{
				Base:    tasks.Common{Type: tasks.TypeRunCommand, Description: "d", Weight: 1, PassThreshold: 0.9},
				Command: line, Timeout: 120, StdoutMatch: "exact",
			}}
		}})
	if err != nil {
		t.Fatal(err)
	}
	return row
}

// evaluateBuilt starts the built program on a row.
func evaluateBuilt(t *testing.T, row string) *exec.Cmd {
	t.Helper()
	// Tests that run under nohup ignore SIGHUP, and what they start would
	// inherit that; what is caught here is at its default there.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP)
	defer signal.Stop(caught)
	cmd := exec.Command(filepath.Join(buildDir(t), "bin", "podgrade"), "evaluate", row, "--allow-recorded-commands")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// TestInterruptLeavesTheRow sends the signals of a keyboard
// and of a terminal that goes away while a command of a cell runs.
func TestInterruptLeavesTheRow(t *testing.T) {
	for _, sent := range []syscall.Signal{syscall.SIGINT, syscall.SIGHUP} {
		t.Run(sent.String(), func(t *testing.T) { interruptLeavesTheRow(t, sent) })
	}
}

func interruptLeavesTheRow(t *testing.T, sent syscall.Signal) {
	row := slowRow(t, byodImage(t), "sleep 100")
	before, err := os.ReadFile(filepath.Join(row, "task.json"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := evaluateBuilt(t, row)
	time.Sleep(2 * time.Second)
	cmd.Process.Signal(sent)
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 130 {
		t.Errorf("ended with %v", err)
	}
	if after, _ := os.ReadFile(filepath.Join(row, "task.json")); string(after) != string(before) {
		t.Error("the record was changed")
	}
	if entries, _ := os.ReadDir(row); len(entries) != 2 {
		t.Errorf("the row holds %v", entries)
	}
}

// TestMemoryWhileACommandPrints: 600 MB of output, or 3 GB, cost at most 100 MiB.
func TestMemoryWhileACommandPrints(t *testing.T) {
	megabytes := 600
	if os.Getenv("PODGRADE_TEST_SOAK") != "" {
		megabytes = 3000
	}
	row := slowRow(t, byodImage(t), "dd if=/dev/zero bs=1M count="+strconv.Itoa(megabytes)+" 2>/dev/null")
	cmd := evaluateBuilt(t, row)
	if err := cmd.Wait(); err != nil {
		t.Errorf("ended with %v", err)
	}
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if usage.Maxrss > 100<<10 {
		t.Errorf("podgrade took %d KiB", usage.Maxrss)
	}
	text, err := os.ReadFile(filepath.Join(row, "task.json"))
	if err != nil {
		t.Fatal(err)
	}
	if want := `"podgrade_stdout_bytes": ` + strconv.Itoa(megabytes<<20); !strings.Contains(string(text), want) {
		t.Errorf("the record holds no %s", want)
	}
}

// TestWhatTheWorkerSaysIsNeutral: what Podman and the runtime print comes from
// images and records, and it comes through the worker.
func TestWhatTheWorkerSaysIsNeutral(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "bin", "podgrade")
	for _, copied := range []string{"bin/podgrade", "libexec/podgrade/podgrade-init", "libexec/podgrade/podgrade-libpod"} {
		name := filepath.Join(dir, copied)
		text, err := os.ReadFile(filepath.Join(buildDir(t), copied))
		if err == nil {
			err = errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, text, 0o755))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	worker := []byte("#!/bin/sh\nprintf 'said \\033[2J\\n' >&2\nexit 1\n")
	if err := os.WriteFile(filepath.Join(dir, "libexec/podgrade/podgrade-worker"), worker, 0o755); err != nil {
		t.Fatal(err)
	}
	row, err := fixture.Write(fixture.Order{Task: byod, Form: fixture.Unpinned, Out: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"evaluate", row, "--allow-recorded-commands", "--engine", "bundle"}, {"images", "show", "busybox"}} {
		cmd := exec.Command(program, args...)
		cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), `said \x1b[2J`) {
			t.Errorf("%s: %v: %s", args[0], err, out)
		}
		if strings.ContainsRune(string(out), 0x1b) {
			t.Errorf("%s: an escape sequence reaches the terminal: %q", args[0], out)
		}
	}
}
