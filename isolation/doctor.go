package isolation

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"podgrade/isolation/hostfacts"
	"podgrade/isolation/worker"
)

// ThisHost is a hostfacts.Source: it reads this host, starts the worker, and
// does in its namespaces what a cell needs. Nothing stays behind but the
// scratch directory.
type ThisHost struct{ Options Options }

// trialGrace bounds each program that the doctor starts: a Podman that waits
// for a lock, or a home directory that does not answer, is a fact as well.
var trialGrace = 20 * time.Second

// Facts reads the host. What is missing or fails is a fact; the error is about
// what keeps the doctor itself from looking.
func (t ThisHost) Facts(ctx context.Context) (hostfacts.Facts, error) {
	o, installErr := t.Options.withDefaults()
	o, err := o.withScratch()
	if err != nil {
		return hostfacts.Facts{}, err
	}
	f := hostfacts.ReadThis(o.Scratch)
	f.Install.Libexec = o.Libexec
	f.Install.Problem = installProblem(o.Libexec, installErr)
	f.IDs.Users, f.IDs.Groups, f.IDs.Problem = countIDs(ctx, f.IDs.Source)
	if p, err := newPrivilege(o); err == nil {
		p.describe(&f)
	}
	f.Podman.Program = program(ctx, "podman")
	for _, name := range runtimes {
		if r := program(ctx, name); r.Path != "" {
			f.Runtimes = append(f.Runtimes, r)
		}
	}
	if f.Install.Problem == "" {
		tryWorker(ctx, o, &f)
	}
	return f, ctx.Err()
}

func installProblem(libexec string, err error) string {
	if err == nil {
		err = checkInstall(libexec)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// runtimes are the OCI runtimes that can be used, best first.
var runtimes = []string{"crun", "runc"}

// countIDs counts the caller's subordinate ids.
func countIDs(ctx context.Context, source string) (users, groups uint64, problem string) {
	var problems []string
	count := func(file string) (n uint64) {
		ctx, cancel := context.WithTimeout(ctx, trialGrace)
		defer cancel()
		ranges, err := callerRanges(ctx, file, source)
		if err != nil {
			problems = append(problems, err.Error())
		}
		for _, r := range ranges {
			n += r.count
		}
		return n
	}
	users, groups = count(subuidFile), count(subgidFile)
	return users, groups, strings.Join(problems, "; ")
}

// program looks a program up and asks it for its version.
func program(ctx context.Context, name string) hostfacts.Program {
	path, err := exec.LookPath(name)
	if err != nil {
		return hostfacts.Program{}
	}
	ctx, cancel := context.WithTimeout(ctx, trialGrace)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env, cmd.Stdout, cmd.WaitDelay = hostEnv(), &limitedWriter{w: &out, left: 64 << 10}, time.Second
	cmd.Run() // what it printed is all that counts
	found := hostfacts.Program{Name: name, Path: path, Version: versionIn(out.String())}
	if found.Version == "" && ctx.Err() != nil {
		found.Late = trialGrace.String()
	}
	return found
}

// versionIn takes "1.8.1" out of "crun version 1.8.1".
func versionIn(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	_, version, _ := strings.Cut(line, " version ")
	return strings.TrimSpace(version)
}

// tryWorker starts a worker and does in its namespaces what a cell needs.
func tryWorker(ctx context.Context, o Options, f *hostfacts.Facts) {
	f.Worker.Tried = true
	h, err := trialHost(ctx, o)
	if err != nil {
		f.Worker.Problem = cause(err)
		var failed *os.PathError
		f.Worker.Denied = errors.As(err, &failed) && failed.Op == "fork/exec"
		return
	}
	defer h.leave()
	f.Worker.IDs = h.hello.IDs
	h.privilege.tryMounts(h.run.dir, f)
	h.tryCell(ctx, f)
	if f.Podman.Path != "" {
		h.podman = f.Podman.Path
		h.askPodman(ctx, f)
	}
}

// trialHost is a Host without a runtime, and without Podman: the doctor wants
// to know what works without them.
func trialHost(ctx context.Context, o Options) (*Host, error) {
	h, err := newHost(o)
	if err != nil {
		return nil, err
	}
	return h, h.begin(ctx)
}

// cause is what a fault says of its reason: the doctor has its own remedies.
func cause(err error) string {
	var fault *Fault
	if errors.As(err, &fault) && fault.Why != nil {
		return fault.Tried + ": " + fault.Why.Error()
	}
	return err.Error()
}

func (h *Host) tryCell(ctx context.Context, f *hostfacts.Facts) {
	ctx, cancel := context.WithTimeout(ctx, trialGrace)
	defer cancel()
	dir := filepath.Join(h.run.dir, "cells", "trial")
	trial, err := worker.Trial{}, errors.Join(os.Mkdir(dir, 0o700), h.privilege.own(dir))
	if err == nil {
		var out bytes.Buffer
		said := &tail{max: 4 << 10}
		var code int
		code, err = h.execInside(ctx, h.workerArgs(worker.StageTry, dir), hostEnv(), nil, &limitedWriter{w: &out, left: 64 << 10}, said)
		if err == nil && code == 0 {
			err = json.Unmarshal(out.Bytes(), &trial)
		} else if err == nil {
			err = fmt.Errorf("the worker ended with %d: %s", code, said)
		}
	}
	if err != nil {
		trial.Overlay = err.Error()
	}
	f.Worker.Overlay, f.Worker.Nested = trial.Overlay, trial.Nested
}

// workerArgs starts one of the worker's stages as a program: the worker
// executes itself, for it may not be able to reach its own file by a path.
func (h *Host) workerArgs(stage string, args ...string) []string {
	return append([]string{"/proc/self/exe", stage}, args...)
}

// podmanInfo is the part of `podman info` that we use.
type podmanInfo struct {
	Store struct {
		Driver  string                     `json:"graphDriverName"`
		Root    string                     `json:"graphRoot"`
		Options map[string]json.RawMessage `json:"graphOptions"`
	} `json:"store"`
}

func (h *Host) askPodman(ctx context.Context, f *hostfacts.Facts) {
	ctx, cancel := context.WithTimeout(ctx, trialGrace)
	defer cancel()
	out, said, code, err := h.runPodman(ctx, "info", "--format", "json")
	var info podmanInfo
	switch {
	case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		f.Podman.Silent = trialGrace.String()
	case err != nil:
		f.Podman.Problem = cause(err)
	case code != 0 && remotePodman(said):
		f.Podman.Remote = true
	case code != 0:
		f.Podman.Problem = cmp.Or(said, fmt.Sprintf("podman info ended with exit code %d, without a word", code))
	default:
		if err := json.Unmarshal(out, &info); err != nil {
			f.Podman.Problem = "read what podman info printed: " + err.Error()
		}
	}
	if info.Store.Root == "" {
		return
	}
	f.Podman.Driver = info.Store.Driver
	f.Store = hostfacts.ReadStore(info.Store.Root)
	f.Podman.MountProgram = info.mountProgram()
}

// mountProgram is the program that mounts the store's overlays in place of the
// kernel: as it is set now, or as the store remembers.
func (i podmanInfo) mountProgram() string {
	for name, raw := range i.Store.Options {
		if !strings.HasSuffix(name, "mount_program") {
			continue
		}
		var known struct{ Executable string }
		var path string
		if json.Unmarshal(raw, &known) == nil && known.Executable != "" {
			return known.Executable
		}
		if json.Unmarshal(raw, &path) == nil && path != "" {
			return path
		}
	}
	if string(i.Store.Options["overlay.use_composefs"]) == `"true"` {
		return "composefs"
	}
	// The store remembers, and Podman refuses to use it otherwise.
	if text, err := os.ReadFile(filepath.Join(i.Store.Root, "overlay", ".has-mount-program")); err == nil && strings.TrimSpace(string(text)) == "true" {
		return "another program than the kernel"
	}
	return ""
}

// leave ends the worker of a trial and removes its directory.
func (h *Host) leave() error {
	ctx, cancel := context.WithTimeout(context.Background(), sweepGrace)
	defer cancel()
	_, err := h.worker.do(ctx, worker.Request{Op: worker.OpSweep, Sweep: filepath.Join(h.run.dir, "cells")})
	h.endWorker()
	return errors.Join(err, h.run.remove())
}
