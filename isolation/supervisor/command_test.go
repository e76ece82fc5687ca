package supervisor_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"podgrade/isolation/protocol"
)

func TestRun(t *testing.T) {
	forEach(t, everyKind, func(t *testing.T, c *cell) {
		for _, test := range []struct {
			name, line     string
			code, signal   int
			stdout, stderr string
		}{
			{name: "true", line: "true"},
			{name: "exit", line: "exit 7", code: 7},
			{name: "streams", line: "echo out; echo err >&2", stdout: "out\n", stderr: "err\n"},
			{name: "signal", line: "kill -TERM $$", code: 128 + 15, signal: 15},
			{name: "kill", line: "kill -9 $$", code: 128 + 9, signal: 9},
			{name: "stdin is empty", line: "cat; readlink /proc/self/fd/0", stdout: "/dev/null\n"},
			{name: "directory", line: "pwd", stdout: c.dir + "\n"},
			{name: "umask", line: "umask", stdout: "0027\n"},
			{name: "session of its own", line: `set -- $(cat /proc/self/stat); [ "$6" = "$$" ] && echo leader; [ "$7" = 0 ] && echo no tty`, stdout: "leader\nno tty\n"},
			{name: "descriptors", line: "PODGRADE_ATTACK=yes " + built.attack + " fds | sed 's/:.*//'", stdout: "descriptor 0\ndescriptor 1\ndescriptor 2\n"},
			{name: "signal masks", line: `cat /proc/self/status | grep -E "^Sig(Blk|Ign|Cgt)" | tr -d "\t"`, stdout: "SigBlk:0000000000000000\nSigIgn:0000000000000000\nSigCgt:0000000000000000\n"},
			{name: "environment", line: "env | sort", stdout: "A=b\nPATH=/usr/bin:/bin\nPWD=" + c.dir + "\nRAW=\xff\\x\n"},
			{name: "no limit leaks", line: "ulimit -n", stdout: "64\n"},
		} {
			got := c.run(protocol.Run{
				Argv: []string{"sh", "-c", test.line}, Dir: c.dir, Umask: 0o27, Timeout: 20 * time.Second,
				Env:    []string{"PATH=/usr/bin:/bin", "A=b", "RAW=\xff\\x"},
				Limits: []protocol.Limit{{Resource: 7, Value: 64}},
			})
			// dash sets PWD itself, bash SHLVL and _ too
			got.stdout = strings.ReplaceAll(strings.ReplaceAll(got.stdout, "SHLVL=0\n", ""), "_=/usr/bin/env\n", "")
			if got.Code != test.code || got.Signal != test.signal || got.stdout != test.stdout || got.stderr != test.stderr {
				t.Errorf("%s: %q: got %+v", test.name, test.line, got)
			}
			if got.TimedOut || got.Held || got.Stuck || got.NoRoutes != 0 || got.Duration <= 0 {
				t.Errorf("%s: got %+v", test.name, got.Exit)
			}
		}
	})
}

// Without a limit of its own a command gets the limits that the supervisor was
// started with, not those that the Go runtime raised for itself.
func TestRunKeepsInheritedLimits(t *testing.T) {
	forEach(t, eitherPlace, func(t *testing.T, c *cell) {
		want := c.sh("ulimit -S -n", 0).stdout
		limits, err := os.ReadFile("/proc/self/limits")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(limits), "Max open files") || want == "" {
			t.Fatalf("no limit known: %q", want)
		}
		again := c.run(protocol.Run{Argv: []string{"sh", "-c", "ulimit -H -n"}, Limits: []protocol.Limit{{Resource: 7, Value: 1 << 40}}})
		if hard := c.sh("ulimit -H -n", 0).stdout; again.stdout != hard {
			t.Errorf("a limit above the hard one is %q, want %q: clamped", again.stdout, hard)
		}
	})
}

func TestRunFindsProgram(t *testing.T) {
	forEach(t, everyKind, func(t *testing.T, c *cell) {
		write := func(name, text string, mode os.FileMode) string {
			path := filepath.Join(c.dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), mode); err != nil {
				t.Fatal(err)
			}
			return path
		}
		script := write("a/tool", "#!/bin/sh\necho tool a\n", 0o755)
		write("b/tool", "not to be executed", 0o644)
		write("c/tool", "no magic number", 0o755)
		write("d/tool", "#!/no/such/interpreter\n", 0o755)
		path := func(dirs ...string) []string {
			for i, d := range dirs {
				dirs[i] = filepath.Join(c.dir, d)
			}
			return []string{"PATH=" + strings.Join(dirs, ":")}
		}
		for _, test := range []struct {
			name    string
			program string
			env     []string
			stdout  string
			failure string // part of the message
		}{
			{"on PATH", "tool", path("a"), "tool a\n", ""},
			{"after a refusal", "tool", path("nothing", "b", "a"), "tool a\n", ""},
			{"absolute", script, []string{}, "tool a\n", ""},
			{"relative", "a/tool", []string{}, "tool a\n", ""},
			{"empty part of PATH", "tool", []string{"PATH=:/nowhere"}, "", "no such program"},
			{"default PATH", "echo", []string{}, "\n", ""},
			{"nowhere", "tool", path("nothing"), "", "no such program on PATH"},
			{"missing", "/no/such/tool", nil, "", "no such program"},
			{"not executable", "tool", path("b"), "", "permission denied"},
			{"no format", "tool", path("c"), "", "exec format error"},
			{"no interpreter", "tool", path("d"), "", "interpreter or loader"},
			{"a directory", c.dir, nil, "", "permission denied"},
			{"no name", "", nil, "", "no such program"},
		} {
			got, failure := c.try(protocol.Run{Argv: []string{test.program}, Env: test.env, Dir: c.dir, Timeout: 20 * time.Second})
			switch {
			case test.failure == "":
				if failure != nil || got.Code != 0 || got.stdout != test.stdout {
					t.Errorf("%s: got %+v, failure %+v", test.name, got, failure)
				}
			case failure == nil || failure.Kind != protocol.NoProgram || !strings.Contains(failure.Message, test.failure):
				t.Errorf("%s: got %+v, failure %+v, want %q", test.name, got, failure, test.failure)
			}
		}
		if _, failure := c.try(protocol.Run{Argv: []string{"true"}, Dir: "/no/such/directory"}); failure == nil || failure.Kind != protocol.NotExist {
			t.Errorf("a missing directory: %+v", failure)
		}
		if _, failure := c.try(protocol.Run{Argv: []string{"echo", "a\x00b"}}); failure == nil || failure.Kind != protocol.Broken {
			t.Errorf("a NUL byte: %+v", failure)
		}
		if _, failure := c.try(protocol.Run{Argv: []string{"echo", strings.Repeat("x", 200<<10)}}); failure == nil || failure.Kind != protocol.TooLarge {
			t.Errorf("an argument that is too long: %+v", failure)
		}
	})
}

func TestRunStreamsAsItComes(t *testing.T) {
	c := open(t, sealed)
	first := make(chan string, 1)
	var once sync.Once
	fifo := filepath.Join(c.dir, "fifo")
	c.sh("mkfifo fifo", 0)
	go func() {
		<-first // only after the first line came does the command go on
		os.WriteFile(fifo, []byte("go on\n"), 0)
	}()
	var out bytes.Buffer
	sink := writer(func(p []byte) (int, error) {
		once.Do(func() { first <- string(p) })
		return out.Write(p)
	})
	ctx, cancel := context.WithTimeout(t.Context(), askWithin)
	defer cancel()
	a, err := c.Do(ctx, protocol.Request{Op: protocol.OpRun, Run: &protocol.Run{
		Argv: []string{"/bin/sh", "-c", "echo first; cat fifo"}, Dir: c.dir, Env: []string{},
	}}, protocol.Sinks{Stdout: sink})
	if err != nil || a.Exit == nil || out.String() != "first\ngo on\n" {
		t.Errorf("got %+v, %v, output %q", a.Exit, err, out.String())
	}
}

type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

func TestRunMuchOutput(t *testing.T) {
	c := open(t, sealed)
	const size = 64 << 20
	var n int64
	ctx, cancel := context.WithTimeout(t.Context(), askWithin)
	defer cancel()
	a, err := c.Do(ctx, protocol.Request{Op: protocol.OpRun, Run: &protocol.Run{
		Argv: []string{"/bin/sh", "-c", fmt.Sprintf("head -c %d /dev/zero", size)}, Dir: "/", Env: []string{"PATH=/usr/bin:/bin"},
	}}, protocol.Sinks{Stdout: writer(func(p []byte) (int, error) { n += int64(len(p)); return len(p), nil })})
	if err != nil || a.Exit == nil || a.Exit.Code != 0 || n != size {
		t.Errorf("got %d bytes, %+v, %v", n, a, err)
	}
	status, err := os.ReadFile("/proc/" + c.pid() + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		var kib int
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 && kib > 24<<10 {
			t.Errorf("the supervisor grew to %d KiB", kib)
		}
	}
}

func TestRunConcurrently(t *testing.T) {
	forEach(t, eitherPlace, func(t *testing.T, c *cell) {
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				got := c.sh(fmt.Sprintf("echo %d; exit %d", i, i), 20*time.Second)
				if got.Code != i || got.stdout != fmt.Sprintf("%d\n", i) {
					t.Errorf("command %d: %+v", i, got)
				}
			})
		}
		all.Wait()
	})
}

// An image without /dev/null, or with something else under that name, costs
// commands nothing but the name: their input is empty all the same.
func TestRunWithoutNullDevice(t *testing.T) {
	forEach(t, []kind{{name: "none", dev: "none"}, {name: "fifo", dev: "fifo"}}, func(t *testing.T, c *cell) {
		if got := c.sh("cat; echo out; echo err >&2", 10*time.Second); got.Code != 0 || got.stdout != "out\n" || got.stderr != "err\n" {
			t.Errorf("got %+v", got)
		}
		c.alive()
	})
}

func TestRunCountsNoRoutes(t *testing.T) {
	c := open(t, sealed)
	got := c.run(protocol.Run{Argv: []string{built.attack, "connect"}, Timeout: 20 * time.Second})
	if got.NoRoutes == 0 {
		t.Errorf("%+v: no attempt was counted", got)
	}
	if got := c.sh("true", 0); got.NoRoutes != 0 {
		t.Errorf("%+v: an attempt of another command was counted", got)
	}
}
