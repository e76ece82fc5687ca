package isolation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"podgrade/isolation/worker"
)

// startWorker starts the worker in a new user namespace, writes the
// namespace's id maps, and lets it go on.
func (h *Host) startWorker(ctx context.Context) error {
	ours, theirs, err := socketPair()
	if err != nil {
		return &Fault{Tried: "make a channel to the worker", Why: err}
	}
	defer theirs.Close()
	h.worker = newWorkerClient(ours)
	goRead, goWrite, err := os.Pipe()
	if err != nil {
		return &Fault{Tried: "make a channel to the worker", Why: err}
	}
	defer goRead.Close()
	defer goWrite.Close()
	if err := h.spawn(theirs, goRead); err != nil {
		return err
	}
	theirs.Close() // or we would never see it end
	if err := h.privilege.mapped(ctx, h.process.Pid); err != nil {
		return err
	}
	if _, err := goWrite.Write([]byte{1}); err != nil {
		return h.workerFault(err)
	}
	hello, err := h.worker.hello(ctx)
	if err != nil {
		return h.workerFault(err)
	}
	h.hello = *hello
	return nil
}

func (h *Host) spawn(channel, goRead *os.File) error {
	path := filepath.Join(h.options.Libexec, workerName)
	how, err := h.privilege.worker(path)
	if err != nil {
		return &Fault{Tried: "find the worker", On: path, Why: err, Do: "install podgrade with its libexec directory beside bin"}
	}
	if how.last != nil {
		defer how.last.Close()
		goRead = how.last
	}
	how.attributes.Setsid, how.attributes.Pdeathsig = true, syscall.SIGKILL
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return &Fault{Tried: "open /dev/null", Why: err}
	}
	defer null.Close()
	stderrRead, stderrWrite, err := os.Pipe()
	if err != nil {
		return &Fault{Tried: "make a channel to the worker", Why: err}
	}
	defer stderrWrite.Close()
	settings := worker.Settings{Run: h.run.dir, Runtime: h.runtime.Path}
	h.process, err = os.StartProcess(how.path, append([]string{workerName, how.stage}, settings.Args()...), &os.ProcAttr{
		Env:   hostEnv(),
		Files: []*os.File{channel, null, stderrWrite, goRead},
		Sys:   how.attributes,
	})
	if err != nil {
		stderrRead.Close()
		do := "install podgrade with its libexec directory beside bin"
		if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EACCES) {
			do = "allow user namespaces: `podgrade doctor` says how"
		}
		return &Fault{Tried: "start the worker in a user namespace", On: path, Why: err, Do: do}
	}
	go func() {
		defer stderrRead.Close()
		io.Copy(io.MultiWriter(h.stderr, orDiscard(h.options.Log)), stderrRead)
	}()
	go func() {
		h.process.Wait()
		close(h.exited)
	}()
	return nil
}

func socketPair() (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "worker"), os.NewFile(uintptr(fds[1]), "podgrade")
	defer ours.Close()
	for _, fd := range fds {
		// A message must fit as a whole, descriptors and all.
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 2*worker.MaxMessage)
	}
	conn, err := net.FileConn(ours)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return conn.(*net.UnixConn), theirs, nil
}

// workerFault adds what the worker said to an error about it.
func (h *Host) workerFault(err error) error {
	var fault *Fault
	if errors.As(err, &fault) {
		return err
	}
	if errors.Is(err, ErrClosed) {
		select {
		case <-h.exited:
		case <-time.After(time.Second):
		}
	}
	if said := h.stderr.String(); said != "" {
		err = fmt.Errorf("%w: %s", err, said)
	}
	return &Fault{Tried: "work in podgrade's user namespace", Why: err, Do: "see what `podgrade doctor` says"}
}

// hostEnv is what Podman and the worker get of our environment: what they need
// to find the caller's images and settings, and nothing else.
func hostEnv() []string {
	keep := []string{
		"HOME", "USER", "LOGNAME", "PATH", "LANG", "LC_ALL", tempVariable,
		"XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME",
		"CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "CONTAINERS_REGISTRIES_CONF", "REGISTRY_AUTH_FILE", "STORAGE_DRIVER",
	}
	var env []string
	for _, name := range keep {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// toolEnv is the environment of what works on Podman's store for us, which writes
// what it pulls, builds and packs into temporary files. They lie in the run, so
// that a killed podgrade leaves none that gc does not find. Without
// XDG_RUNTIME_DIR an ordinary user's Podman keeps its state below TMPDIR too: then
// that must stay where it is.
func (h *Host) toolEnv() []string {
	env := hostEnv()
	if os.Geteuid() != 0 && os.Getenv("XDG_RUNTIME_DIR") == "" {
		return env
	}
	env = slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, tempVariable+"=") })
	return append(env, tempVariable+"="+worker.TempDir(h.run.dir))
}

const tempVariable = "TMPDIR"

// podmanEnv tells Podman that it is in the user namespace already: it makes no
// pause process and no namespace of its own.
func (h *Host) podmanEnv() []string {
	return append(h.toolEnv(),
		"_CONTAINERS_USERNS_CONFIGURED=done",
		fmt.Sprintf("_CONTAINERS_ROOTLESS_UID=%d", os.Getuid()),
		fmt.Sprintf("_CONTAINERS_ROOTLESS_GID=%d", os.Getgid()),
	)
}

// endWorker closes the channel, on which the worker leaves, and makes sure
// that it does.
func (h *Host) endWorker() {
	if h.worker != nil {
		h.worker.conn.Close()
	}
	defer h.privilege.close()
	if h.process == nil {
		return
	}
	select {
	case <-h.exited:
	case <-time.After(5 * time.Second):
		h.process.Kill()
		<-h.exited
	}
}

// tail keeps the last bytes that were written to it.
type tail struct {
	mu   sync.Mutex
	max  int
	kept []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	if extra := len(t.kept) - t.max; extra > 0 {
		t.kept = append(t.kept[:0], t.kept[extra:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.kept))
}

func orDiscard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}
