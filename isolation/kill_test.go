package isolation_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"podgrade/isolation"
	"podgrade/isolation/testimages"
	"podgrade/oci"
)

// startLooper starts a podgrade that opens cells until it is killed.
func startLooper(t *testing.T, l looper) (cmd *exec.Cmd, said *bufio.Scanner) {
	t.Helper()
	text, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), loopVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	return cmd, bufio.NewScanner(out)
}

// allGone waits until no process of a scratch is left, for the 3 seconds that
// are allowed.
func allGone(t *testing.T, scratch string) {
	t.Helper()
	var left []string
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if left = processesOf(scratch); len(left) == 0 {
			return
		}
	}
	t.Fatalf("3 seconds later these are left: %q", left)
}

// nothingLeft starts podgrade once more, after which nothing of dead ones may
// be there: no directory, no mount, no socket.
func nothingLeft(t *testing.T, o isolation.Options) {
	t.Helper()
	dead, err := os.ReadDir(o.Scratch)
	if err != nil {
		t.Fatal(err)
	}
	h := start(t, o)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(o.Scratch); err != nil || len(left) != 0 {
		t.Errorf("left in the scratch: %v, %v", left, err)
	}
	// Those of the worker are in a namespace of its own, which any process could keep.
	files, err := filepath.Glob("/proc/[0-9]*/mountinfo")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if mounts, err := os.ReadFile(file); err == nil && strings.Contains(string(mounts), o.Scratch) {
			t.Errorf("mounts are left, as %s shows:\n%s", file, mounts)
		}
	}
	for _, name := range dead {
		for _, base := range []string{os.Getenv("XDG_RUNTIME_DIR"), "/tmp"} {
			if _, err := os.Lstat(filepath.Join(base, "podgrade-"+name.Name())); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the directory of a socket of %s is left in %s: %v", name.Name(), base, err)
			}
		}
	}
}

// halfMade tells whether a podgrade could not work because an image is half made, and
// does what it says then.
func halfMade(t *testing.T, line string) bool {
	t.Helper()
	if !strings.Contains(line, isolation.ErrHalfMade.Error()) {
		return false
	}
	_, remedy, _ := strings.Cut(line, "podman rmi ")
	id, _, _ := strings.Cut(remedy, ")")
	if said, err := exec.Command("podman", "rmi", id).CombinedOutput(); err != nil {
		t.Fatalf("podman rmi %s: %v, %s", id, err, said)
	}
	t.Logf("the image %s was half made", id)
	return true
}

// However and whenever podgrade is killed, its cells end with it, and the next
// start finds everything that it left on disk.
func TestNothingOutlivesAKilledPodgrade(t *testing.T) {
	kills := 20
	if os.Getenv("PODGRADE_TEST_SOAK") != "" {
		kills = 500
	}
	o := options(t)
	l := looper{Options: o, Order: order(t, as(t, "1000"))}
	l.Options.Log = nil
	for n := range kills {
		l.LookUp, l.Build = n%5 == 3, n%10 == 7
		cmd, said := startLooper(t, l)
		if n%4 != 0 && !said.Scan() { // each fourth is killed while it starts
			t.Fatal("it opened no cell")
		}
		if halfMade(t, said.Text()) { // by the Podman of one that was killed before
			cmd.Wait()
			continue
		}
		if line := said.Text(); line != "" && line != "ready" {
			t.Fatal(line)
		}
		time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatalf("it had ended: %v", err)
		}
		cmd.Wait()
		allGone(t, o.Scratch)
		if n%3 == 2 || n == kills-1 { // some find what several have left
			nothingLeft(t, o)
		}
	}
}

// A Podman that is killed while it makes a container can leave it half made, where
// only the list of the storage shows it. The next start removes the one of a holder.
func TestAHolderThatIsHalfMadeIsRemoved(t *testing.T) {
	h := ownStore(t)
	l := looper{Options: options(t), Order: order(t, importOn(t, h, testimages.Busybox())), Hold: true}
	l.Options.Log = nil
	half, kills := 0, 5
	if os.Getenv("PODGRADE_TEST_SOAK") != "" {
		kills = 50
	}
	for range kills {
		cmd, said := startLooper(t, l)
		if !said.Scan() || said.Text() != "ready" {
			t.Fatalf("it does not hold: %q", said.Text())
		}
		time.Sleep(time.Duration(rand.IntN(900)) * time.Millisecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatalf("it had ended: %v", err)
		}
		cmd.Wait()
		allGone(t, l.Options.Scratch)
		if left := podman(t, h, "ps", "--all", "--external", "--format", "{{.Names}} {{.Status}}"); strings.Contains(left, "Storage") {
			half++
		}
	}
	nothingLeft(t, l.Options)
	if left := podman(t, h, "ps", "--all", "--external", "--format", "{{.Names}} {{.Status}}"); left != "" {
		t.Errorf("these containers are left: %s", left)
	}
	t.Logf("%d times a container was half made", half)
}

// The worker, either of its processes, takes all cells with it when it is
// killed, and so does the runtime of a cell this cell. That is nobody's result,
// and podgrade can start again.
func TestAKilledWorkerIsInfrastructure(t *testing.T) {
	t.Parallel()
	for name, victim := range map[string]func(scratch string) *os.Process{
		"outer worker": func(scratch string) *os.Process { return named(scratch, "podgrade-worker")[0] },
		"inner worker": func(scratch string) *os.Process { return named(scratch, "podgrade-worker")[1] },
		"supervisor":   func(scratch string) *os.Process { return named(scratch, "podgrade-init")[0] },
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t)
			h := start(t, o)
			c, err := h.Open(ctx(t), order(t, as(t, "1000")))
			if err != nil {
				t.Fatal(err)
			}
			want(t, c, "sleep 1000 >/dev/null 2>&1 & mkdir -p a/b; chmod 0 a", "")
			ended := make(chan error, 1)
			go func() {
				_, err := c.Run(ctx(t), isolation.Command{Argv: []string{"/bin/sleep", "1000"}, Env: testEnv, Dir: oci.WorkspacePath, Timeout: time.Hour})
				ended <- err
			}()
			time.Sleep(100 * time.Millisecond)
			if err := victim(o.Scratch).Kill(); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-ended:
				if !errors.Is(err, isolation.ErrCellLost) || faultKind(err) != isolation.Infrastructure {
					t.Errorf("the command that ran: %v", err)
				}
			case <-time.After(5 * time.Second):
				t.Fatal("the command that ran never ended")
			}
			if _, err := c.Stat(ctx(t), oci.WorkspacePath, "hello.txt"); err == nil || faultKind(err) != isolation.Infrastructure {
				t.Errorf("a question afterwards: %v", err)
			}
			if name != "supervisor" {
				workerIsGone(t, h, c)
			}
			if err := c.Close(); err != nil {
				t.Errorf("closing the cell: %v", err)
			}
			h.Close() // it may say that it could not remove everything
			allGone(t, o.Scratch)
			nothingLeft(t, o)
		})
	}
}

func workerIsGone(t *testing.T, h *isolation.Host, c isolation.Cell) {
	t.Helper()
	if err := c.CheckImage(ctx(t)); err == nil || errors.Is(err, isolation.ErrNoImage) || faultKind(err) != isolation.Infrastructure {
		t.Errorf("the check of the image: %v", err)
	}
	if _, err := h.Open(ctx(t), order(t, as(t, ""))); err == nil || faultKind(err) != isolation.Infrastructure {
		t.Errorf("one more cell: %v", err)
	}
}

// A cell whose runtime was killed ends with podgrade at the latest, and no
// later than the cell is closed.
func TestACellOutlivesItsRuntimeOnlyUntilItIsClosed(t *testing.T) {
	o := options(t)
	h := start(t, o)
	defer h.Close()
	c := openOn(t, h, order(t, as(t, "")))
	want(t, c, "sleep 1000 >/dev/null 2>&1 &", "")
	runtimes := append(named(o.Scratch, "crun"), named(o.Scratch, "runc")...)
	if len(runtimes) != 1 {
		t.Fatalf("the runtimes are among %q", processesOf(o.Scratch))
	}
	if err := runtimes[0].Kill(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
	if got := sh(t, c, "echo alive"); got.out != "alive\n" {
		t.Errorf("the cell says %q", got.out)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	for end := time.Now().Add(3 * time.Second); len(named(o.Scratch, "podgrade-init"))+len(named(o.Scratch, "sleep")) > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("these are left: %q", processesOf(o.Scratch))
		}
	}
}
