// Package supervisor is PID 1 of every cell: it runs commands, ends them, and
// answers questions about files, all asked by the host over one channel.
//
// Commands run with its own user and may try to hurt it. What stands against
// that (design: section 4, "Supervisor") is in hardening.go. The package and
// all that it imports is the standard library, so that one static binary works
// in any image.
package supervisor

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"

	"podgrade/isolation/protocol"
)

// Exit statuses of podgrade-init when it is the supervisor.
const (
	ExitDone     = 0 // the host closed the channel
	ExitUsage    = 2 // an argument that it does not know
	ExitVersion  = 3 // the host speaks another version of the protocol
	ExitProtocol = 4 // the host sent what is no frame or no request
	ExitSetup    = 5 // a defence of its own could not be set up
)

// GaveUp tells whether the status says that the supervisor itself gave up.
func GaveUp(status int) bool { return status >= ExitUsage && status <= ExitSetup }

// Names and arguments that choose what podgrade-init is.
const (
	// Name is that of the binary. Under any other it is a recorded command.
	Name = "podgrade-init"
	// ArgHost makes it the guardian of a supervisor without a container: not
	// PID 1, that keeps hold of its descendants as their subreaper.
	ArgHost = "--host"
)

// supervisor is one channel and what runs for it.
type supervisor struct {
	out       *protocol.Writer
	stdin     int // what commands get as standard input
	landlock  int // ruleset of their domains; -1: none
	processes *processes
	paths     resolver
	attempts  func() uint64 // packets that found no route so far
	lost      func()        // called when the channel cannot be written
	recorder  recorder
	closing   atomic.Bool // somebody ends the supervisor: nothing is answered any more

	mu       sync.Mutex
	underWay map[uint32]bool
	inboxes  map[uint32]*inbox // of requests whose input has not ended
	terminal *terminal         // of the newest command that has one
}

// Main is podgrade-init, called as argv[0]: it returns its exit status.
func Main(argv []string) int {
	if len(argv) == 0 {
		argv = []string{Name}
	}
	args := argv[1:]
	if tool, ok := recordedName(argv[0]); ok {
		return call(tool, args)
	}
	switch {
	case len(args) == 0:
		return supervise(false)
	case len(args) == 1 && args[0] == ArgHost:
		return guard()
	case len(args) == 1 && args[0] == argSupervise:
		return supervise(true)
	}
	return complain(ExitUsage, "podgrade-init is started by podgrade, with no argument or with %s", ArgHost)
}

// complain prints one line to the supervisor's own standard error, which ends
// up in the cell's log, and returns status.
func complain(status int, format string, args ...any) int {
	fmt.Fprintf(os.Stderr, "podgrade-init: "+format+"\n", args...)
	return status
}

// supervise sets the defences up and serves the channel until it ends.
func supervise(onHost bool) int {
	keepSmall()
	channel, err := harden(onHost)
	if err != nil {
		status := complain(ExitSetup, "set up the supervisor: %v", err)
		awaitGreeting(0, greetingGrace) // the supervisor ends, whatever has come
		return status
	}
	in := protocol.NewReader(bufio.NewReaderSize(channel.in, protocol.ChunkSize))
	s := &supervisor{
		out:      protocol.NewWriter(channel.out),
		stdin:    channel.null,
		landlock: landlockRuleset(),
		attempts: openCounters().noRoutes,
		underWay: map[uint32]bool{},
		inboxes:  map[uint32]*inbox{},
	}
	restoreLimits()
	syscall.Umask(0) // what it makes gets the mode that it was asked for
	if onHost {
		s.attempts = func() uint64 { return 0 } // the counters are the whole host's
	}
	s.processes = newProcesses(onHost)
	s.lost = func() { s.close(); os.Exit(ExitDone) }
	if onHost {
		s.closeOnSignal()
	}
	status := s.serve(in)
	s.close()
	return status
}

// keepSmall keeps the runtime's appetite down: there is one supervisor a cell.
func keepSmall() {
	runtime.GOMAXPROCS(2)
	debug.SetGCPercent(50)
}

// serve answers the host until the channel ends.
func (s *supervisor) serve(in *protocol.Reader) int {
	if status, ok := s.greet(in); !ok {
		return status
	}
	spareThreads() // while the host looks at the cell: no command runs yet
	for {
		kind, payload, err := in.Read()
		if err != nil {
			return readStatus(err)
		}
		switch kind {
		case protocol.KindRequest:
			err = s.request(payload)
		case protocol.KindInput:
			err = s.input(payload)
		case protocol.KindReply:
			err = s.reply(payload)
		default:
			err = fmt.Errorf("a frame of kind %q, which it never sends", byte(kind))
		}
		if err != nil {
			return complain(ExitProtocol, "read what the host sent: %v", err)
		}
	}
}

// request begins to carry out what a request asks.
func (s *supervisor) request(payload []byte) error {
	q, err := protocol.ParseRequest(payload)
	if err != nil {
		return err
	}
	in, err := s.begin(q)
	if err == nil {
		go s.answer(q, in)
	}
	return err
}

// greet reads the host's Hello and gives the nonce back.
func (s *supervisor) greet(in *protocol.Reader) (status int, ok bool) {
	kind, payload, err := in.Read()
	if err != nil {
		return readStatus(err), false
	}
	if kind != protocol.KindHello {
		return complain(ExitProtocol, "the host's first frame is of kind %q, not a hello", byte(kind)), false
	}
	h, err := protocol.ParseHello(payload)
	if err != nil {
		return complain(ExitProtocol, "read the host's hello: %v", err), false
	}
	if h.Version != protocol.Version {
		return complain(ExitVersion, "the host speaks version %d of the protocol, this binary version %d: install podgrade and podgrade-init together", h.Version, protocol.Version), false
	}
	if err := s.out.WriteJSON(protocol.KindHello, h); err != nil {
		return ExitDone, false
	}
	return 0, true
}

// readStatus is the exit status after the channel could not be read.
func readStatus(err error) int {
	if errors.Is(err, protocol.ErrFrame) {
		return complain(ExitProtocol, "read the channel: %v", err)
	}
	if !errors.Is(err, io.EOF) {
		complain(ExitDone, "read the channel: %v", err)
	}
	return ExitDone
}

// begin notes that a request is under way. The inbox is nil when it has no
// input.
func (s *supervisor) begin(q protocol.Request) (*inbox, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.underWay[q.ID] || s.inboxes[q.ID] != nil {
		return nil, fmt.Errorf("%w: request %d is already under way", protocol.ErrFrame, q.ID)
	}
	s.underWay[q.ID] = true
	if !q.Input {
		return nil, nil
	}
	in := newInbox()
	s.inboxes[q.ID] = in
	return in, nil
}

// answer carries one request out and sends its answer.
func (s *supervisor) answer(q protocol.Request, in *inbox) {
	var a protocol.Answer
	switch q.Op {
	case protocol.OpRun:
		a = s.run(q.ID, q.Run, in)
	case protocol.OpStat:
		a = s.stat(q.Path)
	case protocol.OpRead:
		a = s.read(q.ID, q.Path)
	case protocol.OpList:
		a = s.list(q.ID, q.Path)
	case protocol.OpPut:
		a = s.put(q.Path, q.Put, in)
	case protocol.OpRemove:
		a = s.remove(q.Path)
	case protocol.OpKillAll:
		a.Kill = s.killAll()
	case protocol.OpRecord:
		a = s.record()
	case protocol.OpResize:
		a = s.resize(q.Size)
	case protocol.OpOpen:
		a = open(q.Calls)
	}
	if in != nil {
		in.leave()
	}
	s.mu.Lock()
	delete(s.underWay, q.ID)
	s.mu.Unlock()
	a.ID = q.ID
	if s.closing.Load() {
		return // the end of a command that was ended with us is no end of its own
	}
	s.send(s.out.WriteJSON(protocol.KindAnswer, a))
}

// send ends the supervisor when a frame could not be written: nobody listens.
func (s *supervisor) send(err error) {
	if err != nil {
		complain(ExitDone, "write to the channel: %v", err)
		s.lost()
	}
}

// close ends everything that runs. As PID 1 the kernel does the same once
// more when the process exits.
func (s *supervisor) close() {
	if !s.processes.endAll(endPatience) {
		complain(ExitDone, "some process could not be ended")
	}
}

// failed is the answer of a request that could not be carried out.
func failed(kind protocol.FailureKind, format string, args ...any) protocol.Answer {
	return protocol.Answer{Failure: &protocol.Failure{Kind: kind, Message: fmt.Sprintf(format, args...)}}
}
