package isolation_test

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"podgrade/isolation"
)

// withInit is a libexec directory whose supervisor is what change makes of the
// real one.
func withInit(t *testing.T, change func(program []byte) []byte) isolation.Options {
	t.Helper()
	o := options(t)
	dir := t.TempDir()
	for _, name := range []string{"podgrade-worker", "podgrade-libpod"} {
		if err := os.Symlink(filepath.Join(o.Libexec, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	program, err := os.ReadFile(filepath.Join(o.Libexec, "podgrade-init"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "podgrade-init"), change(program), 0o755); err != nil {
		t.Fatal(err)
	}
	o.Libexec = dir
	return o
}

// A supervisor that cannot start, or is none, is one clear error, soon, and
// nothing of the cell is left.
func TestASupervisorThatCannotStartIsOneClearError(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func([]byte) []byte
		words  []string
	}{
		"another architecture": {func(p []byte) []byte {
			binary.LittleEndian.PutUint16(p[18:], 0x16) // e_machine: S/390
			return p
		}, []string{"exec format error"}},
		"no program":       {func([]byte) []byte { return []byte("#!/nonexistent\n") }, []string{"no such file"}},
		"cut short":        {func(p []byte) []byte { return p[:len(p)/2] }, []string{"supervisor did not"}},
		"another program":  {func([]byte) []byte { return read(t, "/bin/busybox") }, []string{"applet not found"}},
		"an empty program": {func([]byte) []byte { return nil }, []string{"exec format error"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := withInit(t, test.change)
			h := start(t, o)
			began := time.Now()
			c, err := h.Open(ctx(t), order(t, as(t, "")))
			if err == nil {
				c.Close()
				t.Fatal("a cell was made")
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
			text := err.Error()
			for _, word := range append(test.words, "start a cell", "busybox:1", "platform") {
				if !strings.Contains(strings.ToLower(text), word) {
					t.Errorf("%q does not say %q", text, word)
				}
			}
			if strings.ContainsAny(text, "\n\x1b") || len(text) > 2000 || faultKind(err) != isolation.Infrastructure {
				t.Errorf("kind %v: %q", faultKind(err), text)
			}
			if left := named(o.Scratch, "podgrade-init"); len(left) > 0 {
				t.Errorf("left: %q", processesOf(o.Scratch))
			}
			if err := h.Close(); err != nil {
				t.Error(err)
			}
			allGone(t, o.Scratch)
			nothingLeft(t, o)
		})
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// A scratch on a file system from which no program can be started is refused
// at once. The worker's own /proc is one.
func TestANoexecScratchIsRefused(t *testing.T) {
	h := host(t)
	worker := named(scratchDir(shared.dir), "podgrade-worker")
	if len(worker) == 0 {
		t.Fatal("the worker is not found")
	}
	if _, err := h.RunInside(ctx(t), "/bin/true"); err != nil {
		t.Fatal(err)
	}
	inside := filepath.Join("/proc", strconv.Itoa(worker[len(worker)-1].Pid), "root", "proc")
	if err := isolation.CheckExecutable(inside); err == nil || !strings.Contains(err.Error(), "noexec") || !strings.Contains(err.Error(), "--scratch") {
		t.Errorf("%s: %v", inside, err)
	}
	if err := isolation.CheckExecutable(t.TempDir()); err != nil {
		t.Error(err)
	}
	if err := isolation.CheckExecutable("/nonexistent"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// What podgrade needs and does not find is an error that says what to install,
// and nothing is left of the attempt.
func TestStartSaysWhatIsMissing(t *testing.T) {
	o := options(t)
	for name, test := range map[string]struct {
		libexec, path string
		words         []string
	}{
		"no supervisor": {t.TempDir(), os.Getenv("PATH"), []string{"find podgrade's own program", "podgrade-init"}},
		"no worker":     {installed(t, o, "podgrade-init"), os.Getenv("PATH"), []string{"podgrade-worker"}},
		"no caller":     {installed(t, o, "podgrade-init", "podgrade-worker"), os.Getenv("PATH"), []string{"podgrade-libpod", "libexec"}},
		"no podman":     {o.Libexec, t.TempDir(), []string{"find Podman", "apt-get install podman"}},
		"no runtime":    {o.Libexec, only(t, "podman"), []string{"crun", "apt-get install crun"}},
		"no newuidmap":  {o.Libexec, only(t, "podman", "crun"), []string{"newuidmap", "uidmap"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PATH", test.path)
			own := isolation.Options{Libexec: test.libexec, Scratch: t.TempDir()}
			h, err := isolation.Start(ctx(t), own)
			if err == nil {
				h.Close()
				t.Fatal("it started")
			}
			for _, word := range test.words {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q does not say %q", err, word)
				}
			}
			if left, _ := os.ReadDir(own.Scratch); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			allGone(t, own.Scratch)
		})
	}
}

// installed is a libexec directory with these programs only.
func installed(t *testing.T, o isolation.Options, names ...string) string {
	dir := t.TempDir()
	for _, name := range names {
		if err := os.Symlink(filepath.Join(o.Libexec, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// What the doctor calls a broken installation is refused before anything of a run is
// made, whichever program is missing.
func TestHalfAnInstallationIsFoundBeforeARun(t *testing.T) {
	o := options(t)
	all := []string{"podgrade-init", "podgrade-libpod", "podgrade-worker"}
	for i, missing := range all {
		half := o
		half.Libexec = installed(t, o, append(append([]string{}, all[:i]...), all[i+1:]...)...)
		if err := isolation.CheckHost(half); err == nil || !strings.Contains(err.Error(), missing) {
			t.Errorf("without %s: %v", missing, err)
		}
	}
	if err := isolation.CheckHost(o); err != nil {
		t.Error(err)
	}
}

// So is a scratch that cannot be used, with what to do about that; nothing is made.
func TestAScratchThatCannotBeUsedIsFoundBeforeARun(t *testing.T) {
	o := options(t)
	closed := filepath.Join(t.TempDir(), "closed")
	file := filepath.Join(t.TempDir(), "file")
	unread := filepath.Join(t.TempDir(), "unread")
	if err := errors.Join(os.Mkdir(closed, 0o555), os.Mkdir(unread, 0o300), os.WriteFile(file, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for scratch, why := range map[string]string{closed: "permission denied", unread: "permission denied", filepath.Join(closed, "below", "it"): "permission denied", file: "not a directory", filepath.Join(file, "below"): "not a directory"} {
		o.Scratch = scratch
		for what, err := range map[string]error{"CheckHost": isolation.CheckHost(o), "Start": startError(t, o)} {
			if err == nil || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), "choose a directory that you can write to") || strings.Contains(err.Error(), "space") {
				t.Errorf("%s, %s: %v", what, scratch, err)
			}
		}
	}
	o.Scratch = filepath.Join(t.TempDir(), "not", "made")
	if err := isolation.CheckHost(o); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Dir(o.Scratch)); err == nil {
		t.Error("a check has made a directory")
	}
}

func startError(t *testing.T, o isolation.Options) error {
	h, err := isolation.Start(ctx(t), o)
	if err == nil {
		h.Close()
	}
	return err
}

// only is a directory with programs of this name that do nothing.
func only(t *testing.T, names ...string) string {
	dir := t.TempDir()
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A scratch that cannot be written is refused with the way out.
func TestAScratchThatCannotBeMadeIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, scratch := range []string{"/proc/scratch", filepath.Join(dir, "file"), filepath.Join(dir, "file", "below")} {
		h, err := isolation.Start(ctx(t), isolation.Options{Libexec: options(t).Libexec, Scratch: scratch})
		if err == nil {
			h.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "--scratch") {
			t.Errorf("in %s: %v", scratch, err)
		}
	}
}

// An interrupted Open ends at once, and leaves nothing.
func TestAnInterruptedOpenLeavesNothing(t *testing.T) {
	o := options(t)
	h := start(t, o)
	for n := range 10 {
		interrupted, cancel := context.WithTimeout(context.Background(), time.Duration(n*4)*time.Millisecond)
		c, err := h.Open(interrupted, order(t, as(t, "")))
		cancel()
		if err == nil {
			err = c.Close()
		} else if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after %d ms: %v", n*4, err)
			err = nil
		} else {
			err = nil
		}
		if err != nil {
			t.Error(err)
		}
	}
	if left := named(o.Scratch, "podgrade-init"); len(left) > 0 {
		t.Errorf("left: %q", processesOf(o.Scratch))
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(o.Scratch); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// A scratch whose name has every odd character is as good as any.
func TestAScratchMayHaveAnyName(t *testing.T) {
	o := options(t)
	o.Scratch = filepath.Join(o.Scratch, `a b:c,d\e"f`)
	h := start(t, o)
	c := openOn(t, h, order(t, as(t, "1000")))
	want(t, c, "cat hello.txt", "hello\n")
	if err := errors.Join(c.Close(), h.Close()); err != nil {
		t.Error(err)
	}
}

// A program that nobody waits for any more is ended, also when it was given up
// before it ran.
func TestAnInterruptedProgramIsEnded(t *testing.T) {
	h := host(t)
	began := time.Now()
	for n := range 20 {
		interrupted, cancel := context.WithTimeout(context.Background(), time.Duration(n)*200*time.Microsecond)
		_, err := h.RunInside(interrupted, "/bin/sleep", "1000")
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it ended with %v", err)
		}
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}
