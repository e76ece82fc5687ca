package supervisor

import (
	"bytes"
	"os"
	"strconv"
)

// noRoutes counts the packets of this network namespace that found no route,
// IPv4 and IPv6. What the kernel does not count (no IPv6) is 0.
func noRoutes() uint64 {
	v4, _ := os.ReadFile("/proc/self/net/snmp")
	v6, _ := os.ReadFile("/proc/self/net/snmp6")
	return counter4(v4) + counter6(v6)
}

// counter4 reads OutNoRoutes from the two "Ip:" lines of /proc/net/snmp: one
// with names, one with values.
func counter4(snmp []byte) uint64 {
	var names [][]byte
	for line := range bytes.Lines(snmp) {
		fields := bytes.Fields(line)
		if len(fields) == 0 || string(fields[0]) != "Ip:" {
			continue
		}
		if names == nil {
			names = fields
			continue
		}
		for i, name := range names {
			if string(name) == "OutNoRoutes" && i < len(fields) {
				return count(fields[i])
			}
		}
	}
	return 0
}

// counter6 reads Ip6OutNoRoutes from /proc/net/snmp6: a name and a value a line.
func counter6(snmp6 []byte) uint64 {
	for line := range bytes.Lines(snmp6) {
		if fields := bytes.Fields(line); len(fields) == 2 && string(fields[0]) == "Ip6OutNoRoutes" {
			return count(fields[1])
		}
	}
	return 0
}

func count(field []byte) uint64 {
	n, _ := strconv.ParseUint(string(field), 10, 64)
	return n
}
