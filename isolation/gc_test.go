package isolation_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"podgrade/isolation"
	"podgrade/isolation/testimages"
	"podgrade/oci"
)

// Variables that make the test binary a podgrade of its own, which is killed.
const (
	victimVariable          = "PODGRADE_TEST_VICTIM" // its scratch directory
	victimImageVariable     = "PODGRADE_TEST_VICTIM_IMAGE"
	victimWorkspaceVariable = "PODGRADE_TEST_VICTIM_WORKSPACE"
	victimEngineVariable    = "PODGRADE_TEST_VICTIM_ENGINE"
)

func init() {
	if scratch := os.Getenv(victimVariable); scratch != "" {
		fmt.Println("failed:", beVictim(context.Background(), scratch))
		os.Exit(1)
	}
}

// beVictim holds an image and opens a cell that leaves a directory behind
// which its owner, a subordinate id, has closed. For each line of standard
// input it asks the cell something. It only returns when something fails.
func beVictim(ctx context.Context, scratch string) error {
	h, err := isolation.Start(ctx, isolation.Options{Libexec: filepath.Join(buildDir(), "libexec", "podgrade"), Scratch: scratch})
	if err != nil {
		return err
	}
	image, err := h.Image(ctx, os.Getenv(victimImageVariable))
	if err != nil {
		return err
	}
	if _, err = h.Hold(ctx, image); err != nil {
		return err
	}
	c, err := h.Open(ctx, isolation.Order{Plan: oci.Plan{Phase: oci.Grade, Network: oci.Sealed}, Image: image,
		Engine: os.Getenv(victimEngineVariable), Workspace: os.Getenv(victimWorkspaceVariable)})
	if err != nil {
		return err
	}
	input := bufio.NewReader(os.Stdin)
	for line := "mkdir -p closed/inner; touch closed/inner/file; chmod 000 closed/inner closed\n"; ; {
		exit, err := c.Run(ctx, isolation.Command{Argv: []string{"/bin/sh", "-c", line}, Env: testEnv, Dir: c.Places().Workspace})
		if err != nil {
			return err
		}
		fmt.Println("exit", exit.Code)
		if line, err = input.ReadString('\n'); err != nil {
			return err
		}
	}
}

type victim struct {
	process *exec.Cmd
	in      io.Writer
	out     *bufio.Reader
}

func startVictim(t *testing.T, scratch string, image isolation.Image) *victim {
	t.Helper()
	return startVictimOn(t, isolation.EngineBundle, scratch, image)
}

func startVictimOn(t *testing.T, engine, scratch string, image isolation.Image) *victim {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimVariable+"="+scratch, victimImageVariable+"="+image.Pin.ID, victimWorkspaceVariable+"="+t.TempDir(), victimEngineVariable+"="+engine)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	v := &victim{process: cmd, in: in, out: bufio.NewReader(out)}
	t.Cleanup(v.kill)
	v.answers(t)
	return v
}

// answers tells that the cell's last command succeeded.
func (v *victim) answers(t *testing.T) {
	t.Helper()
	if line, err := v.out.ReadString('\n'); line != "exit 0\n" {
		t.Fatalf("a podgrade that should live says %q (%v)", line, err)
	}
}

func (v *victim) kill() {
	v.process.Process.Kill()
	v.process.Wait()
}

func TestGCRemovesWhatIsDeadAndNothingThatLives(t *testing.T) {
	i := image(t, testimages.BusyboxAs("1000"))
	o := options(t)
	dead, living := startVictim(t, o.Scratch, i), startVictim(t, o.Scratch, i)
	dead.kill()
	pid := dead.process.Process.Pid

	if !hasClosedDirectory(t, o.Scratch) {
		t.Error("the dead podgrade left no directory that its user cannot read: this test shows nothing")
	}
	swept := sweep(t, o, true)
	checkLeft(t, swept, pid, false)
	if swept.Living != 1 {
		t.Errorf("%d podgrades live, want 1", swept.Living)
	}
	checkLeft(t, sweep(t, o, true), pid, false) // a dry run changed nothing
	checkLeft(t, sweep(t, o, false), pid, true)
	if left := sweep(t, o, false).Left; len(left) > 0 {
		t.Errorf("a second sweep finds %v", left)
	}
	if runs := runsIn(t, o.Scratch); len(runs) != 1 {
		t.Errorf("in the scratch: %q, want the living podgrade's directory alone", runs)
	}
	if n := holders(t, living.process.Process.Pid); n != 1 {
		t.Errorf("the living podgrade has %d holders, want 1", n)
	}
	fmt.Fprintln(living.in, "touch here && test -e here")
	living.answers(t)

	living.kill()
	checkLeft(t, sweep(t, o, false), living.process.Process.Pid, true)
	if runs := runsIn(t, o.Scratch); len(runs) != 0 {
		t.Errorf("left in the scratch: %q", runs)
	}
}

func sweep(t *testing.T, o isolation.Options, dryRun bool) isolation.Swept {
	t.Helper()
	swept, err := isolation.Sweep(ctx(t), o, dryRun)
	if err != nil {
		t.Fatal(err)
	}
	return swept
}

// checkLeft wants one run directory and one holder of the process.
func checkLeft(t *testing.T, swept isolation.Swept, pid int, removed bool) {
	t.Helper()
	var kinds []string
	for _, l := range swept.Left {
		kinds = append(kinds, l.Kind)
		if l.PID != pid || l.Removed != removed || l.Problem != "" || l.Made.IsZero() {
			t.Errorf("left: %+v, want it of process %d, removed: %v", l, pid, removed)
		}
	}
	if !slices.Equal(kinds, []string{isolation.LeftoverRun, isolation.LeftoverHolder}) {
		t.Errorf("left: %q, want a run and a holder", kinds)
	}
}

func runsIn(t *testing.T, scratch string) []string {
	t.Helper()
	runs, err := filepath.Glob(filepath.Join(scratch, "run-*"))
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

func hasClosedDirectory(t *testing.T, scratch string) bool {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(scratch, "run-*", "cells", "*", "view-workspace", "closed"))
	if err != nil || len(found) == 0 {
		return false
	}
	_, err = os.ReadDir(found[0])
	return os.IsPermission(err) || os.Geteuid() == 0 // who can read everything
}

// holders counts the holders that a process made.
func holders(t *testing.T, pid int) int {
	t.Helper()
	out, err := host(t).RunPodman(ctx(t), "ps", "--all", "--format", "{{.Labels}}")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(out, fmt.Sprintf("podgrade.holder:%d:", pid))
}

func TestGCTakesUpARunThatWasHalfRemoved(t *testing.T) {
	o := options(t)
	if err := os.MkdirAll(filepath.Join(o.Scratch, "run-half", "cells", "cell-1"), 0o700); err != nil {
		t.Fatal(err)
	}
	swept := sweep(t, o, false)
	if len(swept.Left) != 1 || !swept.Left[0].Removed || swept.Living != 0 {
		t.Errorf("swept: %+v", swept)
	}
}

func TestRemoveTreeRemovesWhatSubordinateIDsOwn(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	script := `mkdir -p "$0/a/b" && touch "$0/a/b/c" && ln -s "$1" "$0/link" && chown -R 1000:1000 "$0/a" && chmod 000 "$0/a/b" "$0/a"`
	if out, err := host(t).RunInside(ctx(t), "/bin/sh", "-c", script, dir, filepath.Dir(outside)); err != nil {
		t.Fatal(err, out)
	}
	removeTree(t, options(t), dir)
	if _, err := os.Stat(outside); err != nil {
		t.Error("a link was followed:", err)
	}
}

func TestRemoveTreeOfOwnFilesNeedsNoWorker(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "a"), 0); err != nil {
		t.Fatal(err)
	}
	removeTree(t, isolation.Options{Libexec: "/nonexistent", Scratch: "/nonexistent"}, dir)
}

func removeTree(t *testing.T, o isolation.Options, dir string) {
	t.Helper()
	opened, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	if err := isolation.RemoveTree(ctx(t), o, opened); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v (%v)", left, err)
	}
}

// A scratch may be gone after a reboot, or by somebody's hand: what was noted there of
// containers is found by their labels.
func TestGCRemovesContainersWhoseScratchIsGone(t *testing.T) {
	i := image(t, testimages.BusyboxAs("1000"))
	gone, other := options(t), options(t)
	v := startVictimOn(t, isolation.EnginePodman, gone.Scratch, i)
	if swept := sweep(t, other, false); len(swept.Left) > 0 {
		t.Errorf("of a living one: %+v", swept.Left)
	}
	v.kill()
	must(t, isolation.RemoveTree(ctx(t), other, openDir(t, gone.Scratch)))
	for _, dryRun := range []bool{true, false} {
		kinds := map[string]int{}
		for _, l := range sweep(t, other, dryRun).Left {
			kinds[l.Kind]++
			if l.PID != v.process.Process.Pid || l.Removed == dryRun || l.Problem != "" {
				t.Errorf("%+v", l)
			}
		}
		if len(kinds) != 2 || kinds[isolation.LeftoverCell] != 1 || kinds[isolation.LeftoverHolder] != 1 {
			t.Errorf("found %v", kinds)
		}
	}
	if swept := sweep(t, other, false); len(swept.Left) > 0 {
		t.Errorf("left: %+v", swept.Left)
	}
}
