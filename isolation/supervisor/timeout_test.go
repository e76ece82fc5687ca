package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"podgrade/isolation/protocol"
)

// gone waits until no process with the mark is left.
func gone(t *testing.T, mark string) {
	t.Helper()
	waitFor(t, func() bool { return processesWith(mark) == 0 })
}

// waitFor waits until it is so, for 5 seconds.
func waitFor(t *testing.T, so func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not come to that")
		}
	}
}

func TestTimeoutEndsEverything(t *testing.T) {
	forEach(t, everyKind, func(t *testing.T, c *cell) {
		m := mark()
		for _, args := range [][]string{{"linger", m, "60"}, {"hold", m, "60"}} {
			got := c.run(protocol.Run{Argv: append([]string{built.attack}, args...), Timeout: 700 * time.Millisecond})
			if !got.TimedOut || got.Stuck || got.Held != (args[0] == "hold") || got.Duration < 700*time.Millisecond || got.Duration > 3700*time.Millisecond {
				t.Errorf("%s: got %+v", args[0], got)
			}
			if got.Held && got.Code != 0 || !got.Held && got.Signal != 9 {
				t.Errorf("%s: the command itself ended with %+v", args[0], got.Exit)
			}
			if n := processesWith(m); n != 0 {
				t.Errorf("%s: %d processes are left", args[0], n)
			}
			c.alive()
		}
	})
}

// A chain of processes that each start the next and end has nobody to end at
// any instant; on a host it takes stopping the tree.
func TestEndOfAChain(t *testing.T) {
	forEach(t, everyKind, func(t *testing.T, c *cell) {
		m := mark()
		c.run(protocol.Run{Argv: []string{built.attack, "spawn", m, "30"}, Timeout: 10 * time.Second})
		if got := c.sh("sleep 60", 300*time.Millisecond); !got.TimedOut || got.Stuck {
			t.Errorf("got %+v", got)
		}
		// A chain that got away goes on for longer than this; what was ended may
		// take a moment to be gone.
		n := processesWith(m)
		for range 20 {
			if n == 0 {
				return
			}
			time.Sleep(100 * time.Millisecond)
			n = processesWith(m)
		}
		t.Errorf("%d processes are left", n)
	})
}

func TestOutputBeforeTimeoutIsKept(t *testing.T) {
	forEach(t, eitherPlace, func(t *testing.T, c *cell) {
		got := c.sh("echo out; echo err >&2; sleep 60", 500*time.Millisecond)
		if !got.TimedOut || got.stdout != "out\n" || got.stderr != "err\n" {
			t.Errorf("got %+v", got)
		}
	})
}

// A normal end leaves background processes alive; output that they hold is
// waited for.
func TestBackgroundProcesses(t *testing.T) {
	forEach(t, eitherPlace, func(t *testing.T, c *cell) {
		m := mark()
		if got := c.run(protocol.Run{Argv: []string{built.attack, "sleep", m, "60", "last"}, Timeout: 10 * time.Millisecond}); !got.TimedOut {
			t.Errorf("got %+v", got)
		}
		c.sh(fmt.Sprintf("%s sleep %s 60 last >/dev/null 2>&1 &", built.attack, m), 10*time.Second)
		time.Sleep(100 * time.Millisecond)
		if n := processesWith(m); n != 1 {
			t.Errorf("%d background processes are alive, want 1", n)
		}
		if got := c.sh("(sleep 0.4; echo late) & echo early", 10*time.Second); got.stdout != "early\nlate\n" || got.TimedOut || got.Duration < 400*time.Millisecond {
			t.Errorf("got %+v", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), askWithin)
		defer cancel()
		a, err := c.Do(ctx, protocol.Request{Op: protocol.OpKillAll}, protocol.Sinks{})
		if err != nil || a.Kill == nil || a.Kill.Stuck {
			t.Errorf("kill all: %+v, %v", a, err)
		}
		if n := processesWith(m); n != 0 {
			t.Errorf("%d processes are left when kill-all was answered", n)
		}
		c.alive()
	})
}

// Whatever else ended, the end of the channel ends everything.
func TestEndOfChannel(t *testing.T) {
	forEach(t, eitherPlace, func(t *testing.T, c *cell) {
		m := mark()
		c.sh(fmt.Sprintf("%s linger %s 60 >/dev/null 2>&1 &", built.attack, m), 10*time.Second)
		time.Sleep(100 * time.Millisecond)
		if n := processesWith(m); n == 0 {
			t.Fatal("nothing lingers")
		}
		if err := c.close(); err != nil {
			t.Errorf("the supervisor ended with %v\n%s", err, c.stderr)
		}
		gone(t, m)
		if text := c.stderr.String(); text != "" {
			t.Errorf("it said %q", text)
		}
	})
}

// On a host a signal to the supervisor takes its commands with it.
func TestHostSignalEndsCommands(t *testing.T) {
	c := open(t, onHost)
	m := mark()
	c.sh(fmt.Sprintf("%s linger %s 60 >/dev/null 2>&1 &", built.attack, m), 10*time.Second)
	if err := c.process.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	gone(t, m)
	select {
	case <-c.Done():
	case <-time.After(3 * time.Second):
		t.Error("the supervisor lives")
	}
	if _, err := c.Do(t.Context(), protocol.Request{Op: protocol.OpKillAll}, protocol.Sinks{}); !errors.Is(err, protocol.ErrClosed) {
		t.Errorf("a request afterwards: %v", err)
	}
}
