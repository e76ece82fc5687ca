package supervisor

import (
	"os"
	"syscall"
	"testing"
	"time"

	"podgrade/isolation/protocol"
)

// powerless is an ender whose processes do not end.
type powerless struct{ asked int }

func (p *powerless) end() bool { p.asked++; return true }

func (*powerless) pids() []int { return nil }

func (*powerless) ownNetwork() bool { return false }

// A time-out that cannot be enforced from inside is answered in time, as
// stuck: the host ends the cell.
func TestStuck(t *testing.T) {
	t.Parallel()
	ender := &powerless{}
	s := &supervisor{processes: &processes{ender: ender}}
	c := &command{exit: make(chan syscall.WaitStatus), report: make(chan report, 1), eof: make(chan struct{}, 2)}
	c.report <- report{reached: true}
	for i := range c.pipes {
		read, write, err := pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer syscall.Close(write)
		c.pipes[i] = pollable(read)
		go func(f *os.File) {
			buf := make([]byte, 1)
			if _, err := f.Read(buf); err != nil {
				c.eof <- struct{}{}
			}
		}(c.pipes[i])
	}
	began := time.Now()
	o := s.wait(c, 10*time.Millisecond)
	if took := time.Since(began); took < endPatience || took > endPatience+lastWords+3*time.Second {
		t.Errorf("it took %v", took)
	}
	if want := (protocol.Exit{TimedOut: true, Stuck: true}); o.exit != want || ender.asked < 10 {
		t.Errorf("got %+v after asking %d times", o.exit, ender.asked)
	}
	if o.eofs != 2 {
		t.Error("the outputs were waited for without end")
	}
}

// A trampoline that died before it became the command is no exit of the
// command; one that was killed is.
func TestTrampolineThatDied(t *testing.T) {
	r := &protocol.Run{Argv: []string{"prog"}}
	const exited2, killed = syscall.WaitStatus(2 << 8), syscall.WaitStatus(syscall.SIGKILL)
	for name, test := range map[string]struct {
		o    outcome
		want protocol.FailureKind
	}{
		"died":        {outcome{ended: true, reported: true, status: exited2}, protocol.Broken},
		"killed":      {outcome{ended: true, reported: true, status: killed}, ""},
		"ran":         {outcome{ended: true, reported: true, report: report{reached: true}, status: exited2}, ""},
		"reported":    {outcome{ended: true, reported: true, report: report{failed: true, mishap: mishap{Stage: stageExec, Errno: syscall.ENOENT}}, status: exited2}, protocol.NoProgram},
		"is stuck":    {outcome{reported: true}, ""},
		"says naught": {outcome{}, ""},
	} {
		f := test.o.failure(r)
		if f == nil && test.want != "" || f != nil && f.Kind != test.want {
			t.Errorf("%s: got %+v, want %q", name, f, test.want)
		}
	}
}
