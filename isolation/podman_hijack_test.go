package isolation

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// answering is a service on a socket that treats each connection so.
func answering(t *testing.T, serve func(net.Conn, *http.Request)) *service {
	t.Helper()
	s := &service{dir: t.TempDir()}
	l, err := net.Listen("unix", s.socket())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			request, err := http.ReadRequest(bufio.NewReader(conn))
			if err == nil {
				serve(conn, request)
			}
			conn.Close()
		}
	}()
	return s
}

func TestAttachSwitchesTheDetachKeysOff(t *testing.T) {
	asked := make(chan *http.Request, 1)
	s := answering(t, func(conn net.Conn, r *http.Request) {
		asked <- r
		io.WriteString(conn, "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\nafter")
	})
	conn, streams, err := s.hijack(t.Context(), attachTarget("podgrade-run-x-cell-1-1"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if text, err := io.ReadAll(streams); string(text) != "after" || err != nil {
		t.Errorf("the stream holds %q (%v)", text, err)
	}
	r := <-asked
	query := r.URL.Query()
	if keys, given := query["detachKeys"]; !given || len(keys) != 1 || keys[0] != "" {
		t.Errorf("detachKeys is %q: not given, Podman takes ctrl-p,ctrl-q", keys)
	}
	for _, name := range []string{"stdin", "stdout", "stderr", "stream"} {
		if query.Get(name) != "true" {
			t.Errorf("%s is not asked for", name)
		}
	}
	if r.Method != http.MethodPost || r.Header.Get("Upgrade") != "tcp" {
		t.Errorf("asked with %s and %v", r.Method, r.Header)
	}
}

func TestARefusedAttachSaysWhy(t *testing.T) {
	s := answering(t, func(conn net.Conn, _ *http.Request) {
		io.WriteString(conn, "HTTP/1.1 409 Conflict\r\nContent-Length: 14\r\n\r\nimproper state")
	})
	if _, _, err := s.hijack(t.Context(), attachTarget("x")); err == nil || !strings.Contains(err.Error(), "improper state") {
		t.Errorf("got %v", err)
	}
}

func TestAnAttachWithoutAnswerEnds(t *testing.T) {
	s := answering(t, func(conn net.Conn, _ *http.Request) { io.Copy(io.Discard, conn) })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := s.hijack(ctx, attachTarget("x")); err == nil {
		t.Error("it came back without an error")
	}
}
