package isolation_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"podgrade/isolation"
	"podgrade/oci"
)

func withNetwork(o *isolation.Order) { o.Plan.Network = oci.Egress }

// forwarders are the programs that can give a cell a network.
var forwarders = []string{"pasta", "slirp4netns"}

// onlyForwarder leaves one of them, or none, beside what podgrade needs.
func onlyForwarder(t *testing.T, forwarder string) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"podman", "crun", "newuidmap", "newgidmap", forwarder} {
		if name == "" {
			continue
		}
		path, err := exec.LookPath(name)
		if err == nil {
			err = os.Symlink(path, filepath.Join(dir, name))
		}
		if err != nil {
			t.Fatalf("this test needs %s: %v", name, err)
		}
	}
	t.Setenv("PATH", dir)
}

// listen accepts connections on an address of this host, greets, and returns
// its port and how many came.
func listen(t *testing.T, address string) (port string, came func() int) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	all := make(chan struct{}, 100)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all <- struct{}{}
			fmt.Fprintln(conn, "greetings")
			conn.Close()
		}
	}()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), func() int { return len(all) }
}

// outside is an address of this host that is not its loopback.
func outside(t *testing.T) string {
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

// beyond is the address and the port of another host, which greets.
func beyond(t *testing.T) string {
	t.Helper()
	host, port, err := net.SplitHostPort(os.Getenv("PODGRADE_TEST_BEYOND"))
	say := t.Skip
	if os.Getenv("PODGRADE_TEST_PREPARED") != "" {
		say = t.Fatal
	}
	if err != nil {
		say("needs root, who makes another host that says greetings when he runs `make test`; by hand: PODGRADE_TEST_BEYOND=HOST:PORT")
	}
	return host + " " + port
}

// gateway prints the address of a cell's default gateway.
const gateway = `$(awk '$2 == "00000000" {print $3}' /proc/net/route | sed 's/\(..\)\(..\)\(..\)\(..\)/0x\4 0x\3 0x\2 0x\1/' | xargs printf '%d.%d.%d.%d')`

// A cell with a network has one interface more, a route and a name server, and
// whatever address it tries it reaches no part of this host.
func TestACellWithANetworkDoesNotReachThisHost(t *testing.T) {
	i := as(t, "")
	port, came := listen(t, "127.0.0.1")
	address := outside(t)
	open, greeted := listen(t, address)
	for _, forwarder := range forwarders {
		t.Run(forwarder, func(t *testing.T) {
			onlyForwarder(t, forwarder)
			h := start(t, options(t))
			defer func() {
				if err := h.Close(); err != nil {
					t.Error(err)
				}
			}()
			overEngines(t, func(t *testing.T, engine string) {
				o := order(t, i)
				o.Engine = engine
				withNetwork(&o)
				c := openOn(t, h, o)
				if made := c.Made(); !made.Verified || filepath.Base(made.Network) != forwarder {
					t.Errorf("verified %v, by %q", made.Verified, made.Network)
				}
				want(t, c, "sed 1,2d /proc/net/dev | cut -d: -f1 | tr -d ' ' | sort; awk '$2 == \"00000000\" {print $1}' /proc/net/route; cat /etc/resolv.conf", "lo\ntap0\ntap0\nnameserver 10.0.2.3\n")
				want(t, c, "for a in 127.0.0.1 10.0.2.2 "+gateway+"; do nc -w 2 $a "+port+" </dev/null 2>/dev/null; done; nc -w 2 "+address+" "+open+" </dev/null 2>/dev/null; true", "")
				if n, m := came(), greeted(); n+m > 0 {
					t.Errorf("%d connections came to this host's loopback, %d to its %s", n, m, address)
				}
				// Another host is reached.
				want(t, c, "sleep 1 | timeout 20 nc -w 5 "+beyond(t), "greetings\n")
			})
		})
	}
}

// forwarding counts the living children of a scratch's workers that run a
// program. A forwarder soon sees nothing of the host but its own process.
func forwarding(scratch, program string) int {
	workers := map[string]bool{}
	for _, worker := range named(scratch, "podgrade-worker") {
		workers[strconv.Itoa(worker.Pid)] = true
	}
	n := 0
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, _ := os.ReadFile(file)
		_, rest, _ := strings.Cut(string(text), ") ")
		arguments, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline")) // none of a dead one
		name, _, _ := strings.Cut(string(arguments), "\x00")
		if fields := strings.Fields(rest); len(fields) > 1 && workers[fields[1]] && filepath.Base(name) == program {
			n++
		}
	}
	return n
}

// What serves a network ends with its cell, and comes back with it.
func TestANetworkEndsWithItsCell(t *testing.T) {
	i := as(t, "")
	o := options(t)
	h := start(t, o)
	defer h.Close()
	for _, engine := range engines {
		one := order(t, i)
		one.Engine = engine
		withNetwork(&one)
		c := openOn(t, h, one)
		forwarder := filepath.Base(c.Made().Network)
		if n := forwarding(o.Scratch, forwarder); forwarder == "." || n == 0 {
			t.Fatalf("%d processes of %q", n, forwarder)
		}
		isolation.EndBy(c)
		if n := forwarding(o.Scratch, forwarder); n != 0 {
			t.Errorf("after the cell's end %d processes of %s are left", n, forwarder)
		}
		want(t, c, "ls /sys/class/net", "lo\ntap0\n")
		// pasta forks while it starts: the count settles.
		n := 0
		for range 50 {
			if n = forwarding(o.Scratch, forwarder); n == 1 {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n != 1 {
			t.Errorf("the new cell has %d processes of %s", n, forwarder)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if n := forwarding(o.Scratch, forwarder); n != 0 {
			t.Errorf("after the last end %d processes of %s are left", n, forwarder)
		}
	}
}

// Where nothing can serve a network, a cell that needs one is refused with the
// remedy, and nothing is started.
func TestWithoutAProgramForItANetworkIsRefused(t *testing.T) {
	i := as(t, "")
	onlyForwarder(t, "")
	h := start(t, options(t))
	defer h.Close()
	for _, engine := range engines {
		o := order(t, i)
		o.Engine = engine
		withNetwork(&o)
		c, err := h.Open(ctx(t), o)
		if err == nil {
			c.Close()
			t.Fatal("a cell was made")
		}
		for _, word := range []string{"neither pasta nor slirp4netns", "apt-get install passt", "--network none"} {
			if faultKind(err) != isolation.Refusal || !strings.Contains(err.Error(), word) {
				t.Errorf("kind %v: %q does not say %q", faultKind(err), err, word)
			}
		}
		if left := ourContainers(t, h); len(left) > 0 {
			t.Errorf("containers were made: %q", left)
		}
	}
}

// The device that forwarders need is looked at before there is a cell.
func TestADeviceThatCannotBeOpenedIsARefusal(t *testing.T) {
	for name, words := range map[string]string{filepath.Join(t.TempDir(), "tun"): "no such file", "/root/tun": "permission denied"} {
		err := isolation.NetworkFault(name)
		for _, word := range []string{words, "sudo modprobe tun; sudo chmod 0666 " + name, "--network none"} {
			if faultKind(err) != isolation.Refusal || !strings.Contains(err.Error(), word) {
				t.Errorf("%v does not say %q", err, word)
			}
		}
	}
	if err := isolation.NetworkFault("/dev/null"); err != nil {
		t.Error(err)
	}
}

// A forwarder that does not work gives way to the next; when none works it is
// a refusal that says what each said.
func TestAForwarderThatFailsGivesWayToTheNext(t *testing.T) {
	i := as(t, "")
	broken := "#!/bin/sh\necho it does not work >&2\nexit 7\n"
	for _, test := range []struct {
		broken []string
		by     string
	}{{[]string{"pasta"}, "slirp4netns"}, {[]string{"pasta", "slirp4netns"}, ""}} {
		dir := t.TempDir()
		for _, name := range test.broken {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(broken), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		path := os.Getenv("PATH")
		t.Setenv("PATH", dir+":"+path)
		c, err := host(t).Open(ctx(t), func() isolation.Order { o := order(t, i); withNetwork(&o); return o }())
		t.Setenv("PATH", path)
		switch {
		case err == nil:
			if got := filepath.Base(c.Made().Network); got != test.by {
				t.Errorf("served by %q, want %q", got, test.by)
			}
			c.Close()
		case test.by != "":
			t.Error(err)
		default:
			if faultKind(err) != isolation.Refusal || strings.Count(err.Error(), "it ended with 7: it does not work") != 2 {
				t.Errorf("kind %v: %v", faultKind(err), err)
			}
		}
	}
}
