package worker

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"podgrade/oci"
)

// Forwarder is a program of the host that carries the packets of a cell.
type Forwarder struct {
	Path string        `json:"path"`
	Kind ForwarderKind `json:"kind"`
}

// ForwarderKind says how a Forwarder is called.
type ForwarderKind string

// The kinds.
const (
	Pasta       ForwarderKind = "pasta"
	Slirp4netns ForwarderKind = "slirp4netns"
)

// args join the network namespace of a process, as its only interface beside
// lo, and shut off the loopback of this host, which both kinds let in: pasta
// by the address of the gateway and by the ports that it forwards from the
// cell's own loopback, slirp4netns by 10.0.2.2.
func (f Forwarder) args(namespace string) []string {
	if f.Kind == Pasta {
		return []string{f.Path, "--foreground", "--quiet", "--runas", "0", "--config-net", "--no-map-gw",
			"--tcp-ports", "none", "--udp-ports", "none", "--tcp-ns", "none", "--udp-ns", "none",
			"--dns-forward", oci.EgressResolver, "--ns-ifname", oci.EgressInterface, "--netns-only", "--netns", namespace}
	}
	return []string{f.Path, "--configure", "--mtu=65520", "--disable-host-loopback", "--enable-sandbox",
		"--netns-type=path", namespace, oci.EgressInterface}
}

// forwarder is one that runs. It is in our pid namespace, so it ends with us;
// with its cell we end it, for both kinds outlive the namespace that they
// serve.
type forwarder struct {
	pid   int
	ended <-chan syscall.WaitStatus
}

// networkGrace bounds how long a forwarder may take to set its interface up:
// slirp4netns takes 5 ms, pasta 100.
const networkGrace = 10 * time.Second

// network gives a started cell, of which no command has run yet, a network by
// the first forwarder that works.
func (s *server) network(c *cell, choice []Forwarder, answer *Reply) error {
	pid, err := c.awaitInitPID()
	if err != nil {
		return err
	}
	if c.forwarder != nil || len(choice) == 0 {
		return fmt.Errorf("cell %s has a network, or nothing to get one by", c.name)
	}
	proc := fmt.Sprintf("/proc/%d/", pid)
	var errs []error
	for _, f := range choice {
		if err := s.forward(c, f, proc); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", f.Path, err))
			continue
		}
		answer.Forwarder = f.Path
		return nil
	}
	return errors.Join(errs...)
}

func (s *server) forward(c *cell, f Forwarder, proc string) error {
	said, err := os.OpenFile(c.dir, unix.O_TMPFILE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer said.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	out := int(said.Fd())
	pid, ended, err := s.children.start(f.args(proc+"ns/net"), []string{toolPath}, "/", [3]int{int(null.Fd()), out, out})
	if err != nil {
		return err
	}
	c.forwarder = &forwarder{pid: pid, ended: ended}
	if err = c.forwarder.ready(proc); err == nil {
		err = s.closeHost(proc+"ns/net", [3]int{int(null.Fd()), out, out})
	}
	if err == nil {
		return nil
	}
	c.disconnect()
	text := make([]byte, 2<<10)
	n, _ := said.ReadAt(text, 0)
	return fmt.Errorf("%w: %s", err, strings.ReplaceAll(strings.TrimSpace(string(text[:n])), "\n", "; "))
}

// ready waits until the interface is there with a route through it.
func (f *forwarder) ready(proc string) error {
	deadline := time.After(networkGrace)
	for {
		names, err := interfaces(proc + "net/dev")
		if err != nil {
			return err
		}
		if slices.Contains(names, oci.EgressInterface) && routed(proc) {
			return nil
		}
		select {
		case status := <-f.ended:
			f.ended = nil
			return fmt.Errorf("it ended with %d", exitCode(status))
		case <-deadline:
			return fmt.Errorf("it made no network within %v", networkGrace)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// routed tells whether there is a default route through the interface, v4 or
// v6.
func routed(proc string) bool {
	for file, place := range map[string]struct {
		name, destination int
		all               string
	}{
		"net/route":      {0, 1, "00000000"},
		"net/ipv6_route": {9, 0, strings.Repeat("0", 32)},
	} {
		text, err := os.ReadFile(proc + file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) > place.name && f[place.name] == oci.EgressInterface && f[place.destination] == place.all {
				return true
			}
		}
	}
	return false
}

// disconnect ends the cell's forwarder.
func (c *cell) disconnect() {
	f := c.forwarder
	if f == nil {
		return
	}
	c.forwarder = nil
	if f.ended == nil {
		return
	}
	syscall.Kill(-f.pid, syscall.SIGKILL)
	<-f.ended
}
