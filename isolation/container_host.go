package isolation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// containerHostVariable names the Podman service that podman's own commands
// use.
const containerHostVariable = "CONTAINER_HOST"

// containerHostGrace bounds what that service may take to say where its store
// lies.
const containerHostGrace = time.Minute

// containerHost is the socket of the Podman that CONTAINER_HOST names, "" when
// it names none. One of somebody else or of another machine is refused: the
// images that the caller means lie there.
func containerHost() (socket string, err error) {
	host := os.Getenv(containerHostVariable)
	if host == "" {
		return "", nil
	}
	if socket, err = callersSocket(host); err != nil {
		err = containerHostFault(host, err)
	}
	return socket, err
}

// checkStore refuses to go on where the Podman that CONTAINER_HOST names keeps
// its images elsewhere than the service that we started. Where both are one
// user's on one store nothing follows from the variable: our service sees the
// same images, and only its containers lie in our namespaces and get our hook.
func checkStore(ctx context.Context, theirs, ours string) error {
	if theirs == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, containerHostGrace)
	defer cancel()
	other, err := storeOf(ctx, theirs)
	if err != nil {
		return containerHostFault(theirs, err)
	}
	own, err := storeOf(ctx, ours)
	if err == nil && other != own {
		err = containerHostFault(theirs, fmt.Errorf("its images lie in %s, and podgrade's in %s", other, own))
	}
	return err
}

func containerHostFault(on string, why error) error {
	return &Fault{Kind: Refusal, Tried: "use the Podman that " + containerHostVariable + " names", On: on, Why: why,
		Do: "unset " + containerHostVariable + ", or use --engine bundle on images of this user's own store"}
}

// callersSocket is the path of a unix socket of the caller's own.
func callersSocket(host string) (string, error) {
	u, err := url.Parse(host)
	if err != nil {
		return "", errors.New("it is no address")
	}
	if u.Scheme != "unix" || u.Host != "" || !filepath.IsAbs(u.Path) {
		return "", errors.New("it is no unix socket of this machine: unix:///PATH")
	}
	info, err := os.Stat(u.Path)
	if err != nil {
		return "", errors.Unwrap(err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || info.Mode().Type() != os.ModeSocket {
		return "", errors.New("it is no socket")
	}
	return u.Path, ownedByCaller(stat.Uid)
}

func ownedByCaller(uid uint32) error {
	if own := os.Getuid(); int64(uid) != int64(own) {
		return fmt.Errorf("it belongs to uid %d, and this is uid %d", uid, own)
	}
	return nil
}

// maxServiceInfo caps what is read of a service's description, in bytes.
const maxServiceInfo = 1 << 20

// storeOf asks the Podman service behind a socket where its store lies. Who
// serves must be the caller, too: whoever owned the socket's name a moment ago.
func storeOf(ctx context.Context, socket string) (string, error) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
		if err != nil {
			return nil, err
		}
		if err := servedByCaller(conn.(*net.UnixConn)); err != nil {
			conn.Close()
			return nil, err
		}
		return conn, nil
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://podman/v4.0.0/libpod/info", nil)
	if err != nil {
		return "", err
	}
	answer, err := client.Do(request)
	if err != nil {
		return "", fmt.Errorf("ask it for its store: %w", err)
	}
	defer answer.Body.Close()
	var info struct {
		Store struct {
			GraphRoot string `json:"graphRoot"`
		} `json:"store"`
	}
	err = json.NewDecoder(io.LimitReader(answer.Body, maxServiceInfo)).Decode(&info)
	if answer.StatusCode != http.StatusOK || err != nil || info.Store.GraphRoot == "" {
		return "", fmt.Errorf("it does not answer like Podman (%s)", answer.Status)
	}
	return filepath.Clean(info.Store.GraphRoot), nil
}

func servedByCaller(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	controlled := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err := errors.Join(controlled, err); err != nil {
		return err
	}
	return ownedByCaller(peer.Uid)
}
