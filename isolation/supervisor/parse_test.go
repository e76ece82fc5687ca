package supervisor

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"podgrade/isolation/protocol"
)

func TestNoRoutesCounters(t *testing.T) {
	const snmp = "Ip: Forwarding OutDiscards OutNoRoutes ReasmTimeout\nIp: 2 1 17 0\nIcmp: OutNoRoutes\nIcmp: 99\n"
	for text, want := range map[string]uint64{
		snmp: 17, "": 0, "Ip: OutNoRoutes\n": 0, "Ip: A OutNoRoutes\nIp: 1\n": 0, "Ip: OutNoRoutes\nIp: x\n": 0, "Ip:\nIp:\n": 0,
	} {
		if got := counter4([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
	for text, want := range map[string]uint64{
		"Ip6InNoRoutes \t5\nIp6OutNoRoutes                  \t3\n": 3, "": 0, "Ip6OutNoRoutes\n": 0,
	} {
		if got := counter6([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// The counters that are held open are read as they are now, not as they were.
func TestCountersAreReadAnew(t *testing.T) {
	file := filepath.Join(t.TempDir(), "snmp")
	write := func(count int) {
		if err := os.WriteFile(file, fmt.Appendf(nil, "Ip: OutNoRoutes\nIp: %d\n", count), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(1000)
	c := &counters{v4: openCounter(file), v6: openCounter("/nonexistent/snmp6")}
	defer syscall.Close(c.v4)
	if c.v4 < firstOwnDescriptor || c.v6 != -1 {
		t.Fatalf("opened as %d and %d", c.v4, c.v6)
	}
	for _, count := range []int{1000, 2000, 3} {
		write(count)
		if got := c.noRoutes(); got != uint64(count) {
			t.Errorf("%d are counted as %d", count, got)
		}
	}
	if ours := openCounters(); !bytes.Contains(ours.read(ours.v4), []byte("OutNoRoutes")) {
		t.Error("the kernel's own counters were not read")
	}
}

func TestParentIn(t *testing.T) {
	for stat, want := range map[string]int{
		"12 (sh) S 7 12 12 0": 7, "12 (a) S 1 (b) R 9 1": 9, "12 () Z 1": 1, "12 (x)\nS 3 (y) T 4 0": 4,
		"": -1, "12 (sh)": -1, "12 (sh) S": -1, "12 (sh) S x": -1, "12 (sh) S -1": -1,
	} {
		got, ok := parentIn([]byte(stat))
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: %d, %v, want %d", stat, got, ok, want)
		}
	}
}

func TestDescendants(t *testing.T) {
	d := descendants{self: 10}
	parent := map[int]int{1: 0, 2: 0, 10: 1, 11: 10, 12: 11, 13: 12, 20: 1, 21: 20, 40: 99, 50: 50}
	var below []int
	for pid := range parent {
		if d.below(pid, func(pid int) (int, bool) { up, ok := parent[pid]; return up, ok }) {
			below = append(below, pid)
		}
	}
	slices.Sort(below)
	if want := []int{11, 12, 13}; !slices.Equal(below, want) {
		t.Errorf("got %d, want %d", below, want)
	}
}

func TestWithin(t *testing.T) {
	for _, test := range []struct {
		path, dir string
		want      bool
	}{
		{"/w", "/w", true}, {"/w/x", "/w", true}, {"/wx", "/w", false}, {"/", "/w", false}, {"/w", "/", true}, {"/", "/", true}, {"/w/x", "/w/", true},
	} {
		if got := within(test.path, test.dir); got != test.want {
			t.Errorf("%q in %q: %v", test.path, test.dir, got)
		}
	}
}

func TestMishapKinds(t *testing.T) {
	run := &protocol.Run{Argv: []string{"prog"}, Dir: "/d"}
	for _, test := range []struct {
		m    mishap
		want protocol.FailureKind
	}{
		{mishap{stage: stageExec, errno: syscall.ENOENT}, protocol.NoProgram},
		{mishap{stage: stageExec, errno: syscall.ENOEXEC, text: "/bin/x"}, protocol.NoProgram},
		{mishap{stage: stageExec, errno: syscall.EACCES, text: "/bin/x"}, protocol.NoProgram},
		{mishap{stage: stageExec, errno: syscall.ENOMEM, text: "/bin/x"}, protocol.Broken},
		{mishap{stage: stageExec, errno: syscall.EIO, text: "/bin/x"}, protocol.NoProgram}, // a program that was cut off
		{mishap{stage: stageExec, errno: syscall.E2BIG, text: "/bin/x"}, protocol.TooLarge},
		{mishap{stage: stageDir, errno: syscall.ENOENT}, protocol.NotExist},
		{mishap{stage: stageDir, errno: syscall.EACCES}, protocol.Denied},
		{mishap{stage: stageDir, errno: syscall.EIO}, protocol.Denied},
		{mishap{stage: stageDir, errno: syscall.ESTALE}, protocol.Denied},
		{mishap{stage: stageLimit, errno: syscall.EINVAL}, protocol.Broken},
		{mishap{stage: stageSetup, text: "broken"}, protocol.Broken},
	} {
		if f := test.m.failure(run); f.Kind != test.want || !strings.Contains(f.Message, "prog") && !strings.Contains(f.Message, "/bin/x") {
			t.Errorf("%+v: got %+v, want %s", test.m, f, test.want)
		}
	}
}

// FuzzProc: names in /proc belong to the commands.
func FuzzProc(f *testing.F) {
	f.Add([]byte("12 (a) S 1 (b) R 9 1"))
	f.Add([]byte("Ip: OutNoRoutes\nIp: 3\nIp6OutNoRoutes 4\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if pid, ok := parentIn(data); ok && pid < 0 {
			t.Fatalf("%q: parent %d", data, pid)
		}
		if counter4(data) > 0 && !strings.Contains(string(data), "OutNoRoutes") || counter6(data) > 0 && !strings.Contains(string(data), "Ip6OutNoRoutes") {
			t.Fatalf("%q: a count of nothing", data)
		}
	})
}

func TestPortsOfATable(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0 100 0 0 10 0
   1: 0100007F:1F91 0100007F:0050 01 00000000:00000000 00:00000000 00000000  1000        0 4712 1 0 100 0 0 10 0
   2: 0100007F:1F9 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4713 1 0 100 0 0 10 0
   3: 0100007F:zzzz 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4714 1 0 100 0 0 10 0
   4: 00000000:0050 00000000:0000 0A
   5: 00000000000000000000000000000000:FFFF 00000000:0000 0A 0:0 00:0 0 0 0 4715 1
`
	s := sockets{ports: map[string]protocol.Port{}, taken: map[string]bool{}}
	s.read([]byte(table), "tcp", stateListen)
	want := map[string]protocol.Port{"socket:[4711]": {Protocol: "tcp", Port: 8080}, "socket:[4715]": {Protocol: "tcp", Port: 65535}}
	if !maps.Equal(s.ports, want) {
		t.Errorf("got %v", s.ports)
	}
	if _, ok := s.take("socket:[4712]"); ok {
		t.Error("a connection is taken for a port")
	}
	s.take("socket:[4711]")
	if rest := s.rest(); !slices.Equal(rest, []protocol.Port{{Protocol: "tcp", Port: 65535}}) {
		t.Errorf("left are %v", rest)
	}
}

func TestNameOfAProcess(t *testing.T) {
	for stat, want := range map[string]struct {
		name  string
		state byte
	}{
		"7 (sh) S 1": {"sh", 'S'}, "7 (a) (b)) Z 1": {"a) (b)", 'Z'}, "7 (x\n\xff) R": {"x\n\xff", 'R'}, "7 (sh)": {"sh", 0}, "7 )(": {}, "": {},
	} {
		if name, state := nameIn([]byte(stat)); name != want.name || state != want.state {
			t.Errorf("%q: got %q %q", stat, name, state)
		}
	}
}

func TestRelativeNames(t *testing.T) {
	for _, test := range []struct{ base, name, want string }{
		{"/w", "a/b", "a/b"}, {"/w", "", "."}, {"/w", ".", "."}, {"/w", "/w", "."}, {"/w/", "/w/a", "a"}, {"/w", "a/../b", "b"}, {"/w", "..a", "..a"},
		{"/", "/a", "a"}, {"/", "a", "a"}, {"/w", "/w/x/../y/", "y"}, {"/w", "a/..", "."},
		{"/w", "..", "!"}, {"/w", "../w/a", "!"}, {"/w", "a/../../b", "!"}, {"/w", "/wx", "!"}, {"/w", "/w/../x", "!"},
	} {
		got, ok := relative(test.base, test.name)
		if !ok {
			got = "!"
		}
		if got != test.want {
			t.Errorf("%q below %q: got %q, want %q", test.name, test.base, got, test.want)
		}
	}
}

// A program that prints blocks of just the first chunk's size, as C's library does,
// must not cost a buffer for each.
func TestChunksGrowOnce(t *testing.T) {
	first := make([]byte, firstChunk)
	if got := chunkAfter(first, firstChunk-1); &got[0] != &first[0] {
		t.Error("a line made it grow")
	}
	large := chunkAfter(first, firstChunk)
	if len(large) != protocol.ChunkSize {
		t.Fatalf("it grew to %d bytes", len(large))
	}
	for _, n := range []int{1, firstChunk, protocol.ChunkSize} {
		if got := chunkAfter(large, n); &got[0] != &large[0] {
			t.Errorf("%d bytes made another one", n)
		}
	}
}
