package isolation_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"podgrade/isolation"
	"podgrade/isolation/testimages"
	"podgrade/oci"
)

// These tests open real cells with the programs in PODGRADE_TEST_BUILD, which
// `make test` sets; by hand it is the build directory of this tree.

func buildDir() string {
	if dir := os.Getenv("PODGRADE_TEST_BUILD"); dir != "" {
		return dir
	}
	dir, _ := filepath.Abs("../build")
	return dir
}

func options(t testing.TB) isolation.Options {
	return isolation.Options{Libexec: filepath.Join(buildDir(), "libexec", "podgrade"), Scratch: t.TempDir()}
}

var shared struct {
	once sync.Once
	host *isolation.Host
	err  error
	dir  string

	mu     sync.Mutex
	images map[string]isolation.Image
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.host != nil {
		if err := shared.host.Close(); err != nil {
			println("close:", err.Error())
			code = 1
		}
		if left, _ := os.ReadDir(shared.dir); len(left) > 0 {
			println("left in the scratch:", left[0].Name())
			code = 1
		}
		os.RemoveAll(shared.dir)
	}
	os.Exit(code)
}

// host is the one that most tests share.
func host(t testing.TB) *isolation.Host {
	t.Helper()
	shared.once.Do(func() {
		shared.images = map[string]isolation.Image{}
		if shared.dir, shared.err = os.MkdirTemp("", "podgrade-isolation-"); shared.err != nil {
			return
		}
		o := options(t)
		o.Scratch = shared.dir
		shared.host, shared.err = isolation.Start(ctx(t), o)
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.host
}

func ctx(t testing.TB) context.Context {
	c, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
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
	shared.images[i.Reference] = found
	return found
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
	c, err := host(t).Open(ctx(t), o)
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

// result is a command's end with its output.
type result struct {
	isolation.Exit
	out string
}

var testEnv = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp"}

func sh(t testing.TB, c isolation.Cell, line string) result {
	t.Helper()
	return run(t, c, 60*time.Second, "/bin/sh", "-c", line)
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
