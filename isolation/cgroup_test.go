package isolation_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"podgrade/isolation"
	"podgrade/oci"
)

// Where a control group can be taken over is decided by facts; these are of
// hosts that we do not have.
func TestAControlGroupIsTakenOverOnlyWhereItIsDelegated(t *testing.T) {
	scope := isolation.GroupFacts{Version2: true, Own: "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/run-r1.scope",
		Writable: true, Controllers: []string{"cpu", "memory", "pids"}}
	for name, c := range map[string]struct {
		change func(*isolation.GroupFacts)
		says   string
	}{
		"systemd-run --user --scope":         {func(*isolation.GroupFacts) {}, ""},
		"a host with the hybrid layout":      {func(f *isolation.GroupFacts) { f.Version2 = false }, "no control groups of version 2"},
		"the scope of a log-in":              {func(f *isolation.GroupFacts) { f.Writable = false }, "not delegated to this user"},
		"a shell that podgrade was typed to": {func(f *isolation.GroupFacts) { f.Others = 1 }, "1 other processes"},
		"a manager that delegates nothing":   {func(f *isolation.GroupFacts) { f.Controllers = nil }, "no controller"},
	} {
		f := scope
		c.change(&f)
		if got := f.NotDelegated(); (got == "") != (c.says == "") || !strings.Contains(got, c.says) {
			t.Errorf("%s: %q, want %q", name, got, c.says)
		}
	}
}

// fakeGroup makes a directory with the files of a control group, which are
// plain files: no kernel looks at them.
func fakeGroup(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhatAFakeControlGroupTreeSaysIsRead(t *testing.T) {
	root, self := t.TempDir(), filepath.Join(t.TempDir(), "cgroup")
	own := filepath.Join(root, "user.slice", "x.scope")
	if err := os.WriteFile(self, []byte("0::/user.slice/x.scope\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	fakeGroup(t, own, map[string]string{"cgroup.procs": "1\n" + strconv.Itoa(os.Getpid()) + "\n", "cgroup.subtree_control": "", "cgroup.controllers": "cpuset cpu io memory pids\n"})
	ours := func(pid int) bool { return pid == os.Getpid() }
	f, err := isolation.FactsBelow(root, self, ours)
	if err != nil || f.Own != own || !f.Writable || f.Others != 1 || !slices.Equal(f.Controllers, []string{"cpu", "memory", "pids"}) {
		t.Errorf("found %+v, %v", f, err)
	}
	if err := os.Chmod(filepath.Join(own, "cgroup.procs"), 0o400); err != nil {
		t.Fatal(err)
	}
	if f, err := isolation.FactsBelow(root, self, ours); err != nil || f.Writable {
		t.Errorf("with a file that cannot be written: %+v, %v", f, err)
	}
	if err := os.WriteFile(self, []byte("4:memory:/a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if f, err := isolation.FactsBelow(root, self, ours); err == nil {
		t.Errorf("without a group of version 2: %+v", f)
	}
}

// Of a fake tree: podgrade's own processes are moved, and the controllers are
// switched on for the groups below.
func TestTakingAFakeControlGroupTreeOverMovesOurProcesses(t *testing.T) {
	own := t.TempDir()
	old := filepath.Join(own, "podgrade-cell-of-a-dead-one")
	if err := os.Mkdir(old, 0o755); err != nil {
		t.Fatal(err)
	}
	fakeGroup(t, own, map[string]string{"cgroup.procs": "41\n42\n", "cgroup.subtree_control": ""})
	fakeGroup(t, filepath.Join(own, "podgrade-main"), map[string]string{"cgroup.procs": ""})
	enabled, err := isolation.TakeOver(isolation.GroupFacts{Version2: true, Own: own, Writable: true, Controllers: []string{"memory"}})
	if err != nil || !slices.Equal(enabled, []string{"memory"}) {
		t.Errorf("controllers %q, %v", enabled, err)
	}
	for name, want := range map[string]string{"podgrade-main/cgroup.procs": "42", "cgroup.subtree_control": "+memory"} {
		if text, err := os.ReadFile(filepath.Join(own, name)); err != nil || string(text) != want { // the last that was written
			t.Errorf("%s holds %q, %v", name, text, err)
		}
	}
	if _, err := os.Stat(old); err == nil {
		t.Error("the group of a dead cell is left")
	}
}

var allLimits = oci.Limits{MemoryMB: 64, CPUs: 1.5, PIDs: 40}

// limitFiles are those of a fake group for all limits.
func limitFiles() map[string]string {
	return map[string]string{"memory.max": "", "memory.swap.max": "", "cpu.max": "", "pids.max": "", "cgroup.procs": "7\n"}
}

// Limits are enforced only when the group says, when it is read back, what was
// asked for; the group is a fake, so that it can say something else.
func TestLimitsAreReadBackFromAFakeControlGroupTree(t *testing.T) {
	for name, c := range map[string]struct {
		file, text string // what the group says in the end; "": what was written
		says       string
	}{
		"as asked for":    {},
		"another memory":  {"memory.max", "max\n", `memory.max of its control group is "max"`},
		"another quota":   {"cpu.max", "max 100000\n", "cpu.max"},
		"more processes":  {"pids.max", "max\n", "pids.max"},
		"some swap":       {"memory.swap.max", "max\n", "memory.swap.max"},
		"no process":      {"cgroup.procs", "", "holds no process"},
		"a line feed too": {"memory.max", "67108864\n", ""},
	} {
		dir := t.TempDir()
		fakeGroup(t, filepath.Join(dir, "podgrade-cell-one"), limitFiles())
		kept, err := isolation.MakeGroup(dir, "one", oci.LimitControllers(), allLimits, func(group string) {
			if c.file != "" {
				fakeGroup(t, group, map[string]string{c.file: c.text})
			}
		})
		if c.says == "" && !slices.Equal(kept, []string{"memory", "cpus", "pids"}) || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: enforced %q, %v", name, kept, err)
		}
	}
	dir := t.TempDir()
	files := limitFiles()
	delete(files, "memory.swap.max") // a kernel that counts no swap
	fakeGroup(t, filepath.Join(dir, "podgrade-cell-one"), files)
	if kept, err := isolation.MakeGroup(dir, "one", []string{"memory"}, allLimits, func(string) {}); err != nil || !slices.Equal(kept, []string{"memory"}) {
		t.Errorf("without swap: enforced %q, %v", kept, err)
	}
}

// A control group that does not take the cell, here a fake, is none: the cell
// starts without it and says that its limits are not enforced, and where they
// are required no command runs.
func TestACellThatAFakeControlGroupDoesNotTakeIsNotLimited(t *testing.T) {
	overEngines(t, func(t *testing.T, engine string) {
		for _, required := range []bool{false, true} {
			h := start(t, options(t))
			defer h.Close()
			tree := t.TempDir()
			fakeGroup(t, filepath.Join(tree, "podgrade-cell-"+isolation.RunName(h)+"-cell-1"), limitFiles())
			isolation.UseGroups(h, tree, oci.LimitControllers())
			o := order(t, as(t, ""))
			asksForLimits(&o)
			o.Engine, o.RequireLimits = engine, required
			c, err := h.Open(ctx(t), o)
			if required {
				if err == nil || faultKind(err) != isolation.Refusal || !strings.Contains(err.Error(), "systemd-run --user --scope") {
					t.Errorf("with required limits: %v", err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			alive(t, c)
			made := c.Made()
			if !slices.Equal(made.LimitsNotKept, []string{"memory", "cpus", "pids"}) || specOf(t, c).Linux.Resources != nil {
				t.Errorf("enforced %q, not enforced %q, specification %+v", made.LimitsKept, made.LimitsNotKept, specOf(t, c).Linux.Resources)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
