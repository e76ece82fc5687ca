package main

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"podgrade/tasks/record"
)

// lingering is a criterion whose command leaves what ignores signals and has left
// its session, and ends when the test says so: its view is the workspace itself.
const lingering = `success_criteria:
  - {type: run_command, command: "setsid sh -c \"trap '' TERM HUP INT; sleep 600\" >/dev/null 2>&1 & until test -e go; do sleep 0.1; done", description: d, timeout: 300}
`

// TestAKilledGradeLeavesNothing: SIGKILL of podgrade while it grades, at any moment,
// leaves no process 3 seconds later and no record changed; after the next start there is
// no mount, directory or container either, and the row is graded.
func TestAKilledGradeLeavesNothing(t *testing.T) {
	kills := 2
	if os.Getenv("PODGRADE_TEST_SOAK") != "" {
		kills = 50
	}
	check(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
	defer unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	for _, engine := range bothEngines {
		t.Run(engine, func(t *testing.T) {
			s, scratch := executed(t, "cat >made", lingering), t.TempDir()
			args := []string{"evaluate", row, trusting, "--engine", engine, "--scratch", scratch, "--workspace-view", "bind"}
			before := s.text(rowRecord)
			var killed []int
			for n := range kills {
				killed = append(killed, killGrade(t, s, args, n%3 == 0))
				if after := s.text(rowRecord); after != before {
					t.Errorf("the record was changed:\n%s", after)
				}
			}
			last := s.start(args...)
			s.waits(last, "sleep")
			s.write(row+"/"+record.ArtifactsDir+"/t/go", "")
			s.ends(last, 0)
			s.is(row, "SUCCESS", 1)
			for _, pid := range killed {
				if own := containersOf(t, pid); own != "" {
					t.Errorf("containers are left: %s", own)
				}
			}
			if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
				t.Errorf("left in the scratch: %v, %v", left, err)
			}
			files, err := filepath.Glob("/proc/[0-9]*/mountinfo")
			check(t, err)
			for _, file := range files {
				if mounts, err := os.ReadFile(file); err == nil && strings.Contains(string(mounts), scratch) {
					t.Errorf("mounts are left, as %s shows", file)
				}
			}
			if left, _ := filepath.Glob(s.path(row + "/*.tmp")); len(left) > 0 {
				t.Errorf("drafts are left: %q", left)
			}
			if _, err := os.Lstat(s.path(row + "/" + record.ExecuteFile)); err != nil {
				t.Error(err)
			}
		})
	}
}

// killGrade kills a grade while its command runs, or at any moment before, and waits
// until nothing of it is left: what outlives podgrade becomes a child of the test.
func killGrade(t *testing.T, s *scene, args []string, running bool) (pid int) {
	t.Helper()
	cmd := exec.Command(filepath.Join(buildDir(t), "bin", "podgrade"), args...)
	cmd.Dir = s.dir
	check(t, cmd.Start())
	for end := time.Now().Add(time.Minute); running && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if pid, _ := descendant(cmd.Process.Pid, "sleep"); pid > 0 {
			break
		}
	}
	if !running {
		time.Sleep(time.Duration(rand.IntN(500)) * time.Millisecond)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Errorf("it had ended: %v", err)
	}
	cmd.Wait()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Errorf("it ended by itself: %v", cmd.ProcessState)
	}
	for end := time.Now().Add(3 * time.Second); len(children(os.Getpid())) > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("3 seconds later these are left: %q", children(os.Getpid()))
		}
	}
	return cmd.Process.Pid
}
