package isolation_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"podgrade/isolation"
	"podgrade/isolation/testimages"
	"podgrade/oci"
)

// These tests open real cells with the programs in PODGRADE_TEST_BUILD, which
// `make test` sets; by hand it is the build directory of this tree. Their
// images lie in a store of their own, so nothing of the user's is touched.

func buildDir() string {
	if dir := os.Getenv("PODGRADE_TEST_BUILD"); dir != "" {
		return dir
	}
	dir, _ := filepath.Abs("../build")
	return dir
}

func libexec() string { return filepath.Join(buildDir(), "libexec", "podgrade") }

func options(t testing.TB) isolation.Options {
	dir := t.TempDir()
	must(t, os.Chmod(filepath.Dir(dir), 0o711)) // the ids of root's cells pass it
	return isolation.Whole(isolation.Options{Libexec: libexec(), Scratch: dir})
}

// removeStates removes the state layers that tests kept.
func removeStates(o isolation.Options) error {
	states, err := isolation.States(o)
	for _, s := range states {
		err = errors.Join(err, isolation.RemoveState(context.Background(), o, s.DiffID))
	}
	return err
}

var shared struct {
	once sync.Once
	host *isolation.Host
	err  error
	dir  string // of the scratch and of the store

	mu     sync.Mutex
	images map[string]isolation.Image
}

func TestMain(m *testing.M) {
	if os.Getenv(loopVariable) != "" {
		os.Exit(loop())
	}
	if err := waitTogether(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// waitTogether runs twice as many tests at once as there are processors, unless the
// caller says how many: a test of cells waits half of its time, for a time-out or for
// what it has started.
func waitTogether() error {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if asked {
		return nil
	}
	return flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0)))
}

// runTests runs them with a store of their own, which it removes.
func runTests(m *testing.M) (code int, err error) {
	if shared.dir, err = makeStore(os.Setenv); err != nil {
		return 1, err
	}
	defer os.RemoveAll(shared.dir)
	code = m.Run()
	if shared.host == nil {
		return code, nil
	}
	removeStore(context.Background(), shared.host, shared.dir)
	err = errors.Join(shared.host.Close(), removeStates(isolation.Options{Libexec: libexec(), Scratch: scratchDir(shared.dir)}))
	if left, _ := os.ReadDir(isolation.Whole(isolation.Options{Scratch: scratchDir(shared.dir)}).Scratch); len(left) > 0 {
		err = errors.Join(err, fmt.Errorf("left in the scratch: %s", left[0].Name()))
	}
	return code, err
}

// storeVariable names Podman's own configuration of its store; dataVariable is
// where it looks for its data base without one: what that remembers of a store
// wins over the configuration, so the user's own must not be found.
const (
	storeVariable = "CONTAINERS_STORAGE_CONF"
	dataVariable  = "XDG_DATA_HOME"
)

func storeDir(dir string) string   { return filepath.Join(dir, "store") }
func scratchDir(dir string) string { return filepath.Join(dir, "scratch") }

// makeStore makes a directory with an empty store of Podman and with what
// Podman keeps as long as a user is logged in, and sets the variables by which
// it finds both. The name is short, because Podman puts sockets deep into it.
func makeStore(setenv func(name, value string) error) (dir string, err error) {
	dir = "/tmp/pg-" + strings.ToLower(rand.Text()[:6])
	store, configuration := storeDir(dir), filepath.Join(dir, "storage.conf")
	text := fmt.Sprintf("[storage]\ndriver = \"overlay\"\ngraphroot = %[1]q\nrootless_storage_path = %[1]q\n", store)
	if os.Geteuid() == 0 { // whose own Podman has another place for it
		text += fmt.Sprintf("runroot = %q\n", filepath.Join(dir, "run"))
	}
	return dir, errors.Join(os.Mkdir(dir, 0o711), os.Mkdir(store, 0o700), os.WriteFile(configuration, []byte(text), 0o600),
		setenv(storeVariable, configuration), setenv(dataVariable, store), setenv("XDG_RUNTIME_DIR", dir))
}

// removeStore removes what the worker's ids own of a store, but for a mount of
// Podman's, which goes with the worker.
func removeStore(ctx context.Context, h *isolation.Host, dir string) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, sub := range []string{storeDir(dir), dir + "/containers", dir + "/libpod"} {
		h.Sweep(ctx, sub)
	}
	if os.Geteuid() == 0 { // its mounts are the host's
		unix.Unmount(filepath.Join(storeDir(dir), "overlay"), unix.MNT_DETACH)
	}
}

// host is the one that most tests share.
func host(t testing.TB) *isolation.Host {
	t.Helper()
	shared.once.Do(func() {
		shared.images = map[string]isolation.Image{}
		o := options(t)
		o.Scratch = scratchDir(shared.dir)
		shared.host, shared.err = isolation.Start(ctx(t), o)
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.host
}

// start starts a host of the test's own in an empty scratch.
func start(t testing.TB, o isolation.Options) *isolation.Host {
	t.Helper()
	h, err := isolation.Start(ctx(t), o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// ownStore gives a test a host with a store that nobody else uses.
func ownStore(t *testing.T) *isolation.Host {
	t.Helper()
	dir, err := makeStore(func(name, value string) error { t.Setenv(name, value); return nil })
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err != nil {
		t.Fatal(err)
	}
	h := start(t, options(t))
	t.Cleanup(func() {
		removeStore(ctx(t), h, dir)
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// patience is how much longer than usual a test may wait: a machine without
// hardware is slow.
func patience() time.Duration {
	factor, err := strconv.Atoi(os.Getenv("PODGRADE_TEST_PATIENCE"))
	if err != nil {
		return 1
	}
	return time.Duration(factor)
}

func ctx(t testing.TB) context.Context {
	c, cancel := context.WithTimeout(context.Background(), 2*time.Minute*patience())
	t.Cleanup(cancel)
	return c
}

// image imports a test image once.
func image(t testing.TB, i testimages.Image) isolation.Image {
	t.Helper()
	h := host(t)
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if found, ok := shared.images[i.Reference]; ok {
		return found
	}
	found := importOn(t, h, i)
	if !strings.HasPrefix(found.Layers[0], shared.dir) {
		t.Fatalf("the store of the tests is not where it should be: %s", found.Layers[0])
	}
	shared.images[i.Reference] = found
	return found
}

// as is the busybox image with a USER.
func as(t testing.TB, user string) isolation.Image {
	t.Helper()
	if user == "" {
		return image(t, testimages.Busybox())
	}
	return image(t, testimages.BusyboxAs(user))
}

func importOn(t testing.TB, h *isolation.Host, i testimages.Image) isolation.Image {
	t.Helper()
	tar := i.Open()
	defer tar.Close()
	pin, err := h.Import(ctx(t), tar, i.Reference, isolation.ImageConfig{
		User: i.Config.User, Env: i.Config.Env, WorkingDir: i.Config.WorkingDir, Labels: i.Config.Labels,
	})
	if err != nil {
		t.Fatal(err)
	}
	found, err := h.ImageByPin(ctx(t), pin)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// open opens a cell on a small workspace; change may change the order.
func open(t testing.TB, i isolation.Image, change func(*isolation.Order)) isolation.Cell {
	t.Helper()
	o := order(t, i)
	if change != nil {
		change(&o)
	}
	return openOn(t, host(t), o)
}

// openOn opens a cell that is closed with the test.
func openOn(t testing.TB, h *isolation.Host, o isolation.Order) isolation.Cell {
	t.Helper()
	c, err := h.Open(ctx(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func order(t testing.TB, i isolation.Image) isolation.Order {
	workspace := t.TempDir()
	if err := os.WriteFile(filepath.Join(workspace, "hello.txt"), []byte("hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(workspace, 0o700); err != nil {
		t.Fatal(err)
	}
	return isolation.Order{Plan: oci.Plan{Phase: oci.Grade, Network: oci.Sealed}, Image: i, Workspace: workspace}
}

// withDockerCapabilities makes a cell as `driver: docker` has it.
func withDockerCapabilities(o *isolation.Order) { o.Plan.Capabilities = oci.DockerCapabilities() }

// result is a command's end with its output.
type result struct {
	isolation.Exit
	out string
}

var testEnv = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp"}

func sh(t testing.TB, c isolation.Cell, line string) result {
	t.Helper()
	return run(t, c, time.Minute*patience(), "/bin/sh", "-c", line)
}

// want runs a line that must succeed and print exactly this.
func want(t testing.TB, c isolation.Cell, line, output string) {
	t.Helper()
	if got := sh(t, c, line); got.Code != 0 || got.out != output {
		t.Errorf("%s\nended with %d and printed %q, want %q", line, got.Code, got.out, output)
	}
}

// alive asks the cell for one more command.
func alive(t testing.TB, c isolation.Cell) {
	t.Helper()
	want(t, c, "echo alive", "alive\n")
}

func run(t testing.TB, c isolation.Cell, timeout time.Duration, argv ...string) result {
	t.Helper()
	var out bytes.Buffer
	exit, err := c.Run(ctx(t), isolation.Command{Argv: argv, Env: testEnv, Dir: c.Places().Workspace, Timeout: timeout, Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatalf("run %q: %v", argv, err)
	}
	return result{exit, out.String()}
}
