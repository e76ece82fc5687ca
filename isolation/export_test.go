package isolation

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"podgrade/isolation/tree"
	"podgrade/isolation/worker"
	"podgrade/oci"
)

// RunPodman runs one Podman command inside the worker's namespaces and returns
// what it printed.
func (h *Host) RunPodman(ctx context.Context, args ...string) (string, error) {
	out, said, code, err := h.runPodman(ctx, args...)
	if err == nil && code != 0 {
		err = fmt.Errorf("podman %q ended with %d: %s", args, code, said)
	}
	return string(out), err
}

// RemoveHalfMade removes an image that a sweep has found.
func (h *Host) RemoveHalfMade(ctx context.Context, id string) error { return h.removeHalfMade(ctx, id) }

// RunInside runs a program of the host inside the worker's namespaces.
func (h *Host) RunInside(ctx context.Context, argv ...string) (string, error) {
	var out bytes.Buffer
	code, err := h.execInside(ctx, argv, hostEnv(), nil, &out, &out)
	if err == nil && code != 0 {
		err = fmt.Errorf("%q ended with %d", argv, code)
	}
	return out.String(), err
}

// Sweep empties a directory, whoever of the worker's ids owns what is in it.
func (h *Host) Sweep(ctx context.Context, dir string) error {
	_, err := h.worker.do(ctx, worker.Request{Op: worker.OpSweep, Sweep: dir})
	return err
}

// EndBy ends a cell as a command does that the supervisor cannot end.
func EndBy(c Cell) {
	one := c.(*cell)
	one.mu.Lock()
	client := one.client
	one.mu.Unlock()
	one.endBy(context.Background(), client)
}

// Whole completes options as Start does.
func Whole(o Options) Options {
	whole, err := o.withScratch()
	if err != nil {
		panic(err)
	}
	return whole
}

// CheckExecutable tells whether programs can be started from a directory.
var CheckExecutable = checkExecutable

// Measure measures a cell as Open does before it lets it be used.
func Measure(ctx context.Context, c Cell) (*oci.Measured, error) {
	reply, err := c.(*cell).ask(ctx, worker.Request{Op: worker.OpMeasure})
	return reply.Measured, err
}

// NetworkFault says why this host can give no cell a network through a device.
var NetworkFault = networkFault

// GiveUpAfter bounds how long a host waits for its worker.
func GiveUpAfter(h *Host, patience time.Duration) { h.patience = patience }

// AwaitWorker waits until the worker is seen to be gone.
func AwaitWorker(h *Host) { <-h.worker.gone }

// LosePodman makes every Podman command fail, so that a test sees what is
// answered without one; it is undone by calling what it returns.
func (h *Host) LosePodman() (findAgain func()) {
	path := h.podman
	h.podman = "/nonexistent/podman"
	return func() { h.podman = path }
}

// CountPodman notes each Podman command in a file; it is undone by calling what it
// returns.
func (h *Host) CountPodman(dir string) (commands func() int, done func()) {
	path, note, script := h.podman, filepath.Join(dir, "commands"), filepath.Join(dir, "podman")
	if err := os.WriteFile(script, fmt.Appendf(nil, "#!/bin/sh\necho command >> '%s'\nexec '%s' \"$@\"\n", note, path), 0o700); err != nil {
		panic(err)
	}
	h.podman = script
	return func() int {
		text, _ := os.ReadFile(note)
		return strings.Count(string(text), "command")
	}, func() { h.podman = path }
}

// FailPodman makes each of the first Podman commands fail with a message; it is undone
// by calling what it returns.
func (h *Host) FailPodman(dir string, times int, message string) (done func()) {
	path, script := h.podman, filepath.Join(dir, "podman")
	text := fmt.Sprintf("#!/bin/sh\nn=$(cat '%[1]s/n' 2>/dev/null || echo 0)\nif [ $n -lt %[2]d ]; then echo $((n + 1)) >'%[1]s/n'; echo '%[3]s' >&2; exit 125; fi\nexec '%[4]s' \"$@\"\n", dir, times, message, path)
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		panic(err)
	}
	h.podman = script
	return func() { h.podman = path }
}

// RuntimeFiles are the files that the OCI runtime and what starts it have put on
// the disk.
func RuntimeFiles(h *Host) []string {
	var files []string
	for _, dir := range []string{"runtime/*", "cells/*/config.json", "cells/*/pid-*"} {
		found, _ := filepath.Glob(filepath.Join(h.run.dir, dir))
		files = append(files, found...)
	}
	return files
}

// BoundBrought changes what a task may bring along until undo is called.
func BoundBrought(entries int, bytes int64) (undo func()) {
	before := mostBrought
	mostBrought = tree.Bound{Entries: entries, Bytes: bytes << 20}
	return func() { mostBrought = before }
}

// Control groups, for tests with facts and trees that are not this host's.
type GroupFacts = groupFacts

// GroupFacts.NotDelegated, and what is found in a tree.
func (f groupFacts) NotDelegated() string { return f.notDelegated() }

// FactsBelow reads what a tree of version 2 says.
func FactsBelow(root, self string, ours func(pid int) bool) (GroupFacts, error) {
	return groupFacts{Version2: true}.below(root, self, ours)
}

// UseGroups makes a host believe that it may make control groups.
func UseGroups(h *Host, dir string, controllers []string) {
	h.groups, h.noGroups = &groups{dir: dir, controllers: controllers}, ""
}

// TakeOver takes a delegated group over and returns the controllers of the
// groups below it.
func TakeOver(f GroupFacts) ([]string, error) {
	g, err := takeOver(f)
	if err != nil {
		return nil, err
	}
	return g.controllers, nil
}

// RunName is the name of a host's run directory.
func RunName(h *Host) string { return filepath.Base(h.run.dir) }

// MakeGroup makes a cell's group below a directory, and reads its limits back
// after change.
func MakeGroup(dir, name string, controllers []string, l oci.Limits, change func(dir string)) (kept []string, err error) {
	c, err := (&groups{dir: dir, controllers: controllers}).make(name, l)
	if err != nil || c == nil {
		return nil, err
	}
	change(c.dirs[0])
	return c.kept, c.holds()
}

// SetTrialGrace changes how long the doctor waits for a program, until the
// returned function is called.
func SetTrialGrace(grace time.Duration) (restore func()) {
	before := trialGrace
	trialGrace = grace
	return func() { trialGrace = before }
}

// KeptLookup is what a file of kept look-ups holds.
type KeptLookup = keptLookup
