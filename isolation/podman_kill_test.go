package isolation_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"podgrade/isolation"
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

// A worker that is killed takes Podman's service along, and Podman's containers stay:
// they are removed all the same before podgrade forgets them.
func TestAKilledWorkersContainersAreRemoved(t *testing.T) {
	i := as(t, "1000")
	o := options(t)
	h := start(t, o)
	cell := order(t, i)
	cell.Engine = isolation.EnginePodman
	c := openOn(t, h, cell)
	want(t, c, "cat hello.txt", "hello\n")
	_, err := h.Hold(ctx(t), i)
	must(t, err)
	scratch := isolation.Whole(o).Scratch
	runs, err := filepath.Glob(scratch + "/run-*")
	if err != nil || len(runs) != 1 {
		t.Fatalf("%q, %v", runs, err)
	}
	run := runs[0]
	must(t, named(scratch, "podgrade-worker")[0].Kill())
	for began := time.Now(); !h.Lost(); time.Sleep(time.Millisecond) {
		if time.Since(began) > 5*time.Second {
			t.Fatal("the worker is not missed")
		}
	}
	must(t, c.Close())
	h.Close() // it may say that it could not remove everything
	other := start(t, options(t))
	defer func() { must(t, other.Close()) }()
	out, err := other.RunPodman(ctx(t), "ps", "--all", "--external", "--format", "{{.Names}}")
	if err != nil || strings.Contains(out, "podgrade-"+strings.TrimPrefix(run, scratch+"/")) {
		t.Errorf("containers are left, %v: %q", err, out)
	}
	allGone(t, o.Scratch)
	nothingLeft(t, o)
}
