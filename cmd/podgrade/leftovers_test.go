package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"podgrade/isolation/testimages"
)

// TestManyRowsLeaveNothing: many rows, eight at once, leave no container, process,
// mount or directory of podgrade's own.
func TestManyRowsLeaveNothing(t *testing.T) {
	rows := "24"
	if os.Getenv("PODGRADE_TEST_SOAK") != "" {
		rows = "64"
	}
	s := newScene(t)
	scratch, temp := t.TempDir(), t.TempDir()
	image := testImage(t, testimages.BusyboxAs("1000"))
	s.write("task.yaml", fmt.Sprintf(`task_id: t
description: d
initial_prompt: p
agent: {type: command, command: "sleep 300 >/dev/null 2>&1 & cat >made"}
sandbox: {driver: docker, docker: {image: %q, network: none}}
success_criteria:
  - {type: file_contains, path: made, includes: [p], description: d}
`, image))
	cmd := exec.Command(filepath.Join(buildDir(t), "bin", "podgrade"), "run", "task.yaml", "--run-dir", "r", "--repeats", rows, "-j", "8", "--scratch", scratch)
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), "TMPDIR="+temp)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if own := containersOf(t, cmd.Process.Pid); own != "" {
		t.Errorf("containers are left: %s", own)
	}
	for _, dir := range []string{scratch, temp} {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left in %s: %v, %v", dir, left, err)
		}
	}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(mounts), scratch) {
		t.Errorf("mounts are left (%v):\n%s", err, mounts)
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range lines {
		if line, err := os.ReadFile(name); err == nil && strings.Contains(string(line), scratch) {
			t.Errorf("a process is left: %q", line)
		}
	}
	if text, err := os.ReadFile(filepath.Join(s.dir, "r/run.json")); err != nil || !strings.Contains(string(text), `"tasks_succeeded": `+rows) {
		t.Errorf("%v", err)
	}
}

// TestARunOutlivesItsWorker: when the worker is killed, the rows under way are
// nobody's fault, the next ones have another worker, and what was lost can be
// retried by name.
func TestARunOutlivesItsWorker(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	scratch := t.TempDir()
	s.write("task.yaml", sceneTask(t, "sleep 1; cat >made", passing))
	cmd := exec.Command(filepath.Join(buildDir(t), "bin", "podgrade"), "run", "task.yaml", "--run-dir", "r", "--repeats", "6", "-j", "2", "--scratch", scratch, "--json")
	cmd.Dir = s.dir
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	// The agent of the row that begins after the first grade sleeps for a second.
	for graded := false; lines.Scan(); {
		graded = graded || strings.Contains(lines.Text(), `"row_graded"`)
		if graded && strings.Contains(lines.Text(), `"row_started"`) {
			time.Sleep(300 * time.Millisecond)
			killWorker(t, scratch)
			break
		}
	}
	io.Copy(io.Discard, out)
	if code := exitCode(cmd.Wait()); code != 1 {
		t.Errorf("exit code %d", code)
	}
	s.podgrade(0, "run", "task.yaml", "--run-dir", "r", "--repeats", "6", "--resume", "--retry", "infra")
	// What the killed worker left in the scratch, gc removes at the latest.
	s.podgrade(0, "gc", "--scratch", scratch)
	if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
		t.Errorf("left in the scratch: %v, %v", left, err)
	}
	text, err := os.ReadFile(filepath.Join(s.dir, "r/run.json"))
	if passed := strings.Count(string(text), `"SUCCESS"`); err != nil || passed != 6 {
		t.Errorf("%d of 6 rows: %v", passed, err)
	}
}

// killWorker kills the workers of a scratch directory.
func killWorker(t *testing.T, scratch string) {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	killed := 0
	for _, name := range names {
		line, err := os.ReadFile(name)
		if err != nil || !strings.HasPrefix(string(line), "podgrade-worker") || !strings.Contains(string(line), scratch) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err == nil {
			killed++
		}
	}
	if killed == 0 {
		t.Error("there was no worker to kill")
	}
}
