package isolation_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"podgrade/isolation"
	"podgrade/isolation/attacktest"
	"podgrade/isolation/protocol"
	"podgrade/oci"
)

// attackPath is where the cells of these tests have the hostile program.
const attackPath = oci.WorkspacePath + "/attack"

// withAttack puts the hostile program into the workspace, under limits that
// spare the machine.
func withAttack(t testing.TB) func(*isolation.Order) {
	program, err := os.ReadFile(filepath.Join(buildDir(), "test", "attack"))
	if err != nil {
		t.Fatalf("%v: run `make build-test` first", err)
	}
	return func(o *isolation.Order) {
		if err := os.WriteFile(filepath.Join(o.Workspace, "attack"), program, 0o700); err != nil {
			t.Fatal(err)
		}
		o.Plan.Limits = oci.Limits{MemoryMB: 256, PIDs: 200}
	}
}

// attack runs the hostile program and judges what became of it.
func attack(t *testing.T, c isolation.Cell, a attacktest.Attack) isolation.Exit {
	t.Helper()
	var out bytes.Buffer
	exit, err := c.Run(ctx(t), isolation.Command{
		Argv: append([]string{attackPath}, a.Args...), Env: append(testEnv, attacktest.Variable+"=yes"), Dir: oci.WorkspacePath,
		Timeout: a.Timeout, Stdout: &out,
	})
	if err != nil {
		t.Fatalf("the cell is lost: %v", err)
	}
	judged := protocol.Exit{Code: exit.Code, Signal: exit.Signal, TimedOut: exit.TimedOut, Held: exit.Held, Stuck: exit.CellEnded}
	for _, wrong := range a.Check(judged, out.String()) {
		t.Error(wrong)
	}
	return exit
}

// cellsToAttack are those that matter: what a sealed cell withholds, and what
// `driver: docker` gives, as root and as another user.
var cellsToAttack = []struct {
	name, user string
	change     func(*isolation.Order)
}{
	{"sealed as root", "", func(*isolation.Order) {}},
	{"sealed as 1000", "1000", func(*isolation.Order) {}},
	{"docker as root", "", withDockerCapabilities},
	{"docker as 1000", "1000", withDockerCapabilities},
}

// Nothing that a command does to its supervisor keeps the cell from answering
// the next question, or makes the row infrastructure. The supervisor is the same
// on either engine. Without control groups the kernel counts the processes of a user
// in all cells together, so one cell of each user is attacked at a time.
func TestACellAnswersAfterEveryAttack(t *testing.T) {
	attacked := engines[:1]
	if os.Getenv("PODGRADE_TEST_SOAK") != "" {
		attacked = engines
	}
	for _, user := range []string{"", "1000"} {
		t.Run("user "+user, func(t *testing.T) {
			t.Parallel()
			for _, engine := range attacked {
				for _, kind := range cellsToAttack {
					if kind.user != user {
						continue
					}
					t.Run(engine+" "+kind.name, func(t *testing.T) {
						attackCells(t, fmt.Sprintf("mark-%d-%s-%s", os.Getpid(), engine, strings.ReplaceAll(kind.name, " ", "-")), func() isolation.Cell {
							return onEngine(t, engine, as(t, user), func(o *isolation.Order) { withAttack(t)(o); kind.change(o) })
						})
					})
				}
			}
		})
	}
}

// attackCells makes every attack on a cell, and on the next one when a command ended it,
// which is that command's failure.
func attackCells(t *testing.T, mark string, opened func() isolation.Cell) {
	c := opened()
	for _, a := range attacktest.Attacks(mark, oci.InitPath) {
		ended := false
		t.Run(strings.ReplaceAll(a.Name, " ", "-"), func(t *testing.T) {
			exit := attack(t, c, a)
			if a.Timeout > 0 && exit.Duration > a.Timeout+3*time.Second {
				t.Errorf("it took %v", exit.Duration)
			}
			if left := processesOf(mark); exit.TimedOut && len(left) > 0 {
				t.Errorf("left after the time-out: %q", left)
			}
			if !exit.CellEnded {
				alive(t, c)
			}
			ended = exit.CellEnded
		})
		if ended {
			c = opened()
		}
	}
}

// The network of a sealed cell leads nowhere, and each try is counted.
func TestAttemptsToReachTheNetworkAreCounted(t *testing.T) {
	c := open(t, as(t, ""), withAttack(t))
	exit := attack(t, c, attacktest.Attack{Name: "connect", Args: []string{"connect"}, Codes: []int{0}, Lines: 3, Line: func(_, outcome string) bool {
		return strings.HasPrefix(outcome, "refused")
	}})
	if exit.NetworkAttempts < 3 {
		t.Errorf("%d attempts were counted, want 3", exit.NetworkAttempts)
	}
}

// What ignores every signal, forks, leaves its session and sleeps is gone 3
// seconds after its time-out, seen from outside.
func TestATimeoutEndsWhateverWasStarted(t *testing.T) {
	c := open(t, as(t, "1000"), withAttack(t))
	for _, how := range []string{"linger", "hold"} {
		mark := fmt.Sprintf("mark-%d-%s", os.Getpid(), how)
		var out bytes.Buffer
		began := time.Now()
		exit, err := c.Run(ctx(t), isolation.Command{
			Argv: []string{attackPath, how, mark, "600"}, Env: append(testEnv, attacktest.Variable+"=yes"), Dir: oci.WorkspacePath,
			Timeout: time.Second, Stdout: &out,
		})
		if err != nil || !exit.TimedOut || exit.CellEnded || exit.Held != (how == "hold") || exit.Duration < time.Second {
			t.Errorf("%s: %+v, %v", how, exit, err)
		}
		for len(processesOf(mark)) > 0 {
			if time.Since(began) > 4*time.Second {
				t.Fatalf("%s: left 3 seconds after its time-out: %q", how, processesOf(mark))
			}
			time.Sleep(10 * time.Millisecond)
		}
		alive(t, c)
	}
}

func TestKillingEverythingEndsTheCommandOnly(t *testing.T) {
	for _, user := range []string{"", "1000"} {
		c := open(t, as(t, user), nil)
		if got := sh(t, c, "sleep 1000 & kill -9 -1; kill -9 $$"); got.Code != 137 || got.Signal != 9 || got.TimedOut || got.CellEnded {
			t.Errorf("%+v, want 137", got)
		}
		alive(t, c)
	}
}

// Frames are no output: what a command prints, and writes to every descriptor
// of every process that it can open, arrives as output or nowhere.
func TestFalseFramesChangeNothing(t *testing.T) {
	c := open(t, as(t, ""), func(o *isolation.Order) { withAttack(t)(o); withDockerCapabilities(o) })
	var out, err2 bytes.Buffer
	line := `export PODGRADE_ATTACK=yes; ./attack frames > frames; cat frames; cat frames >&2
		for f in /proc/[0-9]*/fd/*; do
			case $(readlink $f) in pipe:*|socket:*) (exec 2>/dev/null; timeout 1 dd if=frames of=$f oflag=nonblock) ;; esac
		done; exit 3`
	exit, err := c.Run(ctx(t), isolation.Command{Argv: []string{"/bin/sh", "-c", line}, Env: testEnv, Dir: oci.WorkspacePath, Timeout: 20 * time.Second, Stdout: &out, Stderr: &err2})
	if err != nil || exit.Code != 3 || exit.TimedOut {
		t.Fatalf("%+v, %v", exit, err)
	}
	frames, err := readAll(c, "frames")
	if err != nil || len(frames) < 1000 || !bytes.HasPrefix(out.Bytes(), frames) || !bytes.HasPrefix(err2.Bytes(), frames) {
		t.Errorf("%d bytes of frames (%v); %d on stdout, %d on stderr", len(frames), err, out.Len(), err2.Len())
	}
	alive(t, c)
}

func readAll(c isolation.Cell, name string) ([]byte, error) {
	var content bytes.Buffer
	_, err := c.Read(context.Background(), oci.WorkspacePath, name, 1<<20, &content)
	return content.Bytes(), err
}

// What a command left behind cannot get hold of the next one.
func TestTheNextCommandIsOutOfReach(t *testing.T) {
	for _, kind := range cellsToAttack[:2] {
		c := open(t, as(t, kind.user), withAttack(t))
		// It starts to watch when the shell that started it is gone: what one
		// command started may well catch each other.
		want(t, c, "(sleep 1; PODGRADE_ATTACK=yes exec ./attack watch 1) > caught 2>&1 &", "")
		want(t, c, "sleep 1.5", "")
		for range 20 {
			alive(t, c)
		}
		want(t, c, "for i in $(seq 50); do test -s caught && break; sleep 0.1; done; cat caught", "caught: 0\n")
	}
}

// A cell that a command ended is made again for the next question, with what
// earlier commands wrote in the workspace and a fresh root.
func TestACellThatACommandEndedIsMadeAgain(t *testing.T) {
	c := open(t, as(t, "1000"), nil)
	for n := range 3 {
		want(t, c, "echo x >> written; touch /tmp/gone; sleep 1000 >/dev/null 2>&1 &", "")
		isolation.EndBy(c)
		want(t, c, "grep -c x written; ls /tmp; ps | grep -c '[s]leep 1000'; cat hello.txt", fmt.Sprintf("%d\n0\nhello\n", n+1))
		if _, err := c.Stat(ctx(t), oci.WorkspacePath, "written"); err != nil {
			t.Error(err)
		}
		if err := c.CheckImage(ctx(t)); err != nil {
			t.Error(err)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := c.Run(ctx(t), isolation.Command{Argv: []string{"/bin/true"}}); err == nil || errors.Is(err, isolation.ErrCellLost) {
		t.Errorf("a closed cell: %v", err)
	}
}

// A supervisor that somebody outside stopped does not answer, and no command is
// to blame: the cell is lost, soon after the time-out.
func TestAStoppedSupervisorIsInfrastructure(t *testing.T) {
	t.Parallel()
	overEngines(t, func(t *testing.T, engine string) {
		o := options(t)
		h := start(t, o)
		defer h.Close()
		one := order(t, as(t, ""))
		one.Engine = engine
		c := openOn(t, h, one)
		supervisor := named(o.Scratch, "podgrade-init")[0]
		time.AfterFunc(200*time.Millisecond, func() { supervisor.Signal(syscall.SIGSTOP) })
		began := time.Now()
		_, err := c.Run(ctx(t), isolation.Command{Argv: []string{"/bin/sleep", "1000"}, Env: testEnv, Dir: "/", Timeout: time.Second})
		if !errors.Is(err, isolation.ErrCellLost) || faultKind(err) != isolation.Infrastructure || !strings.Contains(err.Error(), "stopped from outside") || time.Since(began) > 25*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// A supervisor on the host that a command stopped or ended is that command's
// failure, what it left running ends, and the next command has a new one.
func TestOnTheHostACommandMayEndItsSupervisor(t *testing.T) {
	t.Parallel()
	for _, signal := range []string{"KILL", "TERM", "STOP"} {
		c, err := host(t).OpenOnHost(ctx(t), order(t, isolation.Image{}))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		want(t, c, "echo x > written; (setsid sleep 1000 >/dev/null 2>&1 & echo $! > left)", "")
		got := run(t, c, time.Second, "/bin/sh", "-c", "kill -"+signal+" $PPID; sleep 1000")
		if !got.CellEnded || got.Code == 0 || got.TimedOut != (signal == "STOP") {
			t.Errorf("%s: %+v", signal, got)
		}
		// Whoever inherits what was ended may take a moment to reap it.
		want(t, c, "cat written; n=0; while kill -0 $(cat left) 2>/dev/null && test $n != 30; do n=$((n+1)); sleep 0.1; done; test $n != 30 || echo still there", "x\n")
		// What ends it while nothing is asked costs nothing.
		ended := sh(t, c, "echo $PPID; (setsid sh -c 'sleep 0.2; kill -"+signal+" '$PPID >/dev/null 2>&1 &)")
		if signal == "STOP" {
			continue
		}
		supervisor, err := strconv.Atoi(strings.TrimSpace(ended.out))
		if err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(10 * time.Second); syscall.Kill(supervisor, 0) == nil; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: the supervisor lives", signal)
			}
		}
		time.Sleep(300 * time.Millisecond) // until podgrade has seen that, too
		alive(t, c)
	}
}

// So it is with its guardian.
func TestOnTheHostACommandMayEndItsGuardian(t *testing.T) {
	c, err := host(t).OpenOnHost(ctx(t), order(t, isolation.Image{}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got := run(t, c, 10*time.Second, "/bin/sh", "-c", "sleep 1000 & echo $! > left; kill -9 $(cut -d' ' -f4 /proc/$PPID/stat); sleep 1000")
	if !got.CellEnded || got.Code == 0 || got.TimedOut {
		t.Errorf("%+v", got)
	}
	want(t, c, "kill -0 $(cat left) 2>/dev/null && echo still there; true", "")
}
