package isolation_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"podgrade/isolation"
	"podgrade/isolation/testimages"
	"podgrade/oci"
)

// engines are those that the tests of this file and of the dump run over.
var engines = []string{isolation.EngineBundle, isolation.EnginePodman}

// onEngine opens a cell on one engine.
func onEngine(t testing.TB, engine string, i isolation.Image, change func(*isolation.Order)) isolation.Cell {
	t.Helper()
	return open(t, i, func(o *isolation.Order) {
		o.Engine = engine
		if change != nil {
			change(o)
		}
	})
}

// overEngines runs a test over both.
func overEngines(t *testing.T, test func(t *testing.T, engine string)) {
	for _, engine := range engines {
		t.Run(engine, func(t *testing.T) { test(t, engine) })
	}
}

// ourContainers are the names of the cells of the Podman engine in the store.
func ourContainers(t testing.TB, h *isolation.Host) []string {
	t.Helper()
	out, err := h.RunPodman(ctx(t), "ps", "--all", "--filter", "label=podgrade.cell", "--format", "{{.Names}}")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(out)
}

func TestCellSaysWhichEngineMadeItAndWhy(t *testing.T) {
	for asked, want := range map[string]struct{ engine, reason string }{
		"":                     {isolation.EngineBundle, "default"},
		isolation.EngineAuto:   {isolation.EngineBundle, "default"},
		isolation.EngineBundle: {isolation.EngineBundle, "asked for"},
		isolation.EnginePodman: {isolation.EnginePodman, "asked for"},
	} {
		m := onEngine(t, asked, as(t, ""), nil).Made()
		if m.Engine != want.engine || m.EngineReason != want.reason || !m.Verified {
			t.Errorf("asked for %q: made by %q because %q, verified %v", asked, m.Engine, m.EngineReason, m.Verified)
		}
	}
	o := order(t, as(t, ""))
	o.Engine = "docker"
	if _, err := host(t).Open(ctx(t), o); faultKind(err) != isolation.Refusal || !strings.Contains(err.Error(), "auto, bundle, podman") {
		t.Errorf("an engine that there is not: %v", err)
	}
}

func TestUsersAndCapabilitiesAreTheSameOnBothEngines(t *testing.T) {
	t.Parallel()
	docker, err := oci.CapabilityMask(oci.DockerCapabilities())
	if err != nil {
		t.Fatal(err)
	}
	overEngines(t, func(t *testing.T, engine string) {
		for _, c := range []struct {
			user     string
			uid, gid int
			change   func(*isolation.Order)
			bounding uint64
			root     bool
		}{
			{"", 0, 0, nil, 0, true},
			{"", 0, 0, withDockerCapabilities, docker, true},
			{"1000", 1000, 1000, withDockerCapabilities, docker, false},
			{"65532", 65532, 65532, nil, 0, false},
			{testimages.GraderName, 1000, 1000, nil, 0, false},
			{"1000:65532", 1000, 65532, nil, 0, false},
		} {
			cell := onEngine(t, engine, as(t, c.user), c.change)
			effective := uint64(0)
			if c.root {
				effective = c.bounding
			}
			none := fmt.Sprintf("%016x", 0)
			want(t, cell, "echo $(id -u) $(id -g); grep ^Cap /proc/self/status | cut -f2; grep -E '^(NoNewPrivs|Seccomp):' /proc/self/status | cut -f2",
				fmt.Sprintf("%d %d\n%s\n%016x\n%016x\n%016x\n%s\n1\n2\n", c.uid, c.gid, none, effective, effective, c.bounding, none))
			want(t, cell, "cat hello.txt && echo more >> hello.txt && mkdir d && mv hello.txt d/ && cat d/hello.txt", "hello\nhello\nmore\n")
			want(t, cell, "cd "+cell.Made().Home+" && echo x > .home-file && rm .home-file", "")
		}
	})
}

func TestATimeoutEndsEverythingOnBothEngines(t *testing.T) {
	t.Parallel()
	overEngines(t, func(t *testing.T, engine string) {
		cell := onEngine(t, engine, as(t, ""), withDockerCapabilities)
		got := run(t, cell, time.Second, "/bin/sh", "-c", "trap '' TERM; setsid sh -c \"trap '' TERM; while :; do sleep 1; done\" & while :; do sleep 1; done")
		if !got.TimedOut || got.CellEnded {
			t.Errorf("it ended as %+v", got.Exit)
		}
		want(t, cell, "ps -o comm | grep -c sleep; true", "0\n")
	})
}

func TestACommandThatKillsAllLeavesTheCellAlive(t *testing.T) {
	overEngines(t, func(t *testing.T, engine string) {
		cell := onEngine(t, engine, as(t, ""), withDockerCapabilities)
		if got := sh(t, cell, "env kill -9 -1; echo still here"); got.Code != 137 || got.CellEnded {
			t.Errorf("it ended as %+v: %s", got.Exit, got.out)
		}
		alive(t, cell)
	})
}

func TestACellIsMadeAgainOnTheSameViews(t *testing.T) {
	overEngines(t, func(t *testing.T, engine string) {
		cell := onEngine(t, engine, as(t, "1000"), nil)
		want(t, cell, "echo kept > kept.txt; echo gone > /tmp/gone", "")
		isolation.EndBy(cell)
		want(t, cell, "cat kept.txt; ls /tmp", "kept\n")
		if err := cell.CheckImage(ctx(t)); err != nil {
			t.Error(err)
		}
	})
}

func TestOutputOfAnySizeArrivesWhole(t *testing.T) {
	t.Parallel()
	overEngines(t, func(t *testing.T, engine string) {
		cell := onEngine(t, engine, as(t, ""), nil)
		got := sh(t, cell, "head -c 20000000 /dev/zero | tr '\\0' x; head -c 3000 /dev/zero | tr '\\0' y >&2")
		if x, y := strings.Count(got.out, "x"), strings.Count(got.out, "y"); got.Code != 0 || x != 20000000 || y != 3000 {
			t.Errorf("ended with %d, %d and %d bytes arrived", got.Code, x, y)
		}
	})
}

func TestClosingACellRemovesItsContainer(t *testing.T) {
	h := host(t)
	var wait sync.WaitGroup
	for range 4 {
		o := order(t, as(t, "1000"))
		o.Engine = isolation.EnginePodman
		wait.Go(func() {
			for range 2 {
				cell, err := h.Open(ctx(t), o)
				if err != nil {
					t.Error(err)
					return
				}
				if err := errors.Join(cell.Close(), cell.Close()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	if left := ourContainers(t, h); len(left) > 0 {
		t.Errorf("containers are left: %q", left)
	}
}

func TestAContainerWhoseSupervisorCannotStartIsRemoved(t *testing.T) {
	h := host(t)
	image := as(t, "")
	o := options(t)
	broken := t.TempDir()
	if err := os.WriteFile(filepath.Join(broken, "podgrade-init"), []byte("no program\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"podgrade-worker", "podgrade-libpod"} {
		if err := os.Symlink(filepath.Join(o.Libexec, name), filepath.Join(broken, name)); err != nil {
			t.Fatal(err)
		}
	}
	o.Libexec = broken
	second := start(t, o)
	failing := order(t, image)
	failing.Engine = isolation.EnginePodman
	_, err := second.Open(ctx(t), failing)
	if faultKind(err) != isolation.Infrastructure || !strings.Contains(err.Error(), "supervisor did not start") {
		t.Errorf("opening gave %v", err)
	}
	if left := ourContainers(t, h); len(left) > 0 {
		t.Errorf("containers are left: %q", left)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

// TestWithoutItsHookAContainerIsRefused: what Podman makes by itself is not
// what was asked for, and Verify says so before any command runs.
func TestWithoutItsHookAContainerIsRefused(t *testing.T) {
	h := start(t, options(t))
	defer h.Close()
	image := as(t, "1000")
	if err := isolation.RemoveHook(ctx(t), h); err != nil {
		t.Fatal(err)
	}
	o := order(t, image)
	o.Engine, o.Plan.Capabilities = isolation.EnginePodman, oci.DockerCapabilities()
	_, err := h.Open(ctx(t), o)
	if err == nil {
		t.Fatal("it was opened")
	}
	for _, difference := range []string{"CapEff: asked for 0000000000000000", "/run/.containerenv"} {
		if !strings.Contains(err.Error(), difference) {
			t.Errorf("no word of %q in: %v", difference, err)
		}
	}
	if left := ourContainers(t, h); len(left) > 0 {
		t.Errorf("containers are left: %q", left)
	}
}

func TestAKilledServiceIsInfrastructure(t *testing.T) {
	h := start(t, options(t))
	defer h.Close()
	o := order(t, as(t, ""))
	o.Engine = isolation.EnginePodman
	cell, err := h.Open(ctx(t), o)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(300*time.Millisecond, func() { isolation.KillService(h) })
	_, err = cell.Run(ctx(t), isolation.Command{Argv: []string{"/bin/sleep", "60"}, Env: testEnv, Dir: "/"})
	if !errors.Is(err, isolation.ErrCellLost) || faultKind(err) != isolation.Infrastructure {
		t.Errorf("the command ended as %v", err)
	}
	if err := cell.Close(); err != nil {
		t.Error(err)
	}
	if left := ourContainers(t, h); len(left) > 0 {
		t.Errorf("containers are left: %q", left)
	}
	alive(t, openOn(t, h, o)) // with another service
}

// The service is of no use to who cannot ask it any more: both are made again,
// and the rows after this one go on.
func TestAKilledCallerIsInfrastructure(t *testing.T) {
	h := start(t, options(t))
	defer h.Close()
	o := order(t, as(t, ""))
	o.Engine = isolation.EnginePodman
	cell, err := h.Open(ctx(t), o)
	if err != nil {
		t.Fatal(err)
	}
	isolation.KillCaller(h)
	if err := cell.Close(); err != nil {
		t.Error(err)
	}
	alive(t, openOn(t, h, o))
	if left := ourContainers(t, h); len(left) != 1 {
		t.Errorf("containers: %q", left)
	}
}

func TestARemovedContainerIsInfrastructure(t *testing.T) {
	h := host(t)
	cell := onEngine(t, isolation.EnginePodman, as(t, ""), nil)
	if err := cell.CheckImage(ctx(t)); err != nil {
		t.Fatal(err)
	}
	for _, name := range ourContainers(t, h) {
		if _, err := h.RunPodman(ctx(t), "rm", "--force", "--time=0", name); err != nil {
			t.Fatal(err)
		}
	}
	if err := cell.CheckImage(ctx(t)); !errors.Is(err, isolation.ErrNoImage) {
		t.Errorf("the image is still checked as whole: %v", err)
	}
	_, err := cell.Run(ctx(t), isolation.Command{Argv: []string{"/bin/true"}, Env: testEnv, Dir: "/"})
	if !errors.Is(err, isolation.ErrCellLost) {
		t.Errorf("a command ended as %v", err)
	}
}

func TestAMissingImageIsNamedByThePodmanEngine(t *testing.T) {
	real := as(t, "")
	for name, layers := range map[string][]string{
		"its layers are there": real.Layers, "they are gone": {filepath.Join(t.TempDir(), "none", "diff")}, "another driver": nil,
	} {
		o := order(t, real)
		o.Engine, o.Image.Pin.ID, o.Image.Layers = isolation.EnginePodman, strings.Repeat("4", 64), layers
		if _, err := host(t).Open(ctx(t), o); !errors.Is(err, isolation.ErrNoImage) || !strings.Contains(err.Error(), "444444444444") {
			t.Errorf("%s: opening gave %v", name, err)
		}
	}
}

// What an image holds is read from its layers only where the kernel mounts them for
// Podman too: a program that mounts them notes what is deleted in ways of its own.
func TestLayersOfAMountProgramAreLookedAtThroughPodman(t *testing.T) {
	store := t.TempDir()
	layer := filepath.Join(store, "overlay", "empty", "diff")
	if err := errors.Join(os.MkdirAll(layer, 0o755), os.Mkdir(filepath.Join(store, "overlay", "l"), 0o755),
		os.WriteFile(filepath.Join(store, "overlay", "empty", "link"), []byte("SHORT"), 0o644),
		os.Symlink("../empty/diff", filepath.Join(store, "overlay", "l", "SHORT"))); err != nil {
		t.Fatal(err)
	}
	for driver, want := range map[string]string{"overlay": "", "overlay with a mount program": "/bin/sh"} {
		o := order(t, as(t, ""))
		o.Engine, o.Programs = isolation.EnginePodman, []string{"sh"}
		o.Image.Driver, o.Image.Layers = driver, []string{layer}
		if got := openOn(t, another(t), o).Made().Programs["sh"]; got != want {
			t.Errorf("%s: sh is %q, want %q", driver, got, want)
		}
	}
}

// childVariable makes the test binary a podgrade that opens one cell of the
// engine it names, and waits to be killed.
const (
	childVariable  = "PODGRADE_TEST_CHILD_ENGINE"
	childImage     = "PODGRADE_TEST_CHILD_IMAGE"
	childScratch   = "PODGRADE_TEST_CHILD_SCRATCH"
	childWorkspace = "PODGRADE_TEST_CHILD_WORKSPACE"
	childSleep     = "31415926" // seconds
)

func init() {
	if engine := os.Getenv(childVariable); engine != "" {
		fmt.Println(child(engine))
		os.Exit(1)
	}
}

// child never returns without an error.
func child(engine string) error {
	ctx := context.Background()
	h, err := isolation.Start(ctx, isolation.Options{Libexec: filepath.Join(buildDir(), "libexec", "podgrade"), Scratch: os.Getenv(childScratch), Engine: engine})
	if err != nil {
		return err
	}
	image, err := h.Image(ctx, os.Getenv(childImage))
	if err != nil {
		return err
	}
	cell, err := h.Open(ctx, isolation.Order{Plan: oci.Plan{Phase: oci.Grade, Network: oci.Sealed}, Image: image, Workspace: os.Getenv(childWorkspace)})
	if err != nil {
		return err
	}
	_, err = cell.Run(ctx, isolation.Command{Argv: []string{"/bin/sh", "-c", "trap '' TERM; setsid sleep " + childSleep + " & echo ready; sleep " + childSleep}, Env: testEnv, Dir: "/", Stdout: os.Stdout})
	return fmt.Errorf("the command ended: %v", err)
}
