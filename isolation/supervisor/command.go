package supervisor

import (
	"os"
	"strings"
	"syscall"
	"time"

	"podgrade/isolation/protocol"
)

// lastWords is how long output may still come after a time-out ended every
// process: only somebody outside of our reach can hold a pipe open for longer.
const lastWords = 2 * time.Second

// command is one command under way. Each channel delivers once.
type command struct {
	exit  <-chan syscall.WaitStatus
	input *os.File      // writing end of its standard input; nil: it has none
	eof   chan struct{} // twice: both outputs are at their end
	pipes [2]*os.File   // reading ends of its outputs

	terminal *terminal // in place of pipes; nil: none
}

// outcome is what has been seen of a command so far.
type outcome struct {
	ended  bool
	status syscall.WaitStatus
	eofs   int
	exit   protocol.Exit
}

// done: the main process has been reaped, and nobody holds its output.
func (o *outcome) done() bool { return o.ended && o.eofs == 2 }

// run carries OpRun out.
func (s *supervisor) run(id uint32, r *protocol.Run, in *inbox) protocol.Answer {
	var stdin []byte
	if !r.Live {
		var err error
		if stdin, err = in.gather(); err != nil {
			return failed(protocol.Broken, "start the command: %v", err)
		}
	}
	for _, list := range [][]string{r.Argv, r.Env, {r.Dir}} {
		for _, word := range list {
			if strings.ContainsRune(word, 0) {
				return failed(protocol.Broken, "start the command: a NUL byte in an argument, a variable or the directory: take it out")
			}
		}
	}
	began, before := time.Now(), s.attempts()
	c, failure := s.startAny(id, r, stdin)
	if failure != nil {
		return protocol.Answer{Failure: failure}
	}
	if r.Live && in != nil {
		go c.feed(in)
	}
	o := s.wait(c, r.Timeout)
	c.close()
	o.exit.NoRoutes = s.attempts() - before
	o.exit.Duration = time.Since(began)
	return protocol.Answer{Exit: &o.exit}
}

// startAny starts the command with a terminal or with pipes.
func (s *supervisor) startAny(id uint32, r *protocol.Run, stdin []byte) (*command, *protocol.Failure) {
	if r.Terminal != nil {
		return s.startOnTerminal(id, r)
	}
	if r.Live {
		stdin = []byte{}
	}
	return s.start(id, r, stdin)
}

// start starts the command, with pipes for its output, and one for its input
// when it has one.
func (s *supervisor) start(id uint32, r *protocol.Run, stdin []byte) (*command, *protocol.Failure) {
	var ends [2][3]int // of standard output, standard error, standard input
	reads, writes := ends[0][:], ends[1][:]
	if stdin == nil {
		reads, writes = reads[:2], writes[:2]
	}
	for i := range reads {
		var err error
		if reads[i], writes[i], err = pipe(); err != nil {
			closeAll(reads[:i], writes[:i])
			return nil, failed(protocol.Broken, "make the command's pipes: %v", err).Failure
		}
	}
	input := s.stdin
	if stdin != nil {
		input = reads[2]
	}
	exit, mishap := s.processes.start(r, [3]int{input, writes[0], writes[1]}, s.landlock)
	closeAll(writes[:2], reads[2:])
	if mishap != nil {
		closeAll(reads[:2], writes[2:])
		return nil, mishap.failure(r)
	}
	c := &command{exit: exit, eof: make(chan struct{}, 2)}
	if stdin != nil {
		c.input = pollable(writes[2])
	}
	if stdin != nil && !r.Live {
		go func() { // as fast as the command reads; close ends it
			_, _ = c.input.Write(stdin)
			c.input.Close()
		}()
	}
	for i, stream := range []protocol.Stream{protocol.Stdout, protocol.Stderr} {
		c.pipes[i] = pollable(reads[i])
		go s.pump(c, id, c.pipes[i], stream)
	}
	return c, nil
}

// close lets go of a command that is over: who still holds its output may be
// told so, who still waits for input gets its end.
func (c *command) close() {
	for _, pipe := range c.pipes {
		pipe.Close()
	}
	if c.terminal != nil {
		c.terminal.close()
		return
	}
	if c.input != nil {
		c.input.Close()
	}
}

// firstChunk is what a command's output is read by until it prints more: most
// print a line, and each cell would pay for the zeros of a large buffer.
const firstChunk = 4 << 10

// pump sends an output as it comes. It reads no more before the host has taken
// what it read: a command that prints too much waits.
func (s *supervisor) pump(c *command, id uint32, from *os.File, stream protocol.Stream) {
	buf := make([]byte, firstChunk)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			s.send(s.out.WriteChunk(id, stream, buf[:n]))
		}
		buf = chunkAfter(buf, n)
		if err != nil {
			c.eof <- struct{}{}
			return
		}
	}
}

// chunkAfter is what an output is read by next, when n bytes of buf were read: what
// fills the first chunk is read by large ones from then on.
func chunkAfter(buf []byte, n int) []byte {
	if n < firstChunk || len(buf) > firstChunk {
		return buf
	}
	return make([]byte, protocol.ChunkSize)
}

// wait waits for the command's end, or ends everything after its time-out.
func (s *supervisor) wait(c *command, timeout time.Duration) *outcome {
	o := &outcome{}
	var timer <-chan time.Time
	if timeout > 0 {
		timer = time.After(timeout)
	}
	if c.until(o, timer) {
		return o
	}
	o.exit.TimedOut, o.exit.Held = true, o.ended
	o.exit.Stuck = !s.processes.endAll(endPatience)
	c.terminal.hangUp()
	for _, pipe := range c.pipes {
		_ = pipe.SetReadDeadline(time.Now().Add(lastWords))
	}
	// One that could not be ended may hold everything: wait no longer than for
	// the pipes.
	if !c.until(o, time.After(lastWords+time.Second)) {
		o.exit.Stuck = true
	}
	return o
}

// until gathers what the command delivers until it is done (true) or the timer
// fires (false).
func (c *command) until(o *outcome, timer <-chan time.Time) bool {
	for !o.done() {
		select {
		case o.status = <-c.exit:
			o.ended = true
			o.exit.Code, o.exit.Signal = exitCode(o.status)
			c.terminal.hangUp()
		case <-c.eof:
			o.eofs++
		case <-timer:
			return false
		}
	}
	return true
}

// exitCode is what a shell would say of the status.
func exitCode(status syscall.WaitStatus) (code, signal int) {
	if status.Signaled() {
		return 128 + int(status.Signal()), int(status.Signal())
	}
	return status.ExitStatus(), 0
}
