package isolation

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"podgrade/isolation/worker"
)

// Options say where podgrade finds and keeps things. The zero value is right
// for an installed podgrade.
type Options struct {
	Libexec string    // directory of podgrade-init and podgrade-worker; "": beside the program
	Scratch string    // "": DefaultScratch
	Log     io.Writer // what the worker has to say; nil: dropped
	Engine  string    // EngineAuto, EngineBundle or EnginePodman; "": EngineAuto
}

// Host is podgrade's place on this machine: its scratch directory, its worker,
// and through them Podman's image store and the cells. One a process.
type Host struct {
	options   Options
	privilege privilege
	run       *run
	runtime   Runtime
	// runtimeVersion asks once.
	runtimeVersion func() string
	podman         string

	worker   *workerClient
	patience time.Duration // with the worker: workerGrace
	process  *os.Process
	exited   chan struct{}
	stderr   *tail
	hello    worker.Hello

	groups   *groups // control groups for cells; nil: there are none
	noGroups string  // why there are none

	pulling sync.Mutex // held while an image is pulled
	mu      sync.Mutex
	cells   int
	open    map[*cell]bool
	service *service
	facts   map[string]*worker.RootFacts // of images, by id
	swept   chan struct{}

	lookups lookups // of images
	holders atomic.Int64
	filters *filters
}

// Runtime is the OCI runtime that starts cells.
type Runtime struct{ Path string }

// startGrace bounds the start of the worker. It takes milliseconds, but a host
// that somebody's fork bomb keeps busy gives it a hundredth of a processor.
const startGrace = 60 * time.Second

// Start makes the scratch directory of this process and starts the worker. It
// also begins to remove what dead podgrades left behind.
func Start(ctx context.Context, o Options) (*Host, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	h, err := newHost(o)
	if err != nil {
		return nil, err
	}
	if err := h.findPrograms(); err != nil {
		return nil, err
	}
	h.filters = newFilters(h.runtime.Path)
	if err := h.begin(ctx); err != nil {
		return nil, err
	}
	h.groups, h.noGroups = h.privilege.groups()
	go h.sweepDead()
	go h.runtimeVersion()
	return h, nil
}

// CheckHost finds the programs that Start needs, and whether its scratch can be used,
// and starts and makes nothing: what the host lacks need not fail once for each row.
func CheckHost(o Options) error {
	o, err := o.withDefaults()
	if err != nil {
		return err
	}
	h, err := newHost(o)
	if err != nil {
		return err
	}
	if err := h.findPrograms(); err != nil {
		return err
	}
	return checkScratch(o.Scratch, h.privilege)
}

// CheckPrivilege refuses an engine that the caller's privilege has none of.
func CheckPrivilege(engine string) error {
	p, err := newPrivilege(Options{})
	if err != nil {
		return err
	}
	return p.check(engine)
}

func newHost(o Options) (*Host, error) {
	p, err := newPrivilege(o)
	if err != nil {
		return nil, err
	}
	h := &Host{options: o, privilege: p, open: map[*cell]bool{}, exited: make(chan struct{}), stderr: &tail{max: 8 << 10}, swept: make(chan struct{}), filters: &filters{}, patience: workerGrace}
	h.runtimeVersion = sync.OnceValue(h.askRuntime)
	return h, nil
}

// askRuntime asks the OCI runtime for its version; "" when it does not say.
// Nothing waits for that before a cell is done.
func (h *Host) askRuntime() string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, h.runtime.Path, "--version").Output()
	first, _, _ := strings.Cut(string(out), "\n")
	const most = 100
	if err != nil || len(first) > most || !utf8.ValidString(first) {
		return ""
	}
	// "crun version 1.8.1"
	_, version, _ := strings.Cut(first, " version ")
	return strings.TrimSpace(version)
}

// runtimeName is the runtime as a record names it.
func (h *Host) runtimeName() string {
	return strings.TrimSpace(h.runtime.Path + " " + h.runtimeVersion())
}

// begin makes the run directory and starts the worker. Nothing is left when it
// fails.
func (h *Host) begin(ctx context.Context) (err error) {
	if h.run, err = newRun(h.options.Scratch, h.privilege); err != nil {
		return err
	}
	if err = errors.Join(h.privilege.prepare(h.run.dir), h.run.installInit(h.options.Libexec)); err == nil {
		ctx, cancel := context.WithTimeout(ctx, startGrace)
		defer cancel()
		err = h.startWorker(ctx)
	}
	if err != nil {
		h.endWorker()
		return errors.Join(err, h.run.remove())
	}
	return nil
}

func (o Options) withDefaults() (Options, error) {
	if o.Libexec == "" {
		dir, err := findLibexec()
		if err != nil {
			return o, err
		}
		o.Libexec = dir
	}
	return o.withScratch()
}

// ScratchDir is the scratch directory that the options come to; "" where nobody
// can say, which whoever starts something with them is told.
func (o Options) ScratchDir() string {
	whole, err := o.withScratch()
	if err != nil {
		return ""
	}
	return whole.Scratch
}

func (o Options) withScratch() (_ Options, err error) {
	p, err := newPrivilege(o)
	if err == nil {
		o.Scratch, err = p.scratch(o.Scratch)
	}
	return o, err
}

// findLibexec looks for podgrade's other programs: in ../libexec/podgrade of
// the program's own directory, then beside it.
func findLibexec() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", &Fault{Tried: "find podgrade's own programs", Why: err}
	}
	bin := filepath.Dir(self)
	places := []string{filepath.Join(filepath.Dir(bin), "libexec", "podgrade"), bin}
	for _, dir := range places {
		if _, err := os.Stat(filepath.Join(dir, initName)); err == nil {
			return dir, nil
		}
	}
	return "", &Fault{Tried: "find podgrade's own programs", On: "in " + strings.Join(places, " and "), Why: os.ErrNotExist,
		Do: "install podgrade with `make install`, or keep build/libexec beside build/bin"}
}

// checkInstall looks for each of podgrade's other programs, so that the doctor
// and what opens cells say the same of half an installation.
func checkInstall(libexec string) error {
	for _, name := range []string{initName, workerName, libpodName} {
		path := filepath.Join(libexec, name)
		info, err := os.Stat(path)
		if err == nil && (!info.Mode().IsRegular() || info.Mode()&0o111 == 0) {
			err = errors.New("it is no program")
		}
		if err != nil {
			return &Fault{Tried: "find podgrade's own program", On: path, Why: err, Do: "install podgrade with its libexec directory beside bin"}
		}
	}
	return nil
}

func (h *Host) findPrograms() error {
	if err := checkInstall(h.options.Libexec); err != nil {
		return err
	}
	podman, err := exec.LookPath("podman")
	if err != nil {
		return &Fault{Tried: "find Podman", Why: err, Do: "install it (Debian: apt-get install podman crun uidmap)"}
	}
	h.podman, h.lookups.kept = podman, newKeptLookups(podman)
	for _, name := range runtimes {
		if path, err := exec.LookPath(name); err == nil {
			h.runtime.Path = path
			return nil
		}
	}
	return &Fault{Tried: "find an OCI runtime", Why: errors.New("neither crun nor runc is in PATH"), Do: "install one (Debian: apt-get install crun)"}
}

// sweepDead removes what podgrades that were killed left behind.
func (h *Host) sweepDead() {
	defer close(h.swept)
	ctx, cancel := context.WithTimeout(context.Background(), sweepGrace)
	defer cancel()
	for _, dead := range deadRuns(h.options.Scratch) {
		// What cannot be removed stays for the next sweep; `podgrade gc` says why.
		h.sweepRun(ctx, dead)
		dead.lock.Close()
	}
}

// sweepRun removes what a dead run left: its containers, its directory,
// whoever owns what is in it, and the directory of its socket.
func (h *Host) sweepRun(ctx context.Context, dead *run) error {
	for _, dir := range socketDirs(dead.dir) {
		os.RemoveAll(dir)
	}
	// A run whose containers or workspaces stay is kept, for they are noted there.
	if err := h.sweepContainers(ctx, dead.dir); err != nil {
		return err
	}
	if err := h.takeBackAll(ctx, dead.dir); err != nil {
		return err
	}
	h.privilege.forgetGroups(dead.dir)
	if _, err := h.worker.do(ctx, worker.Request{Op: worker.OpSweep, Sweep: dead.dir}); err != nil {
		return err
	}
	return os.Remove(dead.dir)
}

// sweepGrace bounds how long the end of podgrade waits for clean-up; what is
// left then is removed by the next start.
const sweepGrace = 60 * time.Second

// Close ends every cell and the worker, and removes the scratch directory of
// this process.
func (h *Host) Close() error {
	h.mu.Lock()
	cells := make([]*cell, 0, len(h.open))
	for c := range h.open {
		cells = append(cells, c)
	}
	h.mu.Unlock()
	var errs []error
	for _, c := range cells {
		errs = append(errs, c.Close())
	}
	errs = append(errs, h.stopService())
	<-h.swept
	ctx, cancel := context.WithTimeout(context.Background(), sweepGrace)
	defer cancel()
	if !h.gone() {
		errs = append(errs, h.sweepContainers(ctx, h.run.dir))
	}
	for _, sub := range []string{"cells", "trash", "runtime"} {
		if _, err := h.worker.do(ctx, worker.Request{Op: worker.OpSweep, Sweep: filepath.Join(h.run.dir, sub)}); err != nil && !errors.Is(err, ErrClosed) {
			errs = append(errs, err)
		}
	}
	h.endWorker()
	if err := h.returnAll(ctx); err != nil {
		h.run.lock.Close() // the notes stay for the next start
		return errors.Join(append(errs, err)...)
	}
	if err := h.run.remove(); err != nil {
		errs = append(errs, &Fault{Tried: "remove the scratch directory", On: h.run.dir, Why: err, Do: "it is removed at the next start"})
	}
	return errors.Join(errs...)
}
