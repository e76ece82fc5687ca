package supervisor

import (
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"podgrade/isolation/protocol"
)

// Numbers of requests to a terminal, from the kernel's headers.
const (
	tiocGetPeer = 0x5441 // TIOCGPTPEER
	tiocUnlock  = 0x40045431
)

// terminal is our end of a pseudo terminal.
type terminal struct {
	master *os.File

	mu     sync.Mutex
	closed bool
}

// openTerminal makes a pseudo terminal of the cell, and returns the command's
// end of it.
func openTerminal(size protocol.Size) (*terminal, int, error) {
	master, err := syscall.Open("/dev/ptmx", syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, -1, err
	}
	var unlocked int32
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, uintptr(master), tiocUnlock, uintptr(unsafe.Pointer(&unlocked))); e != 0 {
		_ = syscall.Close(master)
		return nil, -1, e
	}
	// Not by its name, which a command could have put something else in place of.
	slave, _, e := syscall.Syscall(syscall.SYS_IOCTL, uintptr(master), tiocGetPeer, syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC)
	if e != 0 {
		_ = syscall.Close(master)
		return nil, -1, e
	}
	t := &terminal{master: pollable(master)}
	if err := t.resize(size); err != nil {
		t.close()
		_ = syscall.Close(int(slave))
		return nil, -1, err
	}
	return t, int(slave), nil
}

// resize says how large the terminal is.
func (t *terminal) resize(size protocol.Size) error {
	conn, err := t.master.SyscallConn()
	if err != nil {
		return err
	}
	cells := [4]uint16{size.Rows, size.Columns}
	var e syscall.Errno
	err = conn.Control(func(fd uintptr) {
		_, _, e = syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCSWINSZ, uintptr(unsafe.Pointer(&cells)))
	})
	if err == nil && e != 0 {
		err = e
	}
	return err
}

// hangUp reads no longer than for what has been printed: who is still there in
// the background may hold the terminal for ever.
func (t *terminal) hangUp() {
	if t != nil {
		_ = t.master.SetReadDeadline(time.Now().Add(lastWords / 10))
	}
}

func (t *terminal) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.closed = true
		t.master.Close()
	}
}

// resize carries OpResize out, for the newest terminal.
func (s *supervisor) resize(size *protocol.Size) protocol.Answer {
	s.mu.Lock()
	t := s.terminal
	s.mu.Unlock()
	if t == nil {
		return failed(protocol.NotExist, "resize the terminal: no command has one")
	}
	if err := t.resize(*size); err != nil {
		return failed(protocol.Broken, "resize the terminal: %v", err)
	}
	return protocol.Answer{}
}

// startOnTerminal starts the command with a terminal of its own.
func (s *supervisor) startOnTerminal(id uint32, r *protocol.Run) (*command, *protocol.Failure) {
	t, slave, err := openTerminal(*r.Terminal)
	if err != nil {
		return nil, failed(protocol.Broken, "make a terminal: %v", err).Failure
	}
	exit, mishap := s.processes.start(r, [3]int{slave, slave, slave}, s.landlock)
	_ = syscall.Close(slave)
	if mishap != nil {
		t.close()
		return nil, mishap.failure(r)
	}
	s.mu.Lock()
	s.terminal = t
	s.mu.Unlock()
	c := &command{exit: exit, eof: make(chan struct{}, 2), terminal: t, input: t.master}
	c.eof <- struct{}{} // there is no second output
	go s.pump(c, id, t.master, protocol.Stdout)
	return c, nil
}

// waiting is live input on its way to a command that may not read it.
type waiting struct {
	mu    sync.Mutex
	more  *sync.Cond
	bytes []byte
	ended bool
}

// feed hands live input on to the command as fast as it reads. What does not fit
// is the end of it: the channel must never wait for a command.
func (c *command) feed(in *inbox) {
	w := &waiting{}
	w.more = sync.NewCond(&w.mu)
	go func() {
		_ = in.each(func(chunk []byte) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if len(w.bytes)+len(chunk) > protocol.MaxStdin {
				return errTooMuch
			}
			w.bytes = append(w.bytes, chunk...)
			w.more.Signal()
			return nil
		})
		w.mu.Lock()
		w.ended = true
		w.more.Signal()
		w.mu.Unlock()
		_ = in.each(func([]byte) error { return nil }) // whatever still comes
	}()
	for {
		chunk := w.next()
		if len(chunk) == 0 {
			break
		}
		if _, err := c.input.Write(chunk); err != nil {
			return
		}
	}
	if c.terminal == nil {
		c.input.Close()
	}
}

// next waits for input; none is the end of it.
func (w *waiting) next() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.bytes) == 0 && !w.ended {
		w.more.Wait()
	}
	chunk := w.bytes
	w.bytes = nil
	return chunk
}
