package isolation_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"podgrade/isolation/testimages"
)

// TestAKilledPodgradeLeavesNothing: within seconds no process is left, and the
// next podgrade removes what is left on disk and in Podman's store.
func TestAKilledPodgradeLeavesNothing(t *testing.T) {
	h := host(t)
	as(t, "") // the image is there
	overEngines(t, func(t *testing.T, engine string) {
		scratch := t.TempDir()
		podgrade := exec.Command("/proc/self/exe")
		podgrade.Env = append(os.Environ(), childVariable+"="+engine, childImage+"="+testimages.Busybox().Reference, childScratch+"="+scratch, childWorkspace+"="+t.TempDir())
		said, err := podgrade.StdoutPipe()
		if err == nil {
			err = podgrade.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(said).ReadString('\n'); line != "ready\n" {
			t.Fatalf("it said %q (%v)", line, err)
		}
		if len(processesWith(t, scratch)) == 0 || len(processesWith(t, childSleep)) == 0 {
			t.Error("its processes cannot be found, so their end cannot be seen")
		}
		podgrade.Process.Kill()
		podgrade.Wait()
		deadline := time.Now().Add(3 * time.Second)
		for len(processesWith(t, scratch)) > 0 || len(processesWith(t, childSleep)) > 0 {
			if time.Now().After(deadline) {
				t.Fatalf("processes are left: %q %q", processesWith(t, scratch), processesWith(t, childSleep))
			}
			time.Sleep(20 * time.Millisecond)
		}
		o := options(t)
		o.Scratch = scratch
		if err := start(t, o).Close(); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
			t.Errorf("left in the scratch: %v (%v)", left, err)
		}
		if left := ourContainers(t, h); len(left) > 0 {
			t.Errorf("containers are left: %q", left)
		}
	})
}

// processesWith are the command lines that hold a text.
func processesWith(t *testing.T, text string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(line), text) {
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}
