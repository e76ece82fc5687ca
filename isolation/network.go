package isolation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"podgrade/isolation/worker"
	"podgrade/oci"
)

// ErrNoNetwork is wrapped when this host can give a cell no network.
var ErrNoNetwork = errors.New("no cell can have a network here")

// tunDevice is what a forwarder makes a cell's interface with.
const tunDevice = "/dev/net/tun"

// forwarders are the programs in PATH that can give a cell a network, the
// better one first.
func forwarders() []worker.Forwarder {
	var found []worker.Forwarder
	for _, kind := range []worker.ForwarderKind{worker.Pasta, worker.Slirp4netns} {
		if path, err := exec.LookPath(string(kind)); err == nil {
			found = append(found, worker.Forwarder{Path: path, Kind: kind})
		}
	}
	return found
}

// networkFault says why this host can give no cell a network; nil when it can,
// as far as can be told before there is a cell. device is tunDevice.
func networkFault(device string) error {
	if len(forwarders()) == 0 {
		return &Fault{Kind: Refusal, Tried: "give the cell a network", Why: fmt.Errorf("%w: neither pasta nor slirp4netns is in PATH", ErrNoNetwork),
			Do: "install one (Debian: apt-get install passt), or grade with --network none, which is the default"}
	}
	tun, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return &Fault{Kind: Refusal, Tried: "give the cell a network", Why: fmt.Errorf("%w: %w", ErrNoNetwork, err),
			Do: "let users open the device (sudo modprobe tun; sudo chmod 0666 " + device + "), or grade with --network none, which is the default"}
	}
	return tun.Close()
}

// connect gives a started cell the network of its plan. No command has run yet.
func (c *cell) connect(ctx context.Context) error {
	if c.order.Plan.Network != oci.Egress {
		return nil
	}
	reply, err := c.ask(ctx, worker.Request{Op: worker.OpNetwork, Network: forwarders()})
	if err != nil {
		return &Fault{Kind: Refusal, Tried: "give the cell a network", On: "of " + c.order.Image.Pin.String(), Why: fmt.Errorf("%w: %w", ErrNoNetwork, err),
			Do: "see what `podgrade doctor` says, or grade with --network none, which is the default"}
	}
	c.made.Network = reply.Forwarder
	return nil
}

// resolver is the cell's resolv.conf. A sealed cell names a resolver that
// cannot be reached: so a look-up counts as an attempt to reach the network,
// where an empty file would ask 127.0.0.1.
func resolver(network oci.Network) string {
	if network == oci.Egress {
		return fmt.Sprintf("nameserver %s\n", oci.EgressResolver)
	}
	return "nameserver 192.0.2.53\noptions timeout:1 attempts:1\n"
}
