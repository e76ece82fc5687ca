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
	"time"

	"golang.org/x/sys/unix"

	"podgrade/isolation/libpod"
	"podgrade/isolation/worker"
	"podgrade/oci"
)

// service is a transient `podman system service` inside the worker's
// namespaces, on a socket that only we can reach. It ends with podgrade.
type service struct {
	api    *caller // what asks it
	dir    string  // of the socket
	cancel context.CancelFunc
	ended  chan struct{}
}

// serviceGrace bounds its start: a first start of Podman sets its store up, and a
// busy host gives it little of a processor.
const serviceGrace = 2 * time.Minute

// podmanService starts the service when it is first needed: it takes 100 to
// 300 ms, so a grade does without it.
func (h *Host) podmanService(ctx context.Context) (*service, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.service != nil && !h.service.gone() {
		return h.service, nil
	}
	if h.service != nil { // somebody ended it, or who asks it
		h.service.end()
		h.service = nil
	}
	theirs, err := containerHost()
	if err != nil {
		return nil, err
	}
	s, err := h.startService(ctx)
	var known *Fault
	if errors.As(err, &known) {
		return nil, err
	}
	if err != nil {
		return nil, &Fault{Tried: "start Podman's service", Why: err, Do: "check that `podman info` works for this user"}
	}
	if err := checkStore(ctx, theirs, s.socket()); err != nil {
		return nil, errors.Join(err, s.end())
	}
	h.service = s
	return s, nil
}

func (h *Host) startService(ctx context.Context) (*service, error) {
	dir, err := makeSocketDir(h.run.dir)
	if err != nil {
		return nil, &Fault{Tried: "make a directory for the socket of Podman's service", Why: err,
			Do: "set XDG_RUNTIME_DIR to a directory of yours that you can write to"}
	}
	hooks, err := h.hooksDir(dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	running, cancel := context.WithCancel(context.Background())
	s := &service{dir: dir, cancel: cancel, ended: make(chan struct{})}
	socket := s.socket()
	said := &tail{max: 4 << 10}
	go func() {
		defer close(s.ended)
		h.privilege.podman(running, h, []string{h.podman, "--hooks-dir", hooks, "system", "service", "--time=0", "unix://" + socket}, nil, said, said)
	}()
	if err := s.await(ctx, socket); err != nil {
		cancel()
		<-s.ended
		os.RemoveAll(dir)
		return nil, fmt.Errorf("%w: %s", err, said)
	}
	if s.api, err = newCaller(h.options.Libexec, socket, h.toolEnv()); err != nil {
		cancel()
		<-s.ended
		os.RemoveAll(dir)
		return nil, err
	}
	return s, nil
}

// socket is the path of its socket.
func (s *service) socket() string { return filepath.Join(s.dir, "podman.sock") }

func (s *service) gone() bool {
	select {
	case <-s.ended:
		return true
	case <-s.api.ended:
		return true
	default:
	}
	// What was killed a moment ago listens no more, and is not reaped yet.
	conn, err := net.Dial("unix", s.socket())
	if err != nil {
		return true
	}
	conn.Close()
	return false
}

// end ends it, and who asks it.
func (s *service) end() error {
	s.api.close()
	s.cancel()
	<-s.ended
	return os.RemoveAll(s.dir)
}

// hooksDir makes the directory with the hook by which Podman lets us say what
// the runtime makes of a container of ours. It lies beside the socket: Podman 4
// takes its name for a list with commas and quotes, which scratch directories may
// have in theirs.
func (h *Host) hooksDir(beside string) (string, error) {
	dir := filepath.Join(beside, "hooks")
	hook, err := worker.HookFile(filepath.Join(h.options.Libexec, workerName))
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, worker.HookName), hook, 0o600)
}

// socketDirs are where the socket of a run may lie. They are short, which the
// path of a socket must be (107 bytes), and named after the run, so that a
// later podgrade finds what a dead one left.
func socketDirs(run string) []string {
	name := "podgrade-" + filepath.Base(run)
	dirs := []string{filepath.Join("/tmp", name)}
	if base := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(base) && len(base) < 64 {
		dirs = append([]string{filepath.Join(base, name)}, dirs...)
	}
	return dirs
}

func makeSocketDir(run string) (dir string, err error) {
	for _, dir = range socketDirs(run) {
		if err = os.Mkdir(dir, 0o700); err == nil {
			return dir, nil
		}
	}
	return "", err
}

func (s *service) await(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, serviceGrace)
	defer cancel()
	for {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-s.ended:
			return errors.New("it ended at once")
		case <-ctx.Done():
			return fmt.Errorf("it did not listen in time: %w", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (h *Host) stopService() error {
	h.mu.Lock()
	s := h.service
	h.service = nil
	h.mu.Unlock()
	if s == nil {
		return nil
	}
	return s.end()
}

// ImageConfig is what an imported image says about itself. Podman's import
// takes it as Containerfile instructions.
type ImageConfig struct {
	User       string
	Env        []string // "NAME=value"
	WorkingDir string
	Labels     map[string]string
	Volumes    []string
	Platform   string // os/arch[/variant]; "": this host's
}

func (c ImageConfig) changes() []string {
	var changes []string
	if c.User != "" {
		changes = append(changes, "USER "+c.User)
	}
	for _, e := range c.Env {
		changes = append(changes, "ENV "+e)
	}
	if c.WorkingDir != "" {
		changes = append(changes, "WORKDIR "+c.WorkingDir)
	}
	for _, v := range c.Volumes {
		changes = append(changes, "VOLUME "+v)
	}
	var names []string
	for name := range c.Labels {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		changes = append(changes, "LABEL "+name+"="+c.Labels[name])
	}
	return changes
}

// Import makes an image of one layer from a tar archive, under a name.
func (h *Host) Import(ctx context.Context, tar io.Reader, reference string, config ImageConfig) (oci.Pin, error) {
	s, err := h.podmanService(ctx)
	if err != nil {
		return oci.Pin{}, err
	}
	id, err := s.api.once(ctx, libpod.Call{Import: &libpod.Import{Reference: reference, Changes: config.changes(), Platform: config.Platform}}, tar, nil)
	if err != nil {
		return oci.Pin{}, &Fault{Tried: "import the image", On: reference, Why: saidByPodman(err), Do: "check that the archive is a whole root file system"}
	}
	image, err := h.Image(ctx, id)
	image.Pin.Reference = reference
	return image.Pin, err
}

// BuildOrder says what image to build.
type BuildOrder struct {
	Containerfile string // path, from the current directory
	ContextDir    string
	Exclude       []string // files and directories of the context that no build sees, relative to it
	Reference     string
	Args          map[string]string
	Output        io.Writer // what the build says; nil: dropped
}

// ErrBuild is wrapped when the Containerfile, or what it runs, is why an image
// was not built, and not this host.
var ErrBuild = errors.New("the build failed")

// Build builds an image without any network, neither for its steps nor to
// pull what it builds on: that must be in the store.
func (h *Host) Build(ctx context.Context, b BuildOrder) (oci.Pin, error) {
	if err := b.check(); err != nil {
		return oci.Pin{}, err
	}
	s, err := h.podmanService(ctx)
	if err != nil {
		return oci.Pin{}, err
	}
	var said bytes.Buffer
	out := io.MultiWriter(&cappedWriter{w: &said, left: 64 << 10}, orDiscard(b.Output))
	id, err := s.api.once(ctx, libpod.Call{Build: &libpod.Build{Containerfile: b.Containerfile, ContextDir: b.ContextDir, Exclude: b.Exclude, Reference: b.Reference, Args: b.Args}}, nil, out)
	if ctx.Err() != nil {
		return oci.Pin{}, ctx.Err()
	}
	if err != nil {
		if text := strings.TrimSpace(said.String()); b.Output == nil && text != "" {
			err = fmt.Errorf("%w: %s", err, text)
		}
		return oci.Pin{}, buildFault(b.Reference, err)
	}
	image, err := h.Image(ctx, id)
	image.Pin.Reference = b.Reference
	return image.Pin, err
}

// buildFault tells a build that failed from a host that could not build.
func buildFault(name string, err error) error {
	f := &Fault{Tried: "build the image", On: name, Why: saidByPodman(err)}
	var answered *libpod.Error
	switch {
	case strings.Contains(err.Error(), unix.ENOSPC.Error()):
		f.Why, f.Do = fmt.Errorf("%w: %w", ErrNoSpace, f.Why), "make room where Podman's store lies"
	case !errors.As(err, &answered) || answered.Lost:
		f.Do = "build again; check that `podman info` works for this user"
	default:
		f.Why = fmt.Errorf("%w: %w", ErrBuild, f.Why)
		f.Do = "correct the Containerfile; what it builds on must be in Podman's store: podgrade images ls"
	}
	return f
}
