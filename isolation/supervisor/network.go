package supervisor

import (
	"bytes"
	"strconv"
	"sync"
	"syscall"
)

// counters are the kernel's of a network namespace, open: they are read twice a
// command, and to find the files would take as long as to read them.
type counters struct {
	v4, v6 int // -1: there is none

	mu  sync.Mutex
	buf []byte
}

// maxCounters is more than either file has bytes.
const maxCounters = 32 << 10

func openCounters() *counters {
	return &counters{v4: openCounter("/proc/self/net/snmp"), v6: openCounter("/proc/self/net/snmp6")}
}

func openCounter(file string) int {
	fd, err := syscall.Open(file, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	defer syscall.Close(fd)
	if fd, err = duplicate(fd); err != nil {
		return -1
	}
	return fd
}

// noRoutes counts the packets of this network namespace that found no route,
// IPv4 and IPv6. What the kernel does not count (no IPv6) is 0.
func (c *counters) noRoutes() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return counter4(c.read(c.v4)) + counter6(c.read(c.v6))
}

// read reads a file of /proc from its beginning.
func (c *counters) read(fd int) []byte {
	if c.buf == nil {
		c.buf = make([]byte, maxCounters)
	}
	for at := 0; at < len(c.buf); {
		n, err := syscall.Pread(fd, c.buf[at:], int64(at))
		if n <= 0 && err != syscall.EINTR {
			return c.buf[:at]
		}
		at += max(n, 0)
	}
	return c.buf
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
