package supervisor

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"os"
	"slices"
	"strings"

	"podgrade/isolation/protocol"
)

// sockets are the ports of a network namespace by the inode of their socket,
// written as the kernel writes it in a link of /proc/PID/fd.
type sockets struct {
	ports map[string]protocol.Port
	taken map[string]bool // a process was found that holds it
}

// Columns of /proc/net/tcp and its like, and states in them.
const (
	columnLocal = 1
	columnState = 3
	columnInode = 9
	stateListen = "0A"
	stateBound  = "07" // of UDP: bound, and connected to nobody
)

// readSockets reads the TCP ports that are listened on and the bound UDP ports
// of this process's network namespace.
func readSockets() sockets {
	found := sockets{ports: map[string]protocol.Port{}, taken: map[string]bool{}}
	for _, p := range []struct{ protocol, state string }{{"tcp", stateListen}, {"tcp6", stateListen}, {"udp", stateBound}, {"udp6", stateBound}} {
		table, _ := os.ReadFile("/proc/self/net/" + p.protocol)
		found.read(table, p.protocol, p.state)
	}
	return found
}

// read takes the lines of one table that have the state.
func (s sockets) read(table []byte, protocolName, state string) {
	for line := range bytes.Lines(table) {
		fields := bytes.Fields(line)
		if len(fields) <= columnInode || string(fields[columnState]) != state {
			continue
		}
		_, port, ok := bytes.Cut(fields[columnLocal], []byte{':'})
		number := make([]byte, 2)
		if _, err := hex.Decode(number, port); !ok || len(port) != 4 || err != nil {
			continue
		}
		s.ports["socket:["+string(fields[columnInode])+"]"] = protocol.Port{Protocol: protocolName, Port: uint16(number[0])<<8 | uint16(number[1])}
	}
}

// take returns the port of a socket that a process holds. Several may hold one.
func (s sockets) take(link string) (protocol.Port, bool) {
	port, ok := s.ports[link]
	if ok {
		s.taken[link] = true
	}
	return port, ok
}

// rest are the ports of the sockets that no process was found to hold, each
// once: such a socket may be on its way from one process to another.
func (s sockets) rest() []protocol.Port {
	var ports []protocol.Port
	for link, port := range s.ports {
		if !s.taken[link] {
			ports = append(ports, port)
		}
	}
	slices.SortFunc(ports, comparePorts)
	ports = slices.Compact(ports)
	return ports[:min(len(ports), protocol.MaxPorts)]
}

func comparePorts(a, b protocol.Port) int {
	return cmp.Or(cmp.Compare(a.Port, b.Port), strings.Compare(a.Protocol, b.Protocol))
}
