package protocol

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"
)

// peer is the other end of a Client, driven by a test.
type peer struct {
	*Client
	r        *Reader
	w        *Writer
	from, to io.Closer
}

func newPeer(t *testing.T) *peer {
	t.Helper()
	toCell, fromHost := io.Pipe()
	toHost, fromCell := io.Pipe()
	p := &peer{Client: NewClient(toHost, fromHost), r: NewReader(toCell), w: NewWriter(fromCell), from: toCell, to: fromCell}
	t.Cleanup(func() { p.from.Close(); p.to.Close(); <-p.Done() })
	return p
}

// request reads one request.
func (p *peer) request(t *testing.T) Request {
	kind, payload, err := p.r.Read()
	if err != nil || kind != KindRequest {
		t.Errorf("got %q, %v", kind, err)
		return Request{}
	}
	q, err := ParseRequest(payload)
	if err != nil {
		t.Error(err)
	}
	return q
}

// echo answers requests until the channel ends, each from a goroutine of its own.
func (p *peer) echo(t *testing.T) {
	for {
		_, payload, err := p.r.Read()
		if err != nil {
			return
		}
		q, err := ParseRequest(payload)
		if err != nil {
			t.Error(err)
			return
		}
		go func() {
			for _, stream := range []Stream{Stdout, Stderr, Content} {
				p.w.WriteChunk(q.ID, stream, fmt.Appendf(nil, "%d %s", stream, q.Run.Dir))
			}
			p.w.WriteJSON(KindAnswer, Answer{ID: q.ID, Exit: &Exit{Code: len(q.Run.Dir)}})
		}()
	}
}

func run(dir string) Request { return Request{Op: OpRun, Run: &Run{Argv: []string{"x"}, Dir: dir}} }

func TestClientDo(t *testing.T) {
	p := newPeer(t)
	go p.echo(t)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			dir := strings.Repeat("d", i)
			var stdout, stderr, content bytes.Buffer
			a, err := p.Do(t.Context(), run(dir), Sinks{&stdout, &stderr, &content})
			if err != nil || a.Exit == nil || a.Exit.Code != i || stdout.String() != "1 "+dir || stderr.String() != "2 "+dir || content.String() != "3 "+dir {
				t.Errorf("request %d: %+v, %v, %q %q %q", i, a, err, &stdout, &stderr, &content)
			}
			if _, err := p.Do(t.Context(), run(dir), Sinks{}); err != nil {
				t.Errorf("without sinks: %v", err)
			}
		})
	}
	all.Wait()
	if p.Err() != nil {
		t.Error(p.Err())
	}
}

func TestClientHello(t *testing.T) {
	for name, test := range map[string]struct {
		answer func(h Hello) Hello
		fails  string
	}{
		"good":    {func(h Hello) Hello { return h }, ""},
		"nonce":   {func(h Hello) Hello { h.Nonce += "x"; return h }, "another nonce"},
		"none":    {func(h Hello) Hello { h.Nonce = ""; return h }, "another nonce"},
		"version": {func(h Hello) Hello { h.Version++; return h }, fmt.Sprintf("version %d", Version+1)},
	} {
		p := newPeer(t)
		go func() {
			_, payload, err := p.r.Read()
			h, err2 := ParseHello(payload)
			if err != nil || err2 != nil || h.Version != Version || len(h.Nonce) < 20 {
				t.Errorf("%s: the host greets with %+v, %v, %v", name, h, err, err2)
			}
			p.w.WriteJSON(KindHello, test.answer(h))
		}()
		err := p.Hello(t.Context())
		if (err == nil) != (test.fails == "") || err != nil && (!strings.Contains(err.Error(), test.fails) || !errors.Is(err, ErrClosed)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestClientList(t *testing.T) {
	p := newPeer(t)
	go func() {
		for _, dir := range []string{"/w/dir", "/"} {
			q := p.request(t)
			p.w.WriteJSON(KindAnswer, Answer{ID: q.ID, More: true, Files: []File{{Name: "a"}, {Name: "b"}}})
			p.w.WriteJSON(KindAnswer, Answer{ID: q.ID, File: &File{Path: dir}, Files: []File{{Name: "c"}}})
		}
		q := p.request(t)
		p.w.WriteJSON(KindAnswer, Answer{ID: q.ID, Files: make([]File, 4)})
	}()
	for _, want := range []string{"/w/dir/c", "/c"} {
		a, err := p.Do(t.Context(), Request{Op: OpList, Path: &Path{Limit: 3}}, Sinks{})
		if err != nil || len(a.Files) != 3 || a.Files[2].Path != want || a.Files[0].Name != "a" {
			t.Errorf("got %+v, %v", a, err)
		}
	}
	if _, err := p.Do(t.Context(), Request{Op: OpList, Path: &Path{Limit: 3}}, Sinks{}); !errors.Is(err, ErrFrame) || !errors.Is(err, ErrClosed) {
		t.Errorf("more entries than asked for: %v", err)
	}
}

// A request whose context ended goes on in the cell: what it still sends is
// dropped, and the next request is served.
func TestClientContext(t *testing.T) {
	p := newPeer(t)
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan Request)
	go func() { asked <- p.request(t) }()
	var out bytes.Buffer
	done := make(chan error, 1)
	go func() {
		_, err := p.Do(ctx, run(""), Sinks{Stdout: &out})
		done <- err
	}()
	q := <-asked
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) || errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
	p.w.WriteChunk(q.ID, Stdout, []byte("late"))
	p.w.WriteJSON(KindAnswer, Answer{ID: q.ID, Exit: &Exit{}})
	go p.echo(t)
	if a, err := p.Do(t.Context(), run("abc"), Sinks{}); err != nil || a.Exit.Code != 3 {
		t.Errorf("the next request: %+v, %v", a, err)
	}
	if out.Len() > 0 {
		t.Errorf("a sink was written to after the end: %q", &out)
	}
	if _, err := p.Do(ctx, run(""), Sinks{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a request that was over before it began: %v", err)
	}
}

// A supervisor that does not read holds no caller up beyond its context.
func TestClientThatIsNotRead(t *testing.T) {
	p := newPeer(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := p.Do(ctx, run(""), Sinks{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if err := p.Hello(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("hello: %v", err)
	}
}

func TestClientSinkFails(t *testing.T) {
	p := newPeer(t)
	go p.echo(t)
	full := errors.New("disk full")
	a, err := p.Do(t.Context(), run("abc"), Sinks{Stdout: failing{full}})
	if !errors.Is(err, full) || !errors.Is(err, ErrSink) || errors.Is(err, ErrClosed) || a.Exit == nil {
		t.Errorf("got %+v, %v", a, err)
	}
	if _, err := p.Do(t.Context(), run("abc"), Sinks{}); err != nil {
		t.Errorf("the next request: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestClientEnds(t *testing.T) {
	for name, end := range map[string]func(p *peer, q Request){
		"the channel closes":      func(p *peer, q Request) { p.to.Close() },
		"an answer nobody wanted": func(p *peer, q Request) { p.w.WriteJSON(KindAnswer, Answer{ID: q.ID + 1}) },
		"output nobody wanted":    func(p *peer, q Request) { p.w.WriteChunk(q.ID+1, Stdout, nil) },
		"an unknown stream":       func(p *peer, q Request) { p.w.WriteChunk(q.ID, 9, nil) },
		"a request":               func(p *peer, q Request) { p.w.WriteJSON(KindRequest, q) },
		"no JSON":                 func(p *peer, q Request) { p.w.Write(KindAnswer, []byte("{")) },
		"two greetings": func(p *peer, q Request) {
			p.w.WriteJSON(KindHello, Hello{})
			p.w.WriteJSON(KindHello, Hello{})
		},
	} {
		p := newPeer(t)
		go func() { end(p, p.request(t)) }()
		if _, err := p.Do(t.Context(), run(""), Sinks{}); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
		<-p.Done()
		if _, err := p.Do(t.Context(), run(""), Sinks{}); !errors.Is(err, ErrClosed) || !errors.Is(p.Err(), ErrClosed) {
			t.Errorf("%s: afterwards: %v", name, err)
		}
	}
}

// A request that fits no frame is refused, and costs nothing else.
func TestClientRequestTooLarge(t *testing.T) {
	p := newPeer(t)
	go p.echo(t)
	if a, err := p.Do(t.Context(), run(strings.Repeat("x", MaxFrame)), Sinks{}); err != nil || a.Failure == nil || a.Failure.Kind != TooLarge {
		t.Errorf("got %+v, %v", a, err)
	}
	if _, err := p.Do(t.Context(), run("abc"), Sinks{}); err != nil {
		t.Errorf("the next request: %v", err)
	}
}
