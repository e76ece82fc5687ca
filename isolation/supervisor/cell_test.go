package supervisor_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"podgrade/isolation/protocol"
)

// The tests start the real binary as PID 1 of new user, pid, mount, network and
// ipc namespaces, without a container, and talk the protocol to it. Run by
// root, the namespace maps an unprivileged range, so that root in it has no
// more rights than in a cell; run by an ordinary user, the one id that every
// user may map.

// stageVariable makes the test binary the first program in a new namespace.
const stageVariable = "PODGRADE_TEST_STAGE"

// built are the programs that the tests start.
var built struct{ init, attack string }

func TestMain(m *testing.M) {
	if stage := os.Getenv(stageVariable); stage != "" {
		fmt.Fprintln(os.Stderr, "prepare the namespace:", enterStage(stage))
		os.Exit(1)
	}
	dir, err := os.MkdirTemp("", "supervisor")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err == nil {
		built.init, err = obtain(dir, "libexec/podgrade/podgrade-init", "podgrade/cmd/podgrade-init", 0o111)
	}
	if err == nil {
		built.attack, err = obtain(dir, "test/attack", "podgrade/isolation/testdata/attack", 0o755)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// obtain puts a program into dir: what make has built, else built here.
func obtain(dir, made, pkg string, mode os.FileMode) (string, error) {
	out := filepath.Join(dir, filepath.Base(made))
	if build := os.Getenv("PODGRADE_TEST_BUILD"); build != "" {
		program, err := os.ReadFile(filepath.Join(build, made))
		if err != nil {
			return "", fmt.Errorf("%w: run `make build-test` first, or unset PODGRADE_TEST_BUILD", err)
		}
		if err := os.WriteFile(out, program, 0o700); err != nil {
			return "", err
		}
		return out, os.Chmod(out, mode)
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", pkg, err, text)
	}
	return out, os.Chmod(out, mode)
}

// enterStage is PID 1 before the supervisor: it mounts /proc as cells have it,
// and the programs' directory as a read-only mount, drops capabilities and
// becomes "UID CAPABILITY-MASK INIT DEV".
func enterStage(stage string) error {
	var uid int
	var keep uint64
	var program, dev string
	if _, err := fmt.Sscan(stage, &uid, &keep, &program, &dev); err != nil {
		return err
	}
	runtime.LockOSThread()
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, "hidepid=2"); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := enterDev(dev); err != nil {
		return fmt.Errorf("prepare /dev: %w", err)
	}
	tools := filepath.Dir(program)
	if err := syscall.Mount(tools, tools, "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s: %w", tools, err)
	}
	if err := syscall.Mount("", tools, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY|syscall.MS_NOSUID|syscall.MS_NODEV, ""); err != nil {
		return fmt.Errorf("make %s read-only: %w", tools, err)
	}
	for capability := range uintptr(64) {
		if keep&(1<<capability) == 0 {
			syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_CAPBSET_DROP, capability, 0)
		}
	}
	if os.Getuid() != uid {
		if err := syscall.Setgid(uid); err != nil {
			return fmt.Errorf("set gid %d: %w", uid, err)
		}
		if err := syscall.Setuid(uid); err != nil {
			return fmt.Errorf("set uid %d: %w", uid, err)
		}
	}
	const ambient, clearAll, noNewPrivs = 47, 4, 38 // PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, PR_SET_NO_NEW_PRIVS
	for _, args := range [][2]uintptr{{ambient, clearAll}, {noNewPrivs, 1}} {
		if _, _, e := syscall.RawSyscall6(syscall.SYS_PRCTL, args[0], args[1], 0, 0, 0, 0); e != 0 {
			return fmt.Errorf("prctl %d: %w", args[0], e)
		}
	}
	return syscall.Exec(program, []string{program}, nil)
}

// enterDev leaves /dev as it is ("full"), or makes it what no image should
// have: without /dev/null ("none"), or with a FIFO in its place ("fifo"), or
// hardly any space ("small").
func enterDev(dev string) error {
	if dev == "full" {
		return nil
	}
	size := ""
	if dev == "small" {
		size = "size=1m"
	}
	if err := syscall.Mount("none", "/dev", "tmpfs", 0, size); err != nil || dev != "fifo" {
		return err
	}
	return syscall.Mkfifo("/dev/null", 0o666)
}

// dockerCapabilities is the default set of Docker without DAC_OVERRIDE and
// DAC_READ_SEARCH: CHOWN, FOWNER, FSETID, KILL, SETGID, SETUID, SETPCAP,
// NET_BIND_SERVICE, NET_RAW, SYS_CHROOT, MKNOD, AUDIT_WRITE, SETFCAP.
const dockerCapabilities = 1<<0 | 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<10 | 1<<13 | 1<<18 | 1<<27 | 1<<29 | 1<<31

// kind is one way to start the supervisor.
type kind struct {
	name string
	host bool
	uid  int
	caps uint64
	dev  string // "" is full
}

var (
	sealed      = kind{name: "sealed root"}
	sealedUser  = kind{name: "sealed uid 1000", uid: 1000}
	dockerRoot  = kind{name: "docker capabilities root", caps: dockerCapabilities}
	dockerUser  = kind{name: "docker capabilities uid 1000", uid: 1000, caps: dockerCapabilities}
	onHost      = kind{name: "host", host: true}
	everyKind   = []kind{sealed, sealedUser, dockerRoot, dockerUser, onHost}
	everyCell   = []kind{sealed, sealedUser, dockerRoot, dockerUser}
	eitherPlace = []kind{sealed, onHost}
)

// cell is a started supervisor.
type cell struct {
	*protocol.Client
	t       testing.TB
	kind    kind
	process *exec.Cmd
	stdin   io.Closer
	stderr  *syncBuffer
	dir     string // a directory that its user owns
}

// syncBuffer is a bytes.Buffer for several goroutines.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// mapBase is the first host id of the namespaces that root makes.
const mapBase = 200000

// launch prepares the process of a supervisor of the given kind.
func launch(t testing.TB, k kind) *exec.Cmd {
	t.Helper()
	if k.host {
		return exec.Command(built.init, "--host")
	}
	cmd := exec.Command("/proc/self/exe")
	dev := k.dev
	if dev == "" {
		dev = "full"
	}
	cmd.Env = []string{fmt.Sprintf("%s=%d %d %s %s", stageVariable, k.uid, k.caps, built.init, dev)}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
	}
	if os.Getuid() == 0 {
		whole := []syscall.SysProcIDMap{{ContainerID: 0, HostID: mapBase, Size: 65536}}
		cmd.SysProcAttr.UidMappings, cmd.SysProcAttr.GidMappings = whole, whole
		cmd.SysProcAttr.Credential = &syscall.Credential{} // root of the namespace
	} else {
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: k.uid, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: k.uid, HostID: os.Getgid(), Size: 1}}
		if k.uid != 0 { // what is not root keeps capabilities over an exec only so
			const setpcap, sysAdmin = 8, 21
			cmd.SysProcAttr.AmbientCaps = []uintptr{setpcap, sysAdmin}
		}
	}
	return cmd
}

// open starts a supervisor and greets it. It is ended with the test.
func open(t testing.TB, k kind) *cell {
	t.Helper()
	c := &cell{t: t, kind: k, process: launch(t, k), stderr: &syncBuffer{}, dir: scratch(t, k)}
	stdin, err := c.process.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := c.process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.process.Stderr, c.stdin = c.stderr, stdin
	if err := c.process.Start(); err != nil {
		t.Fatal(err)
	}
	c.Client = protocol.NewClient(stdout, stdin)
	t.Cleanup(func() { c.close() })
	ctx, cancel := context.WithTimeout(t.Context(), askWithin)
	defer cancel()
	if err := c.Hello(ctx); err != nil {
		t.Fatalf("hello: %v\nstderr: %s", err, c.stderr)
	}
	return c
}

// close closes the channel and waits for the supervisor's end.
func (c *cell) close() error {
	c.stdin.Close()
	timer := time.AfterFunc(10*time.Second, func() { c.process.Process.Kill() })
	defer timer.Stop()
	<-c.Done()
	err := c.process.Wait()
	if c.t.Failed() {
		c.t.Logf("stderr of the supervisor: %s", c.stderr)
	}
	return err
}

// scratch makes a directory that the cell's user owns and can reach.
func scratch(t testing.TB, k kind) string {
	t.Helper()
	dir := t.TempDir()
	if os.Getuid() != 0 || k.host {
		return dir
	}
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, mapBase+k.uid, mapBase+k.uid); err != nil {
		t.Fatal(err)
	}
	return dir
}

// pid is the supervisor's number, as the tests see it.
func (c *cell) pid() string {
	pid := strconv.Itoa(c.process.Process.Pid)
	if !c.kind.host {
		return pid
	}
	// On the host that is the guardian, whose child the supervisor is.
	children, err := os.ReadFile("/proc/" + pid + "/task/" + pid + "/children")
	if err != nil {
		c.t.Fatal(err)
	}
	return strings.TrimSpace(string(children))
}

// result is what a command did.
type result struct {
	protocol.Exit
	stdout, stderr string
}

// askWithin bounds every answer in these tests.
const askWithin = time.Minute

// try runs a command and returns its failure too.
func (c *cell) try(r protocol.Run) (result, *protocol.Failure) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), askWithin)
	defer cancel()
	if r.Dir == "" {
		r.Dir = "/"
	}
	if r.Env == nil {
		r.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "PODGRADE_ATTACK=yes"}
	}
	r.Landlock = true
	var stdout, stderr bytes.Buffer
	a, err := c.Do(ctx, protocol.Request{Op: protocol.OpRun, Run: &r}, protocol.Sinks{Stdout: &stdout, Stderr: &stderr})
	if err != nil {
		c.t.Fatalf("run %q: %v\nstderr: %s", r.Argv, err, c.stderr)
	}
	if a.Failure != nil {
		return result{}, a.Failure
	}
	return result{Exit: *a.Exit, stdout: stdout.String(), stderr: stderr.String()}, nil
}

// run runs a command that must come to run.
func (c *cell) run(r protocol.Run) result {
	c.t.Helper()
	got, failure := c.try(r)
	if failure != nil {
		c.t.Fatalf("run %q: %s: %s", r.Argv, failure.Kind, failure.Message)
	}
	return got
}

// sh runs a line of shell.
func (c *cell) sh(line string, timeout time.Duration) result {
	c.t.Helper()
	return c.run(protocol.Run{Argv: []string{"sh", "-c", line}, Dir: c.dir, Timeout: timeout})
}

// alive asks for a line, which shows that the cell still answers.
func (c *cell) alive() {
	c.t.Helper()
	if got := c.sh("echo alive", 10*time.Second); got.stdout != "alive\n" || got.Code != 0 {
		c.t.Fatalf("the cell does not answer as it should: %+v", got)
	}
}

// ask asks about a path.
func (c *cell) ask(op protocol.Op, p protocol.Path) (protocol.Answer, string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), askWithin)
	defer cancel()
	var content bytes.Buffer
	a, err := c.Do(ctx, protocol.Request{Op: op, Path: &p}, protocol.Sinks{Content: &content})
	if err != nil {
		c.t.Fatalf("%s %+v: %v\nstderr: %s", op, p, err, c.stderr)
	}
	return a, content.String()
}

// marks numbers the marks of the tests.
var marks atomic.Int64

// mark is an argument that only the processes of one test have.
func mark() string { return fmt.Sprintf("mark-%d-%d", os.Getpid(), marks.Add(1)) }

// processesWith counts the host's processes whose arguments hold mark.
func processesWith(mark string) int {
	n := 0
	names, _ := os.ReadDir("/proc")
	for _, e := range names {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		line, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if slices.Contains(strings.Split(string(line), "\x00"), mark) {
			n++
		}
	}
	return n
}

// forEach runs a test for each kind.
func forEach(t *testing.T, kinds []kind, test func(t *testing.T, c *cell)) {
	for _, k := range kinds {
		t.Run(strings.ReplaceAll(k.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			test(t, open(t, k))
		})
	}
}
