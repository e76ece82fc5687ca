package isolation_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"podgrade/isolation"
	"podgrade/oci"
)

// faultKind is the kind of the fault in an error, -1 when there is none.
func faultKind(err error) isolation.FaultKind {
	var f *isolation.Fault
	if errors.As(err, &f) {
		return f.Kind
	}
	return -1
}

func TestAFaultSaysEverythingOnOneLine(t *testing.T) {
	cause := errors.New("no space left")
	for want, f := range map[string]*isolation.Fault{
		"make a view of /w: no space left (free some)": {Tried: "make a view of", On: "/w", Why: cause, Do: "free some"},
		"make a view: no space left":                   {Tried: "make a view", Why: cause},
		"make a view":                                  {Tried: "make a view"},
	} {
		if f.Error() != want {
			t.Errorf("got %q, want %q", f.Error(), want)
		}
		if f.Why != nil && !errors.Is(f, cause) {
			t.Errorf("%q lost its cause", want)
		}
	}
}

// A worker that is stopped is given up: podgrade ends, as infrastructure, and
// leaves no process.
func TestAStoppedWorkerIsGivenUp(t *testing.T) {
	t.Parallel()
	o := options(t)
	h := start(t, o)
	c := openOn(t, h, order(t, as(t, "")))
	isolation.GiveUpAfter(h, 10*time.Second)
	for _, p := range named(o.Scratch, "podgrade-worker") {
		p.Signal(syscall.SIGSTOP)
	}
	time.Sleep(time.Second) // a signal takes effect when its process next runs
	began := time.Now()
	err := c.CheckImage(ctx(t))
	if !errors.Is(err, isolation.ErrClosed) {
		t.Errorf("a question to a stopped worker: %v", err)
	}
	c.Close()
	h.Close()
	if took := time.Since(began); took > 50*time.Second {
		t.Errorf("it took %v to give up", took)
	}
	if left := named(o.Scratch, "podgrade"); len(left) > 0 {
		t.Errorf("%d processes are left", len(left))
	}
	// What it could not remove, the next start does.
	if err := start(t, o).Close(); err != nil {
		t.Error(err)
	}
}

// A command line or a path that is longer than a cell can be told is a fault of who
// wrote it: the cell is well.
func TestARequestThatIsTooLargeIsNoFaultOfTheCell(t *testing.T) {
	c := open(t, as(t, ""), nil)
	long := strings.Repeat("x", 2<<20)
	_, err := c.Run(ctx(t), isolation.Command{Argv: []string{"/bin/true", long}, Env: testEnv, Dir: oci.WorkspacePath, Timeout: time.Minute})
	if !errors.Is(err, isolation.ErrTooLarge) || errors.Is(err, isolation.ErrCellLost) {
		t.Errorf("a command: %v", err)
	}
	if _, err := c.Stat(ctx(t), oci.WorkspacePath, long); err == nil || errors.Is(err, isolation.ErrCellLost) {
		t.Errorf("a path: %v", err)
	}
	_, err = c.Run(ctx(t), isolation.Command{Argv: []string{"/bin/true"}, Env: []string{"A=" + long}, Dir: oci.WorkspacePath, Timeout: time.Minute})
	if err == nil || errors.Is(err, isolation.ErrTooLarge) || errors.Is(err, isolation.ErrCellLost) || !strings.Contains(err.Error(), "variables of the image") {
		t.Errorf("an environment: %v", err)
	}
	less := strings.Repeat("<", 100<<10) // what a page of HTML would need six bytes for
	if exit, err := c.Run(ctx(t), isolation.Command{Argv: []string{"/bin/true"}, Env: []string{"A=" + less, "B=" + less, "C=" + less}, Dir: oci.WorkspacePath, Timeout: time.Minute}); err != nil || exit.Code != 0 {
		t.Errorf("an environment that the kernel takes: %+v, %v", exit, err)
	}
	alive(t, c)
}
