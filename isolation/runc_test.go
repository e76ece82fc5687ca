package isolation_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"podgrade/isolation"
)

// withoutCrun leaves of this host's programs only what podgrade names, and
// runc in place of crun.
func withoutCrun(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"podman", "runc", "newuidmap", "newgidmap"} {
		path, err := exec.LookPath(name)
		if err == nil {
			err = os.Symlink(path, filepath.Join(dir, name))
		}
		if err != nil {
			t.Fatalf("this test needs %s: %v", name, err)
		}
	}
	t.Setenv("PATH", dir)
}

// Where there is no crun, runc makes the same cells: users, capabilities, what
// can be written, time-outs and the end of everything.
func TestRuncMakesCellsWhereThereIsNoCrun(t *testing.T) {
	images := map[string]isolation.Image{"": as(t, ""), "1000": as(t, "1000"), "65532:65532": as(t, "65532:65532"), "grader": as(t, "grader")}
	withoutCrun(t)
	h := start(t, options(t))
	defer func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}()
	overEngines(t, func(t *testing.T, engine string) {
		for _, test := range []struct {
			user, ids      string
			change         func(*isolation.Order)
			held, bounding string
		}{
			{"", "0 0", func(*isolation.Order) {}, none, none},
			{"", "0 0", withDockerCapabilities, dockerMask, dockerMask},
			{"1000", "1000 1000", withDockerCapabilities, none, dockerMask},
			{"65532:65532", "65532 65532", func(*isolation.Order) {}, none, none},
			{"grader", "1000 1000", withDockerCapabilities, none, dockerMask},
		} {
			if engine == isolation.EnginePodman && test.user != "" && test.user != "1000" && os.Getenv("PODGRADE_TEST_SOAK") == "" {
				continue // each takes a second more there
			}
			t.Run("user "+test.user+" with "+test.bounding, func(t *testing.T) {
				o := order(t, images[test.user])
				o.Engine = engine
				test.change(&o)
				c := openOn(t, h, o)
				if made := c.Made(); !made.Verified || !strings.Contains(made.Runtime, "/runc ") || !strings.Contains(made.Runtime, ".") {
					t.Errorf("made by %s, verified %v", made.Runtime, made.Verified)
				}
				want(t, c, "echo $(id -u) $(id -g); grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status | cut -f2", fmt.Sprintf(
					"%s\n%s\n%s\n%s\n%s\n%s\n1\n2\n", test.ids, none, test.held, test.held, test.bounding, none))
				want(t, c, "cat hello.txt && echo more >> hello.txt && mkdir d && mv hello.txt d/ && cat d/hello.txt", "hello\nhello\nmore\n")
				want(t, c, "cd "+c.Made().Home+" && echo x > .home-file && rm .home-file", "")
				want(t, c, "sed 1,2d /proc/net/dev | cut -d: -f1 | tr -d ' '; ls /proc | grep -c '^1$'; true", "lo\n0\n")
				got := run(t, c, time.Second, "/bin/sh", "-c", "trap '' TERM; setsid sh -c \"trap '' TERM; while :; do sleep 1; done\" & while :; do sleep 1; done")
				if !got.TimedOut || got.CellEnded {
					t.Errorf("it ended as %+v", got.Exit)
				}
				want(t, c, "ps -o comm | grep -c sleep; true", "0\n")
			})
		}
	})
}

const none, dockerMask = "0000000000000000", "00000000a80425f9"

// A runtime that cannot do its work is named by the error, with what it said: whoever
// reads that looks at that program, and not at podgrade's.
func TestARuntimeThatCannotStartIsNamed(t *testing.T) {
	i := as(t, "")
	for what, test := range map[string]struct{ program, said string }{
		"without its interpreter": {"#!/nonexistent/interpreter\n", "no such file"},
		"of another system":       {"\x7fELF of something else", "exec format error"},
		"without a library":       {"#!/bin/sh\necho 'libyajl.so.2: cannot open shared object file' >&2\nexit 127\n", "cannot open shared object file"},
		"without a word":          {"#!/bin/sh\n", "exit"},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			for _, name := range []string{"podman", "newuidmap", "newgidmap"} {
				path, err := exec.LookPath(name)
				must(t, err)
				must(t, os.Symlink(path, filepath.Join(dir, name)))
			}
			crun := filepath.Join(dir, "crun")
			must(t, os.WriteFile(crun, []byte(test.program), 0o755))
			t.Setenv("PATH", dir)
			o := options(t)
			h := start(t, o)
			began := time.Now()
			c, err := h.Open(ctx(t), order(t, i))
			if err == nil {
				c.Close()
				t.Fatal("a cell was made")
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
			t.Log(err)
			for _, words := range []string{"start a cell", crun, test.said} {
				if !strings.Contains(err.Error(), words) {
					t.Errorf("%q does not say %q", err, words)
				}
			}
			if faultKind(err) != isolation.Infrastructure {
				t.Errorf("kind %v", faultKind(err))
			}
			must(t, h.Close())
			nothingLeft(t, o)
		})
	}
}
