package supervisor_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"podgrade/isolation/attacktest"
	"podgrade/isolation/protocol"
)

// TestAttacks runs the hostile program against the supervisor. The namespaces
// of the tests have no seccomp filter, so what needs one is left to the tests
// of the engines.
func TestAttacks(t *testing.T) {
	const has = attacktest.HidePID | attacktest.ToolMount
	kinds := []kind{sealedUser, dockerRoot} // the engines' own tests attack the others
	if os.Getenv("PODGRADE_TEST_SOAK") != "" {
		kinds = everyCell
	}
	forEach(t, kinds, func(t *testing.T, c *cell) {
		m := mark()
		for _, a := range attacktest.Attacks(m, built.init) {
			if a.Needs&^has != 0 {
				continue
			}
			t.Run(strings.ReplaceAll(a.Name, " ", "-"), func(t *testing.T) {
				c.t = t
				got := c.run(protocol.Run{
					Argv: append([]string{built.attack}, a.Args...), Env: []string{attacktest.Variable + "=yes"},
					Limits: a.Limits, Timeout: a.Timeout,
				})
				for _, wrong := range a.Check(got.Exit, got.stdout) {
					t.Error(wrong)
				}
				if a.Timeout > 0 && got.Duration > a.Timeout+3*time.Second {
					t.Errorf("it took %v", got.Duration)
				}
				if n := processesWith(m); got.TimedOut && n != 0 {
					t.Errorf("%d processes are left after the time-out", n)
				}
				c.alive()
			})
		}
		c.t = t
	})
}

// What one command left behind cannot get hold of the next one, neither as
// trampoline nor as command: each runs in a Landlock domain of its own.
func TestNextCommandIsOutOfReach(t *testing.T) {
	forEach(t, everyCell, func(t *testing.T, c *cell) {
		watch := fmt.Sprintf("%s watch 1 > caught 2>&1 &", built.attack)
		if got := c.sh(watch, 10*time.Second); got.Code != 0 {
			t.Fatalf("start the watcher: %+v", got)
		}
		for range 30 {
			if got := c.sh("read -r line < /proc/self/stat", 10*time.Second); got.Code != 0 || got.TimedOut {
				t.Fatalf("a watched command: %+v", got)
			}
		}
		var text []byte
		for end := time.Now().Add(10 * time.Second); len(text) == 0 && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			text, _ = os.ReadFile(filepath.Join(c.dir, "caught"))
		}
		if string(text) != "caught: 0\n" {
			t.Errorf("the watcher says %q", text)
		}
	})
}

// kill -9 -1 by a shell's own kill, or by a program: the command ends with 137
// or survives itself, the cell lives.
func TestKillEverythingLeavesTheCell(t *testing.T) {
	forEach(t, everyCell, func(t *testing.T, c *cell) {
		if got := c.sh("sleep 60 & /bin/kill -9 -1; kill -9 $$", 10*time.Second); got.Code != 137 || got.Signal != 9 || got.TimedOut {
			t.Errorf("got %+v", got)
		}
		c.alive()
	})
}
