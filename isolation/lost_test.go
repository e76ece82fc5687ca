package isolation_test

import (
	"errors"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"podgrade/isolation"
	"podgrade/oci"
)

// full is a writer that takes nothing.
type full struct{}

var errFull = errors.New("no space is left for the output")

func (full) Write([]byte) (int, error) { return 0, errFull }

// What kept a command's output from being kept is said, and is nobody's result.
func TestALostCellSaysWhy(t *testing.T) {
	c := open(t, as(t, ""), nil)
	_, err := c.Run(ctx(t), isolation.Command{Argv: []string{"/bin/echo", "x"}, Env: testEnv, Dir: oci.WorkspacePath, Timeout: time.Minute, Stdout: full{}})
	if !errors.Is(err, errFull) || !errors.Is(err, isolation.ErrCellLost) || faultKind(err) != isolation.Infrastructure {
		t.Errorf("the command's output: %v", err)
	}
	if err == nil || strings.Contains(err.Error(), "by itself") {
		t.Errorf("it did not end by itself: %v", err)
	}
}

// On the host nothing but the supervisor ends what commands started: it is let
// go when the worker is gone, too.
func TestAPlaceOnTheHostIsClosedWithoutTheWorker(t *testing.T) {
	o := options(t)
	h := start(t, o)
	defer h.Close()
	c, err := h.OpenOnHost(ctx(t), order(t, isolation.Image{}))
	if err != nil {
		t.Fatal(err)
	}
	said := sh(t, c, "sleep 1000 >/dev/null 2>&1 & echo $!")
	pid, err := strconv.Atoi(strings.TrimSpace(said.out))
	if err != nil {
		t.Fatal(err)
	}
	if err := named(o.Scratch, "podgrade-worker")[0].Kill(); err != nil {
		t.Fatal(err)
	}
	isolation.AwaitWorker(h)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
		syscall.Kill(pid, syscall.SIGKILL)
		t.Errorf("what a command started is still there: %v", err)
	}
}
