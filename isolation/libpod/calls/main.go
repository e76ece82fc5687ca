// Package calls is podgrade-libpod: it asks Podman's service through Podman's
// bindings, and nothing else links them.
package calls

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/containers/podman/v5/pkg/bindings"

	"podgrade/isolation/libpod"
)

// Exit statuses of podgrade-libpod.
const (
	exitDone  = 0
	exitError = 1
	exitUsage = 2
)

// Main is podgrade-libpod's main function; it returns the exit code.
func Main(args []string) int {
	switch {
	case len(args) == 3 && args[1] == libpod.Serve:
		return serve(args[2], os.Stdin, os.Stdout)
	case len(args) == 4 && args[1] == libpod.Once:
		return once(args[2], args[3])
	}
	fmt.Fprintln(os.Stderr, "podgrade-libpod is started by podgrade, not by hand")
	return exitUsage
}

// connection is a lasting connection to the service; ctx of a call takes it in.
type connection struct{ context.Context }

func connect(socket string) (connection, error) {
	conn, err := bindings.NewConnection(context.Background(), "unix://"+socket)
	return connection{conn}, err
}

// with returns ctx with the connection that the bindings look for in it.
func (c connection) with(ctx context.Context) context.Context { return connected{ctx, c} }

// connected is a context with the values of a second one.
type connected struct {
	context.Context
	conn context.Context
}

// Value implements context.Context.
func (c connected) Value(key any) any {
	if value := c.conn.Value(key); value != nil {
		return value
	}
	return c.Context.Value(key)
}

// once answers one call.
func once(socket, text string) int {
	var call libpod.Call
	if err := json.Unmarshal([]byte(text), &call); err != nil {
		fmt.Fprintln(os.Stderr, "podgrade-libpod: read the call:", err)
		return exitUsage
	}
	var answer libpod.Answer
	conn, err := connect(socket)
	if err == nil {
		answer = conn.answer(context.Background(), call, os.Stdin, os.Stderr)
	} else {
		answer.Error = asError(err)
	}
	if json.NewEncoder(os.Stdout).Encode(answer) != nil {
		return exitError
	}
	return exitDone
}

// server answers many calls at once.
type server struct {
	conn connection
	out  *json.Encoder

	mu       sync.Mutex
	underWay map[uint64]context.CancelFunc
}

// serve answers calls until their stream ends. What is under way then is given
// up with this process.
func serve(socket string, in io.Reader, out io.Writer) int {
	conn, err := connect(socket)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitError
	}
	s := &server{conn: conn, out: json.NewEncoder(out), underWay: map[uint64]context.CancelFunc{}}
	calls := json.NewDecoder(bufio.NewReader(in))
	for {
		var call libpod.Call
		switch err := calls.Decode(&call); {
		case errors.Is(err, io.EOF):
			return exitDone
		case err != nil:
			fmt.Fprintln(os.Stderr, "podgrade-libpod: read a call:", err)
			return exitError
		}
		s.begin(call)
	}
}

func (s *server) begin(call libpod.Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if call.GiveUp != 0 {
		if cancel := s.underWay[call.GiveUp]; cancel != nil {
			cancel()
		}
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.underWay[call.ID] = cancel
	go func() {
		defer cancel()
		answer := s.conn.answer(ctx, call, nil, io.Discard)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.underWay, call.ID)
		if s.out.Encode(answer) != nil {
			os.Exit(exitError) // nobody is left to work for
		}
	}()
}
