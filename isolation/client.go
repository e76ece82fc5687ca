package isolation

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"podgrade/isolation/states"
	"podgrade/isolation/worker"
)

// workerClient asks the worker. It is safe for several goroutines.
type workerClient struct {
	conn  *net.UnixConn
	write sync.Mutex
	greet chan worker.Reply // the first message, which may come before it is waited for

	mu    sync.Mutex
	next  uint64
	calls map[uint64]chan worker.Reply
	gone  chan struct{} // closed when the worker is
	err   error
}

func newWorkerClient(conn *net.UnixConn) *workerClient {
	c := &workerClient{conn: conn, calls: map[uint64]chan worker.Reply{}, gone: make(chan struct{}), greet: make(chan worker.Reply, 1)}
	c.calls[0] = c.greet
	go c.read()
	return c
}

func (c *workerClient) read() {
	buf := make([]byte, worker.MaxMessage)
	for {
		n, err := c.conn.Read(buf)
		var r worker.Reply
		if err == nil {
			err = json.Unmarshal(buf[:n], &r)
		}
		if err != nil {
			c.end(err)
			return
		}
		c.mu.Lock()
		call := c.calls[r.ID]
		delete(c.calls, r.ID)
		c.mu.Unlock()
		if call != nil {
			call <- r
		}
	}
}

func (c *workerClient) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = fmt.Errorf("%w (%v)", ErrClosed, err)
		close(c.gone)
	}
}

// hello waits for the worker's first message.
func (c *workerClient) hello(ctx context.Context) (*worker.Hello, error) {
	r, err := c.await(ctx, c.greet)
	if err != nil {
		return nil, err
	}
	if r.Hello == nil {
		return nil, fmt.Errorf("%w: its first message is no greeting", ErrClosed)
	}
	return r.Hello, nil
}

// do sends a request with its descriptors and waits for the reply. The files
// stay the caller's.
func (c *workerClient) do(ctx context.Context, r worker.Request, files ...*os.File) (worker.Reply, error) {
	id, call, err := c.send(r, files)
	if err != nil {
		return worker.Reply{}, err
	}
	reply, err := c.await(ctx, call)
	if err != nil && ctx.Err() != nil {
		// The program, or the walk of a tree, would go on: end it.
		c.send(worker.Request{Op: worker.OpSignal, Of: id}, nil)
	}
	return reply, err
}

func (c *workerClient) send(r worker.Request, files []*os.File) (uint64, chan worker.Reply, error) {
	call := make(chan worker.Reply, 1)
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return 0, nil, c.err
	}
	c.next++
	r.ID = c.next
	c.calls[r.ID] = call
	c.mu.Unlock()
	b, err := json.Marshal(r)
	if err == nil && len(b) > worker.MaxMessage {
		err = fmt.Errorf("a request of %d bytes is above the limit of %d", len(b), worker.MaxMessage)
	}
	if err != nil {
		c.forget(r.ID)
		return 0, nil, err
	}
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		rights = unix.UnixRights(fds...)
	}
	c.write.Lock()
	_, _, err = c.conn.WriteMsgUnix(b, rights, nil)
	c.write.Unlock()
	if err != nil {
		c.end(err)
		return 0, nil, c.err
	}
	return r.ID, call, nil
}

func (c *workerClient) forget(id uint64) {
	c.mu.Lock()
	delete(c.calls, id)
	c.mu.Unlock()
}

func (c *workerClient) await(ctx context.Context, call chan worker.Reply) (worker.Reply, error) {
	select {
	case r := <-call:
		return r, replyError(r)
	case <-c.gone:
	case <-ctx.Done():
		return worker.Reply{}, ctx.Err()
	}
	select { // its reply may have been the last message
	case r := <-call:
		return r, replyError(r)
	default:
		return worker.Reply{}, c.err
	}
}

// workerError is a failed request, with what the worker knows of its cause.
type workerError struct{ cause worker.Error }

func (e *workerError) Error() string { return e.cause.Message }

// Is lets errors.Is find that the image is gone, or the state layer damaged.
func (e *workerError) Is(target error) bool {
	return target == ErrNoImage && e.cause.Image || target == states.ErrDamaged && e.cause.Damaged
}

func replyError(r worker.Reply) error {
	if r.Error != nil {
		return &workerError{cause: *r.Error}
	}
	return nil
}
