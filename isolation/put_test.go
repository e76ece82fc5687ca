package isolation_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"podgrade/isolation"
	"podgrade/isolation/attacktest"
	"podgrade/isolation/protocol"
)

// overPlaces runs a test in a cell of each engine, as another user than root,
// and on the host.
func overPlaces(t *testing.T, test func(t *testing.T, c isolation.Cell)) {
	overEngines(t, func(t *testing.T, engine string) { test(t, onEngine(t, engine, as(t, "1000"), nil)) })
	t.Run(isolation.EngineHost, func(t *testing.T) {
		c, err := host(t).OpenOnHost(ctx(t), order(t, isolation.Image{}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
		test(t, c)
	})
}

func TestACommandReadsItsStandardInput(t *testing.T) {
	t.Parallel()
	overPlaces(t, func(t *testing.T, c isolation.Cell) {
		var out strings.Builder
		command := isolation.Command{Argv: []string{"/bin/sh", "-c", "cat"}, Env: testEnv, Dir: "/", Timeout: time.Minute, Stdout: &out, Stdin: []byte(strings.Repeat("\x00\xffline\n", isolation.MaxStdin/7))}
		if exit, err := c.Run(ctx(t), command); err != nil || exit.Code != 0 || out.String() != string(command.Stdin) {
			t.Errorf("%d bytes came back: %+v, %v", out.Len(), exit, err)
		}
		command.Stdin = make([]byte, isolation.MaxStdin+1)
		if _, err := c.Run(ctx(t), command); !errors.Is(err, isolation.ErrTooLarge) {
			t.Errorf("more than there may be: %v", err)
		}
		want(t, c, "cat; readlink /proc/self/fd/0", "/dev/null\n")
	})
}

func TestWhatIsPutBelongsToTheImagesUser(t *testing.T) {
	t.Parallel()
	overPlaces(t, func(t *testing.T, c isolation.Cell) {
		base := c.Places().Workspace
		put := func(name string, entry isolation.Entry, content string) {
			t.Helper()
			var err error
			if entry.Type == protocol.Regular {
				err = c.Put(ctx(t), base, name, entry, strings.NewReader(content))
			} else {
				err = c.Put(ctx(t), base, name, entry, nil)
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		when := time.Unix(1e9, 0)
		put("hello.txt", isolation.Entry{Type: protocol.Regular, Mode: 0o755, ModTime: when}, "new\n")
		put("a/b/c.txt", isolation.Entry{Type: protocol.Regular, Mode: 0o600}, "c\n")
		put("a/link", isolation.Entry{Type: protocol.Symlink, Mode: 0o777, Target: "b"}, "")
		put("closed", isolation.Entry{Type: protocol.Directory, Mode: 0o500, ModTime: when}, "")
		large := strings.Repeat("0123456789abcdef", 1<<20)
		put("large", isolation.Entry{Type: protocol.Regular, Mode: 0o644}, large)
		want(t, c, "id -u > /tmp/id.$$; stat -c '%n %a %u %Y' hello.txt closed | sed \"s/ $(cat /tmp/id.$$) / ME /\"; stat -c '%n %a %u' a a/b a/b/c.txt large | sed \"s/ $(cat /tmp/id.$$)$/ ME/\"; rm /tmp/id.$$; cat hello.txt a/link/c.txt; wc -c < large",
			"hello.txt 755 ME 1000000000\nclosed 500 ME 1000000000\na 755 ME\na/b 755 ME\na/b/c.txt 600 ME\nlarge 644 ME\nnew\nc\n16777216\n")
		if err := c.Put(ctx(t), base, "../out", isolation.Entry{Type: protocol.Regular}, strings.NewReader("x")); !errors.Is(err, isolation.ErrEscapes) {
			t.Errorf("out of the workspace: %v", err)
		}
		if err := c.Put(ctx(t), base, "x", isolation.Entry{Type: protocol.Regular}, nil); err == nil {
			t.Error("a file without content was put")
		}
		for _, name := range []string{"a", "a", "closed", "large"} {
			if err := c.Remove(ctx(t), base, name); err != nil {
				t.Errorf("remove %s: %v", name, err)
			}
		}
		want(t, c, "ls -A", "hello.txt\n")
		if err := c.Remove(ctx(t), base, "."); err != nil {
			t.Error(err)
		}
		want(t, c, "ls -A", "")
		if err := c.Remove(ctx(t), base, "../etc"); !errors.Is(err, isolation.ErrEscapes) {
			t.Errorf("remove what is outside: %v", err)
		}
	})
}

// A full disk is the host's fault, whoever filled it.
func TestPuttingOnAFullDiskIsInfrastructure(t *testing.T) {
	overEngines(t, func(t *testing.T, engine string) {
		c := onEngine(t, engine, as(t, ""), nil)
		err := c.Put(ctx(t), "/dev/shm", "large", isolation.Entry{Type: protocol.Regular, Mode: 0o644}, strings.NewReader(strings.Repeat("x", 65<<20)))
		if !errors.Is(err, isolation.ErrNoSpace) || faultKind(err) != isolation.Infrastructure {
			t.Errorf("it ended as %v", err)
		}
		want(t, c, "ls -A /dev/shm", "")
	})
}

// brokenContent breaks off.
type brokenContent struct{}

func (brokenContent) Read([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }

func TestAContentThatBreaksOffLeavesNothing(t *testing.T) {
	c := open(t, as(t, ""), nil)
	err := c.Put(ctx(t), c.Places().Workspace, "broken", isolation.Entry{Type: protocol.Regular, Mode: 0o644}, brokenContent{})
	if !errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, isolation.ErrCellLost) {
		t.Errorf("it ended as %v", err)
	}
	want(t, c, "ls -A", "hello.txt\n")
}

func TestEndingProcessesSaysWhichWereAlive(t *testing.T) {
	overPlaces(t, func(t *testing.T, c isolation.Cell) {
		if ended, err := c.EndProcesses(ctx(t)); err != nil || len(ended) != 0 {
			t.Errorf("nothing was alive: %+v, %v", ended, err)
		}
		sh(t, c, "for n in 271828 314159; do sleep $n >/dev/null 2>&1 & until grep -q sleep /proc/$!/comm; do :; done; done")
		ended, err := c.EndProcesses(ctx(t))
		if err != nil || len(ended) != 2 {
			t.Fatalf("got %+v, %v", ended, err)
		}
		said := fmt.Sprint(ended[0].Command, " and ", ended[1].Command)
		if ended[0].Name != "sleep" || !strings.Contains(said, "sleep 271828") || !strings.Contains(said, "sleep 314159") {
			t.Errorf("got %+v", ended)
		}
		for _, p := range ended {
			if c.Made().Engine == isolation.EngineHost && syscall.Kill(p.PID, 0) == nil {
				t.Errorf("it is still there: %+v", p)
			}
		}
		if ended, err := c.EndProcesses(ctx(t)); err != nil || len(ended) != 0 {
			t.Errorf("afterwards: %+v, %v", ended, err)
		}
		alive(t, c)
	})
}

// Ports are told with the process that holds them, or by themselves where the
// process hides, or sent them on their way to another.
func TestEndingProcessesSaysTheirPorts(t *testing.T) {
	t.Parallel()
	overEngines(t, func(t *testing.T, engine string) {
		for _, how := range []string{"", "hide", "pass"} {
			c := onEngine(t, engine, as(t, "1000"), func(o *isolation.Order) { withAttack(t)(o); withDockerCapabilities(o) })
			var tcp, udp uint16
			got := sh(t, c, fmt.Sprintf("%s=yes %s listen mark 600 %s", attacktest.Variable, attackPath, how))
			if _, err := fmt.Sscanf(got.out, "listen: tcp %d udp %d", &tcp, &udp); err != nil {
				t.Fatalf("%v: %+v", err, got)
			}
			ended, err := c.EndProcesses(ctx(t))
			if err != nil || len(ended) == 0 {
				t.Fatalf("%q: got %+v, %v", how, ended, err)
			}
			last := ended[len(ended)-1]
			if nobodys := last.PID == 0; nobodys != (how != "") || len(ended) > 1 != nobodys {
				t.Errorf("%q: got %+v", how, ended)
			}
			for _, port := range []isolation.Port{{Protocol: "tcp", Port: tcp}, {Protocol: "udp", Port: udp}} {
				if !slices.Contains(last.Ports, port) {
					t.Errorf("%q: no word of %v in %+v", how, port, ended)
				}
			}
		}
	})
}

// While a command swaps links under a put, nothing is put or removed outside of
// the workspace.
func TestPuttingWhileLinksAreSwappedStaysInside(t *testing.T) {
	seconds := 1
	if os.Getenv("PODGRADE_TEST_SOAK") != "" {
		seconds = 10
	}
	overEngines(t, func(t *testing.T, engine string) {
		c := onEngine(t, engine, as(t, "1000"), withAttack(t))
		sh(t, c, "mkdir -p real/sub /tmp/outside/sub; echo kept > /tmp/outside/sub/kept")
		swapping := make(chan result, 1)
		go func() {
			swapping <- sh(t, c, fmt.Sprintf("%s=yes %s swap . real /tmp/outside %d", attacktest.Variable, attackPath, seconds))
		}()
		outcomes := map[bool]int{}
		for running := true; running; {
			err := c.Put(ctx(t), c.Places().Workspace, "swapped/sub/file", isolation.Entry{Type: protocol.Regular, Mode: 0o644}, strings.NewReader("ours"))
			outcomes[err == nil]++
			for _, name := range []string{"swapped/sub/kept", "swapped/sub/file"} {
				if err := c.Remove(ctx(t), c.Places().Workspace, name); errors.Is(err, isolation.ErrCellLost) {
					t.Fatal(err)
				}
			}
			select {
			case got := <-swapping:
				running = false
				if !strings.Contains(got.out, "swap: permitted") {
					t.Errorf("it did not swap: %+v", got)
				}
			default:
			}
		}
		if outcomes[true] == 0 || outcomes[false] == 0 {
			t.Errorf("there was no race: %v", outcomes)
		}
		want(t, c, "find /tmp/outside | sort", "/tmp/outside\n/tmp/outside/sub\n/tmp/outside/sub/kept\n")
	})
}

// A fork bomb is ended, whoever it runs as, and the list of it is bounded.
func TestEndingProcessesEndsAForkBomb(t *testing.T) {
	overEngines(t, func(t *testing.T, engine string) {
		c := onEngine(t, engine, as(t, "1000"), func(o *isolation.Order) { withAttack(t)(o); withDockerCapabilities(o) })
		sh(t, c, fmt.Sprintf("%s=yes setsid %s bomb 600 >/dev/null 2>&1 &", attacktest.Variable, attackPath))
		time.Sleep(300 * time.Millisecond)
		ended, err := c.EndProcesses(ctx(t))
		if err != nil || len(ended) < 2 || len(ended) > protocol.MaxProcesses {
			t.Errorf("%d processes, %v", len(ended), err)
		}
		if ended, err := c.EndProcesses(ctx(t)); err != nil || len(ended) != 0 {
			t.Errorf("afterwards: %+v, %v", ended, err)
		}
		alive(t, c)
	})
}
