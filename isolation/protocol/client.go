package protocol

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
)

// ErrClosed is wrapped by every error of a Client whose channel ended: the
// supervisor is gone, or said something that is no frame.
var ErrClosed = errors.New("the channel to the supervisor ended")

// ErrSink is wrapped by the error of a Do whose sink refused what came.
var ErrSink = errors.New("what a request sent could not be kept")

// ErrSource is wrapped by the error of a Feed whose input could not be read.
var ErrSource = errors.New("what a request needed could not be read")

// Sinks receive the streams of one request as they come; nil drops a stream.
// They are written to one at a time, from the Client's own goroutine: a sink
// that blocks holds up every request, and through the pipes the commands.
// After Do returned no sink is written to any more.
type Sinks struct {
	Stdout, Stderr, Content io.Writer
}

// Client is the host's end of the channel to one supervisor. Its methods may be
// called from several goroutines. It ends when its reader does: closing the
// channel is the caller's, who also owns the process at the other end.
type Client struct {
	w      *Writer
	greet  chan Hello
	done   chan struct{}
	mu     sync.Mutex // guards what follows
	err    error      // why the channel ended; nil while it is open
	nextID uint32
	calls  map[uint32]*call
	reply  func(Call) Reply // nil: nobody asked for calls
	asking chan struct{}    // holds one for each call that is being answered
}

// call is one request under way.
type call struct {
	mu    sync.Mutex // held while a sink is written to
	gone  bool       // Do has returned: drop what still comes
	sinks Sinks
	sink  error // of the first sink that refused
	path  *Path
	files []File
	done  chan Answer

	feeding sync.Mutex  // held while the input is read
	fed     bool        // read no more of it
	over    atomic.Bool // it was closed, for there is an answer
	source  error       // why it could not be read
}

// NewClient starts to read r, the supervisor's output. Frames are written to w.
func NewClient(r io.Reader, w io.Writer) *Client {
	c := &Client{
		w:     NewWriter(w),
		greet: make(chan Hello, 1),
		done:  make(chan struct{}),
		calls: map[uint32]*call{},

		asking: make(chan struct{}, maxAsking),
	}
	go c.read(NewReader(r))
	return c
}

// Done is closed when the channel has ended.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err says why the channel ended; it wraps ErrClosed, and is nil while the
// channel is open.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Hello greets the supervisor with a fresh nonce and waits until it has given
// it back. It comes before the first Do, once.
func (c *Client) Hello(ctx context.Context) error {
	mine := Hello{Version: Version, Nonce: rand.Text()}
	if err := c.send(ctx, KindHello, mine); err != nil {
		return err
	}
	select {
	case theirs := <-c.greet:
		if theirs.Version != Version {
			return c.end(fmt.Errorf("%w: the supervisor speaks version %d of the protocol, podgrade speaks %d: install both together", ErrFrame, theirs.Version, Version))
		}
		if subtle.ConstantTimeCompare([]byte(theirs.Nonce), []byte(mine.Nonce)) != 1 {
			return c.end(fmt.Errorf("%w: the supervisor's greeting holds another nonce than the one it was sent", ErrFrame))
		}
		return nil
	case <-c.done:
		return c.Err()
	case <-ctx.Done():
		return fmt.Errorf("wait for the supervisor's greeting: %w", ctx.Err())
	}
}

// Answer says who answers calls of recorded commands. It comes before the first
// OpRecord. Calls that are made one after another are answered in their order.
func (c *Client) Answer(reply func(Call) Reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reply = reply
}

// maxAsking bounds the calls that are being answered at once. The supervisor
// sends fewer.
const maxAsking = 32

// called answers one call.
func (c *Client) called(payload []byte) error {
	asked, err := ParseCall(payload)
	if err != nil {
		return err
	}
	c.mu.Lock()
	reply := c.reply
	c.mu.Unlock()
	if reply == nil {
		return fmt.Errorf("%w: the supervisor hands on a call that nobody wants", ErrFrame)
	}
	select {
	case c.asking <- struct{}{}:
	default:
		return fmt.Errorf("%w: the supervisor hands on more than %d calls at once", ErrFrame, maxAsking)
	}
	go func() {
		defer func() { <-c.asking }()
		answer := reply(asked)
		answer.ID = asked.ID
		if err := c.w.WriteJSON(KindReply, answer); err != nil {
			c.end(fmt.Errorf("write to the supervisor: %w", err))
		}
	}()
	return nil
}

// Do sends a request and returns its answer, all parts put together; it
// chooses the ID. A Failure is part of the answer, not an error. When ctx ends
// first the request goes on in the cell, and what it still sends is dropped.
func (c *Client) Do(ctx context.Context, q Request, sinks Sinks) (Answer, error) {
	return c.Feed(ctx, q, nil, sinks)
}

// ErrEnvironment: a command was not sent for its environment, which whoever wrote the
// command did not choose.
var ErrEnvironment = errors.New("the environment of a command is too large")

// tooLarge answers a request that fits no frame: as the kernel answers a command line
// of that size, unless it is the environment that takes most of it.
func tooLarge(q Request, why error) (Answer, error) {
	if q.Run != nil {
		if environment, err := marshal(q.Run.Env); err != nil || len(environment) > MaxFrame/2 {
			return Answer{}, errors.Join(fmt.Errorf("%w: %d bytes, the limit is %d", ErrEnvironment, len(environment), MaxFrame/2), err)
		}
	}
	return Answer{ID: q.ID, Failure: &Failure{Kind: TooLarge, Message: fmt.Sprintf("a %s request of that size: %v", q.Op, why)}}, nil
}

// Feed is Do for a request with input, which is read to its end; nil: there is
// none. After Feed returned it is not read any more. An input that can be closed
// is closed once there is an answer, which must end a read that waits.
func (c *Client) Feed(ctx context.Context, q Request, input io.Reader, sinks Sinks) (Answer, error) {
	q.Input = input != nil
	k := &call{sinks: sinks, path: q.Path, done: make(chan Answer, 1)}
	id, err := c.enter(k)
	if err != nil {
		return Answer{}, err
	}
	q.ID = id
	defer k.leave()
	if err := c.send(ctx, KindRequest, q); err != nil {
		c.forget(id, err)
		if errors.Is(err, errTooLarge) { // the cell was not asked, and is well
			return tooLarge(q, err)
		}
		return Answer{}, err
	}
	if input != nil {
		go c.feed(k, id, input)
	}
	over := func() {}
	if live, ok := input.(io.Closer); ok {
		over = func() { // before anybody waits for a read
			k.over.Store(true)
			live.Close()
		}
		defer over()
	}
	select {
	case a := <-k.done:
		over()
		return a, k.failed()
	case <-c.done:
	case <-ctx.Done():
		return Answer{}, fmt.Errorf("wait for the answer to a %s request: %w", q.Op, ctx.Err())
	}
	select { // the answer may have been the last frame
	case a := <-k.done:
		over()
		return a, k.failed()
	default:
		return Answer{}, c.Err()
	}
}

// enter gives a call its number.
func (c *Client) enter(k *call) (uint32, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	for c.nextID++; c.calls[c.nextID] != nil; c.nextID++ {
	}
	c.calls[c.nextID] = k
	return c.nextID, nil
}

// forget takes a call away whose request was never sent whole: one that broke
// the protocol. Any other may still be answered.
func (c *Client) forget(id uint32, err error) {
	if errors.Is(err, ErrFrame) && !errors.Is(err, ErrClosed) {
		c.mu.Lock()
		delete(c.calls, id)
		c.mu.Unlock()
	}
}

// send writes a frame, but waits no longer than ctx and the channel last: a
// supervisor that was stopped does not read. The frame is never torn.
func (c *Client) send(ctx context.Context, kind Kind, message any) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("write to the supervisor: %w", err)
	}
	sent := make(chan error, 1)
	go func() { sent <- c.w.WriteJSON(kind, message) }()
	select {
	case err := <-sent:
		if err == nil || errors.Is(err, ErrFrame) {
			return err
		}
		return c.end(fmt.Errorf("write to the supervisor: %w", err))
	case <-c.done:
		return c.Err()
	case <-ctx.Done():
		return fmt.Errorf("write to the supervisor: %w", ctx.Err())
	}
}

// end notes why the channel ended, the first reason only, and wakes everybody.
func (c *Client) end(why error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = fmt.Errorf("%w: %w", ErrClosed, why)
		close(c.done)
	}
	return c.err
}

// read hands every frame to its call until there is none.
func (c *Client) read(r *Reader) {
	for {
		kind, payload, err := r.Read()
		if err == nil {
			err = c.frame(kind, payload)
		}
		if err != nil {
			c.end(err)
			return
		}
		select {
		case <-c.done:
			return
		default:
		}
	}
}

// frame hands one frame on.
func (c *Client) frame(kind Kind, payload []byte) error {
	switch kind {
	case KindHello:
		h, err := ParseHello(payload)
		if err != nil {
			return err
		}
		select {
		case c.greet <- h:
			return nil
		default:
			return fmt.Errorf("%w: the supervisor greets twice", ErrFrame)
		}
	case KindOutput:
		id, stream, data, err := ParseChunk(kind, payload)
		if err != nil {
			return err
		}
		k, err := c.call(id, false)
		if err == nil {
			k.write(stream, data)
		}
		return err
	case KindCall:
		return c.called(payload)
	case KindAnswer:
		a, err := ParseAnswer(payload)
		if err != nil {
			return err
		}
		k, err := c.call(a.ID, !a.More)
		if err == nil {
			err = k.answer(a)
		}
		return err
	}
	return fmt.Errorf("%w: the supervisor sends a frame of kind %q", ErrFrame, byte(kind))
}

// call finds the call that a frame is for, and takes it away when it is over.
func (c *Client) call(id uint32, over bool) (*call, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.calls[id]
	if k == nil {
		return nil, fmt.Errorf("%w: the supervisor answers request %d, which nobody asked", ErrFrame, id)
	}
	if over {
		delete(c.calls, id)
	}
	return k, nil
}

// write gives a chunk to its sink.
func (k *call) write(stream Stream, data []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	w := map[Stream]io.Writer{Stdout: k.sinks.Stdout, Stderr: k.sinks.Stderr, Content: k.sinks.Content}[stream]
	if k.gone || k.sink != nil || w == nil {
		return
	}
	if _, err := w.Write(data); err != nil {
		k.sink = fmt.Errorf("%w: %w", ErrSink, err)
	}
}

// answer takes one part of an answer, and hands the whole on after the last.
func (k *call) answer(a Answer) error {
	if k.path == nil && len(a.Files) > 0 || k.path != nil && int64(len(k.files)+len(a.Files)) > k.path.Limit {
		return fmt.Errorf("%w: an answer lists more files than were asked for", ErrFrame)
	}
	k.files = append(k.files, a.Files...)
	if a.More {
		return nil
	}
	a.Files, k.files = k.files, nil
	if a.File != nil {
		for i := range a.Files {
			a.Files[i].Path = below(a.File.Path, a.Files[i].Name)
		}
	}
	k.done <- a
	return nil
}

// below is where an entry of a directory lies.
func below(dir, name string) string {
	if dir == "/" {
		return dir + name
	}
	return dir + "/" + name
}

// leave waits for a sink that is being written to and for an input that is being
// read, and shuts all of them.
func (k *call) leave() {
	k.mu.Lock()
	k.gone = true
	k.mu.Unlock()
	k.feeding.Lock()
	k.fed = true
	k.feeding.Unlock()
}

// failed is the first refusal of a sink, or why the input could not be read.
func (k *call) failed() error {
	k.feeding.Lock()
	source := k.source
	k.feeding.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	return errors.Join(k.sink, source)
}

// feed sends the input of a call, and in any case an end to it: the supervisor
// expects one, whatever it has answered meanwhile. A frame that cannot be
// written whole ends the channel.
func (c *Client) feed(k *call, id uint32, input io.Reader) {
	buf := make([]byte, ChunkSize)
	for stream := Input; stream == Input; {
		var n int
		n, stream = k.take(input, buf)
		if err := c.w.WriteChunk(id, stream, buf[:n]); err != nil {
			c.end(fmt.Errorf("write to the supervisor: %w", err))
			return
		}
	}
}

// take reads what the next chunk carries.
func (k *call) take(input io.Reader, buf []byte) (int, Stream) {
	k.feeding.Lock()
	defer k.feeding.Unlock()
	if k.fed {
		return 0, InputVoid
	}
	n, err := input.Read(buf)
	switch err {
	case nil:
		return n, Input
	case io.EOF:
		return n, InputEnd
	}
	if !k.over.Load() {
		k.source = fmt.Errorf("%w: %w", ErrSource, err)
	}
	return 0, InputVoid
}
