package supervisor

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"podgrade/isolation/protocol"
)

// A recorded command is a link to this binary under the command's name. It
// knows nothing but its name and arguments: it hands them to the supervisor,
// which asks the host, and does what comes back. So no rule lies where the
// cell's commands could read it, and what they do to the log in the workspace
// is undone by the host, which keeps its own.

// callSocket is where the supervisor with that number takes calls: a name
// without a file, that nobody can remove and only one process can have.
func callSocket(supervisor int) string { return fmt.Sprintf("@podgrade-calls-%d", supervisor) }

const (
	// maxCalls bounds the calls under way at once; others wait.
	maxCalls = 8
	// callGrace bounds how long a caller may take to say what it was called with.
	callGrace = 10 * time.Second
	// replyGrace bounds how long the host may take to answer a call.
	replyGrace = 60 * time.Second
)

// recorder takes calls from recorded commands.
type recorder struct {
	mu      sync.Mutex
	socket  *os.File // nil: nobody asked for it
	last    uint32   // number of the last call
	replies map[uint32]chan protocol.Reply
}

// record carries OpRecord out.
func (s *supervisor) record() protocol.Answer {
	r := &s.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.socket != nil {
		return protocol.Answer{}
	}
	socket, err := listen(callSocket(os.Getpid()))
	if err != nil {
		return failed(protocol.Broken, "take the calls of recorded commands: %v", err)
	}
	r.socket, r.replies = socket, map[uint32]chan protocol.Reply{}
	go s.takeCalls(socket)
	return protocol.Answer{}
}

// listen makes a socket that takes connections. Waiting for one needs no
// thread.
func listen(name string) (*os.File, error) {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if err = syscall.Bind(fd, &syscall.SockaddrUnix{Name: name}); err == nil {
		err = syscall.Listen(fd, 128)
	}
	if err != nil {
		syscall.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// takeCalls takes calls for ever.
func (s *supervisor) takeCalls(socket *os.File) {
	raw, err := socket.SyscallConn()
	if err != nil {
		complain(ExitDone, "take the calls of recorded commands: %v", err)
		return
	}
	free := make(chan struct{}, maxCalls)
	for {
		free <- struct{}{}
		var conn int
		var err error
		waited := raw.Read(func(fd uintptr) bool {
			conn, _, err = syscall.Accept4(int(fd), syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK)
			return err != syscall.EAGAIN
		})
		if waited != nil {
			return
		}
		if err != nil { // who called has gone again, or descriptors are short
			<-free
			time.Sleep(time.Millisecond)
			continue
		}
		go func() {
			defer func() { <-free }()
			s.takeCall(os.NewFile(uintptr(conn), "call"))
		}()
	}
}

// takeCall hands one call to the host and its reply back.
func (s *supervisor) takeCall(conn *os.File) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(callGrace))
	kind, payload, err := protocol.NewReader(conn).Read()
	if err != nil || kind != protocol.KindCall {
		return
	}
	call, err := protocol.ParseCall(payload)
	if err != nil {
		return
	}
	reply := make(chan protocol.Reply, 1)
	call.ID = s.recorder.enter(reply)
	defer s.recorder.leave(call.ID)
	// What came may be larger on its way than it was: a byte that is no text
	// takes four.
	if err := s.out.WriteJSON(protocol.KindCall, call); err != nil {
		call.Argv, call.Fault = nil, tooLongCall
		s.send(s.out.WriteJSON(protocol.KindCall, call))
	}
	select {
	case r := <-reply:
		_ = conn.SetDeadline(time.Now().Add(callGrace))
		_ = protocol.NewWriter(conn).WriteJSON(protocol.KindReply, r) // or the caller has gone
	case <-time.After(replyGrace):
	}
}

// tooLongCall is the fault of a call that does not fit into a frame.
const tooLongCall = "its arguments are too long to be recorded"

// enter gives a call its number.
func (r *recorder) enter(reply chan protocol.Reply) uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.last++; r.replies[r.last] != nil; r.last++ {
	}
	r.replies[r.last] = reply
	return r.last
}

func (r *recorder) leave(id uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.replies, id)
}

// reply hands the host's answer to its call, which may have gone.
func (s *supervisor) reply(payload []byte) error {
	r, err := protocol.ParseReply(payload)
	if err != nil {
		return err
	}
	s.recorder.mu.Lock()
	defer s.recorder.mu.Unlock()
	if call := s.recorder.replies[r.ID]; call != nil {
		select {
		case call <- r:
		default: // a second reply
		}
	}
	return nil
}

// exitUnrecorded is the status of a recorded command that nobody answered.
const exitUnrecorded = 127

// call is this binary under a recorded command's name.
func call(tool string, argv []string) int {
	reply, err := ask(protocol.Call{Tool: tool, Argv: argv})
	if err != nil {
		return complain(exitUnrecorded, "%s is recorded, and nobody answers: %v", tool, err)
	}
	_, _ = os.Stdout.WriteString(reply.Stdout)
	_, _ = os.Stderr.WriteString(reply.Stderr)
	if err := addLine(reply.Log, reply.Line); err != nil {
		_ = addLine(reply.Log+".error", err.Error())
	}
	return reply.Exit
}

// ask hands a call to the supervisor.
func ask(c protocol.Call) (protocol.Reply, error) {
	fd, err := connectToSupervisor()
	if err != nil {
		return protocol.Reply{}, err
	}
	conn := os.NewFile(uintptr(fd), "supervisor")
	defer conn.Close()
	w := protocol.NewWriter(conn)
	if err := w.WriteJSON(protocol.KindCall, c); err != nil {
		c.Argv, c.Fault = nil, tooLongCall
		if err := w.WriteJSON(protocol.KindCall, c); err != nil {
			return protocol.Reply{}, err
		}
	}
	kind, payload, err := protocol.NewReader(conn).Read()
	if err != nil {
		return protocol.Reply{}, err
	}
	if kind != protocol.KindReply {
		return protocol.Reply{}, fmt.Errorf("a frame of kind %q came", byte(kind))
	}
	return protocol.ParseReply(payload)
}

// connectToSupervisor finds the supervisor among this process's ancestors: on
// the host it is the one that takes calls; in a cell it is PID 1, whatever can
// be seen of those between.
func connectToSupervisor() (int, error) {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	for pid := os.Getppid(); ; {
		err = syscall.Connect(fd, &syscall.SockaddrUnix{Name: callSocket(pid)})
		if err == nil && !isThat(fd, pid) {
			err = syscall.EADDRINUSE // by somebody else
		}
		if err == nil {
			return fd, nil
		}
		if pid <= 1 || err == syscall.EADDRINUSE {
			syscall.Close(fd)
			return -1, err
		}
		up, ok := parentOf(pid)
		if !ok {
			up = 1
		}
		pid = up
	}
}

// isThat tells whether the process at the other end is the one that the name
// says: on a host anybody may take a name.
func isThat(fd, pid int) bool {
	peer, err := syscall.GetsockoptUcred(fd, syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	return err == nil && int(peer.Pid) == pid
}

// addLine writes a line at the end of a file, at once.
func addLine(name, line string) error {
	if name == "" {
		return nil
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(line + "\n")
	return err
}

// recordedName is the command that this binary was called as; false when it was
// called as itself.
func recordedName(argv0 string) (string, bool) {
	name := lastPart(argv0)
	return name, name != Name && name != "." && name != "/"
}
