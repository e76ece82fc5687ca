package supervisor

import (
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"podgrade/isolation/protocol"
)

// endPatience is how long ended processes may take to be gone after a time-out.
const endPatience = 2 * time.Second

// ender sends SIGKILL to every process that the supervisor answers for, and
// tells whether there was any. There are two: a pid namespace of our own, and
// the descendants of a process on the host.
type ender interface {
	end() (some bool)
	// pids are the numbers of what it would end, as far as they can be known.
	pids() []int
	// ownNetwork: nobody else has ports in this network namespace.
	ownNetwork() bool
}

// processes starts children, reaps them and every orphan, and ends them all.
type processes struct {
	ender ender

	// starting is held for reading while a child is made, for writing while
	// all are ended: so what is started after an end is not hit by it, and an
	// end does not miss what is just being started.
	starting sync.RWMutex

	mu    sync.Mutex
	some  *sync.Cond // children is above zero, perhaps
	waits map[int]chan syscall.WaitStatus
}

// newProcesses starts the reaper.
func newProcesses(onHost bool) *processes {
	p := &processes{ender: pidNamespace{}, waits: map[int]chan syscall.WaitStatus{}}
	if onHost {
		p.ender = newDescendants()
	}
	p.some = sync.NewCond(&p.mu)
	go p.reap()
	return p
}

// start makes a command of a child. Its wait status arrives on the channel.
func (p *processes) start(r *protocol.Run, files [3]int, ruleset int) (<-chan syscall.WaitStatus, *mishap) {
	b, failed := newBirth(r, files, ruleset)
	if failed != nil {
		return nil, failed
	}
	p.starting.RLock()
	defer p.starting.RUnlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	pid, f, err := b.spawn()
	if err != nil {
		return nil, &mishap{stage: stageSetup, errno: errno(err), text: "make a process, which the cell's limits may not allow"}
	}
	if failed := b.mishap(f); failed != nil {
		for err = syscall.EINTR; err == syscall.EINTR; {
			_, err = syscall.Wait4(pid, nil, 0, nil)
		}
		return nil, failed
	}
	wait := make(chan syscall.WaitStatus, 1)
	p.waits[pid] = wait
	p.some.Signal()
	return wait, nil
}

// reap reaps every child that ends, for ever.
func (p *processes) reap() {
	for {
		pid, err := waitable()
		p.mu.Lock()
		if err != nil {
			// No child, so no orphan either: the next one comes through start.
			for len(p.waits) == 0 {
				p.some.Wait()
			}
			p.mu.Unlock()
			continue
		}
		// Reaped under the lock: the number cannot be another child's before this
		// one's status is delivered. A fork that failed reaps its own child.
		var status syscall.WaitStatus
		if got, err := syscall.Wait4(pid, &status, syscall.WNOHANG, nil); err == nil && got == pid {
			if wait := p.waits[pid]; wait != nil {
				delete(p.waits, pid)
				wait <- status
			}
		}
		p.mu.Unlock()
	}
}

// endAll ends every process but the supervisor, and waits until all are gone
// and reaped. It returns false when some are still there after its patience.
func (p *processes) endAll(patience time.Duration) bool {
	deadline := time.Now().Add(patience)
	if !p.holdStarts(deadline) {
		return false
	}
	defer p.starting.Unlock()
	for pause := time.Millisecond / 4; p.ender.end(); pause = min(2*pause, 20*time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(pause)
	}
	return true
}

// startPatience is more than a start takes.
const startPatience = 20 * time.Millisecond

// holdStarts takes the lock for an end. A start takes no time, but a process
// that stops every other one can stop a child before its exec, and with it the
// start: such a child is ended, and then the start is over.
func (p *processes) holdStarts(deadline time.Time) bool {
	held := make(chan struct{})
	go func() {
		p.starting.Lock()
		close(held)
	}()
	for time.Now().Before(deadline) {
		select {
		case <-held:
			return true
		case <-time.After(startPatience):
			p.ender.end()
		}
	}
	go func() {
		<-held
		p.starting.Unlock()
	}()
	return false
}

// pidNamespace ends all that is in the pid namespace whose init we are.
type pidNamespace struct{}

// end kills everything but itself, at once as far as fork is concerned. Only
// ESRCH says that nothing is left: death takes its time, and a process that we
// may not signal counts as one that is there.
func (pidNamespace) end() bool {
	return syscall.Kill(-1, syscall.SIGKILL) != syscall.ESRCH
}

// pids are those that /proc shows, and children that it hides.
func (pidNamespace) pids() []int {
	self := os.Getpid()
	return slices.DeleteFunc(append(numbersIn("/proc"), children()...), func(pid int) bool { return pid == self })
}

func (pidNamespace) ownNetwork() bool { return true }
