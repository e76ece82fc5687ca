package isolation_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"podgrade/isolation"
	"podgrade/isolation/testimages"
)

// part is one process that works for a cell.
type part struct {
	engine, name string
	program      string // name of the program; "": podgrade itself
	nth          int    // of its processes, oldest first
	// survives: the cell goes on without it, and podgrade with the cell.
	survives bool
}

var parts = []part{
	{engine: isolation.EngineBundle, name: "podgrade"},
	{engine: isolation.EnginePodman, name: "podgrade"},
	{engine: isolation.EngineBundle, name: "supervisor", program: "podgrade-init"},
	{engine: isolation.EnginePodman, name: "supervisor", program: "podgrade-init"},
	{engine: isolation.EngineBundle, name: "worker", program: "podgrade-worker", nth: 1},
	{engine: isolation.EnginePodman, name: "worker", program: "podgrade-worker", nth: 1},
	{engine: isolation.EngineBundle, name: "outer worker", program: "podgrade-worker"},
	{engine: isolation.EnginePodman, name: "outer worker", program: "podgrade-worker"},
	{engine: isolation.EngineBundle, name: "crun", program: "crun", survives: true},
	{engine: isolation.EnginePodman, name: "conmon", program: "conmon"},
	{engine: isolation.EnginePodman, name: "service", program: "podman"},
}

// SIGKILL of any process that works for a cell, at any instant of a command,
// leaves no process once podgrade has ended, and gc then removes everything
// that is left on disk and in Podman's store, and nothing of a podgrade beside
// it that lives.
func TestSIGKILLOfAnyPartLeavesNothing(t *testing.T) {
	kills := len(parts)
	if os.Getenv("PODGRADE_TEST_SOAK") != "" {
		kills = 100
	}
	i := image(t, testimages.BusyboxAs("1000"))
	o := options(t)
	neighbour := startVictimOn(t, isolation.EnginePodman, o.Scratch, i)
	its := neighbourhood(t, o, neighbour)
	if len(its.runs) != 1 || len(its.containers) == 0 || its.holders != 1 {
		t.Fatalf("the neighbour has %+v: this test would show nothing", its)
	}
	for n := range kills {
		p := parts[n%len(parts)]
		t.Run(fmt.Sprintf("%d %s %s", n, p.engine, p.name), func(t *testing.T) {
			killPart(t, p, o, i, its.runs)
			swept := sweep(t, o, false)
			if len(swept.Left) == 0 || swept.Failed() || swept.Living != 1 {
				t.Errorf("swept: %+v", swept)
			}
			if now := neighbourhood(t, o, neighbour); !now.same(its) {
				t.Errorf("after it there is %+v, before there was %+v", now, its)
			}
			fmt.Fprintf(neighbour.in, "touch here-%d && test -e here-%[1]d\n", n)
			neighbour.answers(t)
		})
	}
	neighbour.kill()
	if swept := sweep(t, o, false); swept.Failed() || swept.Living != 0 || len(runsIn(t, o.Scratch)) > 0 {
		t.Errorf("at the end: %+v", swept)
	}
}

// killPart starts a podgrade with a cell, kills one part of it while a command
// runs, and waits until podgrade and all that it started is gone.
func killPart(t *testing.T, p part, o isolation.Options, i isolation.Image, others []string) {
	t.Helper()
	v := startVictimOn(t, p.engine, o.Scratch, i)
	runs := slices.DeleteFunc(runsIn(t, o.Scratch), func(run string) bool { return slices.Contains(others, run) })
	if len(runs) != 1 {
		t.Fatalf("its directories are %q", runs)
	}
	run := filepath.Base(runs[0])
	fmt.Fprintln(v.in, "sleep 1000 & setsid sleep 1001 & exec sleep 1002")
	for end := time.Now().Add(60 * time.Second); len(working(run, "sleep")) < 3; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("its command did not start: of its processes %v, these sleep: %v", working(run, ""), working(run, "sleep"))
		}
	}
	time.Sleep(time.Duration(rand.IntN(50)) * time.Millisecond)
	pid := v.process.Process.Pid
	if p.program != "" {
		pids := working(run, p.program)
		if len(pids) <= p.nth {
			t.Fatalf("no process of %s is among its %v", p.program, working(run, ""))
		}
		pid = pids[p.nth]
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	ended := make(chan string, 1)
	go func() {
		line, _ := v.out.ReadString('\n')
		v.process.Wait()
		ended <- line
	}()
	wait := 20 * time.Second
	if p.survives {
		wait = 200 * time.Millisecond
	}
	select {
	case line := <-ended:
		// Nobody takes it for what the command did.
		if p.survives || p.program != "" && (!strings.HasPrefix(line, "failed:") || !strings.Contains(line, isolation.ErrCellLost.Error())) {
			t.Errorf("podgrade ended and said %q", line)
		}
	case <-time.After(wait):
		if !p.survives {
			t.Errorf("podgrade does not notice that its %s is gone", p.name)
		}
		v.process.Process.Kill()
		<-ended
	}
	for end := time.Now().Add(3 * time.Second); len(working(run, "")) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("3 seconds later these are left: %v", working(run, ""))
		}
	}
}

// working are the processes that work for the podgrade with a run directory,
// those of one program, or all: its name stands among their arguments, or
// their mounts come from there. Oldest first.
func working(run, program string) []int {
	var pids []int
	files, _ := filepath.Glob("/proc/[0-9]*")
	for _, proc := range files {
		arguments, _ := os.ReadFile(proc + "/cmdline")
		mounts, _ := os.ReadFile(proc + "/mountinfo")
		if !bytes.Contains(arguments, []byte(run)) && !bytes.Contains(mounts, []byte(run)) {
			continue
		}
		first, _, _ := strings.Cut(string(arguments), "\x00")
		if pid, err := strconv.Atoi(filepath.Base(proc)); err == nil && (program == "" || filepath.Base(first) == program) {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// belongings are what a podgrade has that gc must leave alone, and all that
// there is when no other podgrade left anything.
type belongings struct {
	runs, containers, sockets []string
	holders                   int
}

func neighbourhood(t *testing.T, o isolation.Options, v *victim) belongings {
	t.Helper()
	b := belongings{runs: runsIn(t, o.Scratch)}
	for _, run := range b.runs {
		for _, base := range []string{os.Getenv("XDG_RUNTIME_DIR"), "/tmp"} {
			if dir := filepath.Join(base, "podgrade-"+filepath.Base(run)); exists(dir) {
				b.sockets = append(b.sockets, dir)
			}
		}
	}
	all, err := host(t).RunPodman(ctx(t), "ps", "--all", "--format", "{{.Names}} {{.Labels}}")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(all) {
		name, labels, _ := strings.Cut(line, " ")
		switch {
		case strings.Contains(labels, fmt.Sprintf("podgrade.holder:%d:", v.process.Process.Pid)):
			b.holders++
		case strings.Contains(labels, "podgrade."):
			b.containers = append(b.containers, name)
		}
	}
	slices.Sort(b.containers)
	return b
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

func (b belongings) same(c belongings) bool {
	return slices.Equal(b.runs, c.runs) && slices.Equal(b.containers, c.containers) && slices.Equal(b.sockets, c.sockets) && b.holders == c.holders
}
