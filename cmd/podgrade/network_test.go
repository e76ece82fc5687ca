package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"podgrade/tasks"
	"podgrade/tasks/record/fixture"
)

// greeter accepts connections on an address of this host, greets, and returns
// its port and how many came.
func greeter(t *testing.T, address string) (port string, came func() int) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	var n atomic.Int32
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			n.Add(1)
			fmt.Fprintln(conn, "greetings")
			conn.Close()
		}
	}()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), func() int { return int(n.Load()) }
}

// beyond is the address and the port of another host, which greets.
func beyond(t *testing.T) string {
	t.Helper()
	host, port, err := net.SplitHostPort(os.Getenv("PODGRADE_TEST_BEYOND"))
	if err != nil {
		rootPrepares(t, "another host that says greetings to whoever connects", "PODGRADE_TEST_BEYOND=HOST:PORT")
	}
	return host + " " + port
}

// own is an address of this host that is not its loopback.
func own(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, each := range all {
		if ip, ok := each.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() && ip.IP.To4() != nil {
			return ip.IP.String()
		}
	}
	t.Fatal("this test needs a network interface beside lo, with an IPv4 address")
	return ""
}

// TestRecordedNetworkReachesOutAndNotThisHost: pasta carries what a command of a
// granted network sends, but not to a listener on this host, under whatever
// address; without the grant nothing gets out, and the
// row says so.
func TestRecordedNetworkReachesOutAndNotThisHost(t *testing.T) {
	other := beyond(t)
	address := own(t)
	open, greeted := greeter(t, address)
	closed, came := greeter(t, "127.0.0.1")
	gateway := `$(awk '$2 == "00000000" {print $3}' /proc/net/route | sed 's/\(..\)\(..\)\(..\)\(..\)/0x\4 0x\3 0x\2 0x\1/' | xargs printf '%d.%d.%d.%d')`
	// A client that says first that it will send no more is not told by old
	// pastas that the other end has closed.
	line := "sleep 1 | timeout 20 nc -w 5 " + other + "; nc -w 2 " + address + " " + open + " </dev/null 2>/dev/null; for a in 127.0.0.1 localhost 10.0.2.2 " + gateway + "; do nc -w 2 $a " + closed + " </dev/null 2>/dev/null; done; true"
	row, err := fixture.Write(fixture.Order{Task: byod, Form: fixture.Pinned, Out: t.TempDir(), Pin: byodImage(t), Change: func(task *tasks.Task) {
		expected := "greetings\n"
		task.SuccessCriteria = tasks.Criteria{&tasks.RunCommand{
			Base:    tasks.Common{Type: tasks.TypeRunCommand, Description: "d", Weight: 1, PassThreshold: 0.9},
			Command: line, Timeout: 60, StdoutMatch: "exact", ExpectedStdout: &expected,
		}}
	}})
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(buildDir(t), "bin", "podgrade")
	said, err := exec.Command(program, "evaluate", row, "--allow-recorded-commands", "--network", "recorded").CombinedOutput()
	if err != nil || greeted() != 0 || came() != 0 {
		t.Errorf("with the network: %v, %d connections to this host, %d to the loopback: %s", err, greeted(), came(), said)
	}
	cell, err := os.ReadFile(filepath.Join(row, "cell.grade.json"))
	if err != nil || !strings.Contains(string(cell), `/pasta"`) {
		t.Errorf("it was not pasta that served the cell: %v", err)
	}

	said, err = exec.Command(program, "evaluate", row, "--allow-recorded-commands").CombinedOutput()
	if err == nil || greeted() != 0 || came() != 0 {
		t.Errorf("without the network: %v, %d connections to this host, %d to the loopback: %s", err, greeted(), came(), said)
	}
	record, err := os.ReadFile(filepath.Join(row, "task.json"))
	if err != nil || !strings.Contains(string(record), `"graded_without_network": `) {
		t.Errorf("the row is not stamped: %v", err)
	}
}
