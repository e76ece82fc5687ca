//go:build unified

package isolation_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"podgrade/isolation"
	"podgrade/isolation/hostfacts"
	"podgrade/oci"
)

// These tests need a host with control groups of version 2 alone, and a group
// that is delegated to the user who runs them and that holds nothing else:
//
//	systemd-run --user --scope -p Delegate=yes TEST -test.run ^TestUnified
//
// `make test-unified` runs them so, in a virtual machine.

// groupOf is the control group of a host's only cell.
func groupOf(t testing.TB, h *isolation.Host) string {
	t.Helper()
	var found []string
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), "podgrade-cell-"+isolation.RunName(h)+"-") {
			found = append(found, path)
		}
		return nil
	})
	must(t, err)
	if len(found) != 1 {
		t.Fatalf("groups of cells: %q", found)
	}
	return found[0]
}

func groupFile(t testing.TB, group, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(group, name))
	must(t, err)
	return strings.TrimSpace(string(text))
}

// D-94: what a task asks for is enforced by the kernel in cells of both engines,
// and recorded as asked for and as enforced.
func TestUnifiedLimitsAreEnforced(t *testing.T) {
	overEngines(t, func(t *testing.T, engine string) {
		h := host(t)
		o := order(t, as(t, ""))
		o.Engine, o.RequireLimits = engine, true
		o.Plan.Limits = oci.Limits{MemoryMB: 48, CPUs: 0.2, PIDs: 40}
		c := openOn(t, h, o)
		made := c.Made()
		if !slices.Equal(made.LimitsKept, []string{"memory", "cpus", "pids", "output", "time"}) || len(made.LimitsNotKept) > 0 || made.LimitsAsked != o.Plan.Limits {
			t.Errorf("asked %+v, enforced %q, not enforced %q", made.LimitsAsked, made.LimitsKept, made.LimitsNotKept)
		}
		group := groupOf(t, h)
		for name, want := range map[string]string{"memory.max": "50331648", "memory.swap.max": "0", "cpu.max": "20000 100000", "pids.max": "64"} {
			if got := groupFile(t, group, name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		want(t, c, "cat /proc/self/cgroup", "0::/\n")
		// Files in memory: no limit of single processes counts them.
		if got := sh(t, c, "dd if=/dev/zero of=/dev/shm/x bs=1M count=60"); got.Code == 0 {
			t.Errorf("60 MB of memory were used: %+v", got)
		}
		want(t, c, "rm -f /dev/shm/x; cat hello.txt", "hello\n") // it is the command that failed
		run(t, c, 2*time.Second, "/bin/sh", "-c", "while :; do :; done")
		if stat := groupFile(t, group, "cpu.stat"); !strings.Contains(stat, "nr_throttled ") || strings.Contains(stat, "nr_throttled 0") {
			t.Errorf("nothing was throttled: %s", stat)
		}
		isolation.EndBy(c) // and made again in the same group
		alive(t, c)
		if got := groupFile(t, group, "memory.max"); got != "50331648" {
			t.Errorf("made again with memory.max %q", got)
		}
		must(t, c.Close())
		if _, err := os.Stat(group); !os.IsNotExist(err) {
			t.Errorf("the group is left: %v", err)
		}
	})
}

// Processes are counted in the whole cell, not by the user id alone: the floor of
// single commands is lifted here.
func TestUnifiedProcessesAreCounted(t *testing.T) {
	overEngines(t, func(t *testing.T, engine string) {
		h := host(t)
		o := order(t, as(t, ""))
		o.Engine, o.RequireLimits = engine, true
		o.Plan.Limits = oci.Limits{PIDs: 40}
		c := openOn(t, h, o)
		group := groupOf(t, h)
		alive(t, c) // and the supervisor has its threads
		now, err := strconv.Atoi(groupFile(t, group, "pids.current"))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(group, "pids.max"), []byte(strconv.Itoa(now+10)), 0))
		if got := sh(t, c, "for i in $(seq 20); do sleep 5 & done; wait"); !strings.Contains(got.out, "fork") {
			t.Errorf("20 processes with 10 allowed: %+v", got)
		}
		if events := groupFile(t, group, "pids.events"); strings.Contains(events, "max 0") {
			t.Errorf("the kernel refused no process: %s", events)
		}
	})
}

// With limits and without, cells of both engines have the same surroundings.
func TestUnifiedBothEnginesGiveTheSameSurroundings(t *testing.T) {
	for name, change := range map[string]func(*isolation.Order){
		"with limits": func(o *isolation.Order) { o.Plan.Limits = oci.Limits{MemoryMB: 512, PIDs: 100, CPUs: 1} },
		"without":     nil,
	} {
		bundle, podman := dump(t, isolation.EngineBundle, as(t, "1000"), change), dump(t, isolation.EnginePodman, as(t, "1000"), change)
		if diff := cmp.Diff(strings.Split(bundle, "\n"), strings.Split(podman, "\n")); diff != "" {
			t.Errorf("%s: bundle (-) and podman (+) differ:\n%s", name, diff)
		}
	}
}

// The doctor finds what the tests of limits find.
func TestUnifiedDoctorFindsNothingToMend(t *testing.T) {
	f := facts(t, options(t))
	for _, finding := range hostfacts.Examine(f).Checks {
		if finding.Status != hostfacts.OK {
			t.Errorf("%+v", finding)
		}
	}
	if f.Cgroups.Layout != hostfacts.LayoutUnified {
		t.Errorf("control groups: %+v", f.Cgroups)
	}
}
