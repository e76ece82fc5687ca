package isolation_test

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"podgrade/isolation"
)

// serviceSocket is the socket of a host's Podman.
func serviceSocket(t *testing.T, h *isolation.Host) string {
	t.Helper()
	socket, err := isolation.ServiceSocket(ctx(t), h)
	if err != nil {
		t.Fatal(err)
	}
	return socket
}

// listenOn makes a socket that a server of this test answers on.
func listenOn(t *testing.T, name string) net.Listener {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "pg-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// CONTAINER_HOST that is this user's own Podman on the same store is what our
// service is too; anybody else's, another machine's, and another store's is
// refused before a container is made.
func TestContainerHostIsTheCallersOwnOrRefused(t *testing.T) {
	i := as(t, "")
	same := serviceSocket(t, another(t))
	h := another(t) // its service is not started yet
	kept := map[string]string{}
	for _, name := range []string{storeVariable, dataVariable, "XDG_RUNTIME_DIR"} {
		kept[name] = os.Getenv(name)
	}
	elsewhere := serviceSocket(t, ownStore(t))
	for name, value := range kept {
		t.Setenv(name, value)
	}
	foreign := listenOn(t, "foreign.sock").Addr().String()
	if out, err := host(t).RunInside(ctx(t), "/bin/chown", "1000:1000", foreign); err != nil {
		t.Fatal(err, out)
	}
	strange := listenOn(t, "strange.sock")
	go http.Serve(strange, http.NotFoundHandler())
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ host, says string }{
		{"unix://" + elsewhere, "its images lie in"},
		{"unix://" + foreign, "it belongs to uid"},
		{"unix://" + strange.Addr().String(), "does not answer like Podman"},
		{"unix://" + file, "it is no socket"},
		{"unix://" + file + "-none", "no such file"},
		{"unix://relative.sock", "no unix socket of this machine"},
		{"ssh://somebody@elsewhere/run/podman.sock", "no unix socket of this machine"},
		{"tcp://127.0.0.1:1", "no unix socket of this machine"},
		{"\x7f:", "no address"},
		{"unix://" + same, ""}, // the last: its service stays
	} {
		t.Setenv("CONTAINER_HOST", test.host)
		o := order(t, i)
		o.Engine = isolation.EnginePodman
		c, err := h.Open(ctx(t), o)
		switch {
		case err == nil && test.says == "":
			alive(t, c)
			c.Close()
		case err == nil:
			c.Close()
			t.Errorf("%q is used", test.host)
		case test.says == "" || faultKind(err) != isolation.Refusal || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), "unset CONTAINER_HOST"):
			t.Errorf("%q: kind %v: %v", test.host, faultKind(err), err)
		}
	}
	if left := ourContainers(t, host(t)); len(left) > 0 {
		t.Errorf("containers are left: %q", left)
	}
	t.Setenv("CONTAINER_HOST", "ssh://elsewhere")
	alive(t, openOn(t, h, order(t, i))) // the bundle engine asks no service
}
