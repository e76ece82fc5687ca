package supervisor

import (
	"os"
	"sync"
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
	c := &command{exit: make(chan syscall.WaitStatus), eof: make(chan struct{}, 2)}
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

// stopper is an ender of a child that was stopped before its exec: only its end
// lets go of the start.
type stopper struct {
	powerless
	started func()
	once    sync.Once
}

func (s *stopper) end() bool {
	s.once.Do(s.started)
	return false
}

// A child that is stopped while it is started does not keep a time-out from
// ending it.
func TestAStoppedStartIsEnded(t *testing.T) {
	t.Parallel()
	p := &processes{}
	p.starting.RLock()
	p.ender = &stopper{started: p.starting.RUnlock}
	if !p.endAll(10 * time.Second) {
		t.Error("it was not ended")
	}
	if !p.starting.TryRLock() {
		t.Error("the next one cannot start")
	}
	p.starting.RUnlock()

	p.starting.RLock()
	p.ender = &powerless{}
	if p.endAll(50 * time.Millisecond) {
		t.Error("what cannot be ended is said to have been")
	}
	p.starting.RUnlock()
	for deadline := time.Now().Add(10 * time.Second); !p.starting.TryLock(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the end that was given up keeps it")
		}
	}
	p.starting.Unlock()
}
