package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"podgrade/isolation/tree"
)

// cell is the worker's side of one cell.
type cell struct {
	name   string
	dir    string
	bundle string // what the runtime finds: the specification, where the root is mounted

	mu        sync.Mutex // one operation at a time
	layers    []layer
	views     []string          // directories that are mounted on themselves, with etc
	viewed    *viewed           // how the workspace is seen; nil: it is not
	disks     []disk            // that commands write to
	mounted   bool              // the root file system
	given     bool              // the image is mounted at imageDir
	theirs    string            // upper directory of a container of Podman
	create    bool              // an execute cell: what changes in the root is kept
	marks     tree.Marks        // what lay in its upper directory before a command ran
	programs  map[string]string // of the image, that were asked for; nil: nobody has looked yet
	made      int               // how often the root was made: again after a command ended the cell
	starts    int               // how often the runtime was started
	spec      *specs.Spec
	compiles  string // the seccomp profile whose filter the runtime compiles for it; "": none
	runtime   <-chan syscall.WaitStatus
	pid       int        // of the runtime
	adopted   *adopted   // a container of Podman
	forwarder *forwarder // of its network

	// first is its PID 1 as we number processes, from its measurement to its end; 0:
	// it is not measured. Measurements of other cells read it.
	first atomic.Int64
}

// Directories and files of a cell.
func (c *cell) rootfs() string          { return filepath.Join(c.bundle, fmt.Sprintf("root-%d", c.made)) }
func (c *cell) upper() string           { return c.numbered("upper") }
func (c *cell) overlayWork() string     { return c.numbered("overlay-work") }
func (c *cell) pidFile() string         { return filepath.Join(c.bundle, fmt.Sprintf("pid-%d", c.starts)) }
func (c *cell) viewDir(n string) string { return filepath.Join(c.dir, "view-"+n) }
func (c *cell) imageDir() string        { return filepath.Join(c.dir, "image") }
func (c *cell) specFile() string        { return filepath.Join(c.dir, "config.json") } // of a container of Podman

// container is the runtime's name for the cell as it was last started.
func (c *cell) container() string { return fmt.Sprintf("%s-%d", c.name, c.starts) }

func (c *cell) numbered(name string) string {
	return filepath.Join(c.dir, fmt.Sprintf("%s-%d", name, c.made))
}

// plainName keeps a name from being a path or an option.
var plainName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)

func (s *server) cell(name string) (*cell, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.cells[name]; c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("there is no cell %q", name)
}

// cellOrNew makes the cell when there is none of this name yet.
func (s *server) cellOrNew(name string) (*cell, error) {
	if !plainName.MatchString(name) {
		return nil, fmt.Errorf("%q cannot be the name of a cell", name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.cells[name]
	if c == nil {
		c = &cell{name: name, dir: cellDir(s.settings.Run, name), bundle: bundleDir(s.settings.Run, name)}
		// The host may have made it already, for the cell's /etc files.
		err := os.Mkdir(c.dir, 0o700)
		if errors.Is(err, os.ErrExist) {
			err = nil
		}
		if err := errors.Join(err, os.Mkdir(c.bundle, 0o700)); err != nil {
			return nil, fmt.Errorf("make the cell's directory: %w", err)
		}
		s.cells[name] = c
	}
	return c, nil
}

// root mounts a cell's root file system.
func (s *server) root(ctx context.Context, r Request, files []int, answer *Reply) error {
	c, err := s.cellOrNew(r.Cell)
	if err != nil {
		return err
	}
	if r.Root == nil || r.Root.Given != (len(files) == 1) {
		return errors.New("a root file system needs layers, or one descriptor")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.mounted && c.runs():
		return fmt.Errorf("cell %s has its root file system already", c.name)
	case c.mounted: // held for a cell that is made again
		if missing := c.missingLayer(); missing != "" {
			return &fault{err: fmt.Errorf("the image's layer %s was removed meanwhile", missing), image: true}
		}
	default:
		c.create = r.Root.Create
		if r.Root.Given {
			if err := c.takeImage(r.Root, files[0]); err != nil {
				return err
			}
		}
		if err := c.mountRoot(ctx, *r.Root); err != nil {
			return err
		}
		if r.Root.State != "" {
			if err := c.freePlaces(); err != nil {
				return err
			}
		}
	}
	answer.Rootfs, err = c.facts(r, r.Root.State != "")
	return err
}

// facts are those of the root file system. Who the image's user is, the image
// alone says: a state layer may have other users.
func (c *cell) facts(r Request, state bool) (*RootFacts, error) {
	facts, err := factsOf(c.rootfs())
	if err != nil {
		return nil, err
	}
	look := func(image int) error {
		if state {
			facts.Passwd, facts.Group = readInRoot(image, "etc/passwd"), readInRoot(image, "etc/group")
		}
		if c.programs == nil {
			c.programs = programsInRoot(image, r.SearchPath, r.Programs)
		}
		return nil
	}
	switch {
	case state:
		err = c.withLower(look)
	case c.programs == nil: // nothing has been run in it yet
		err = inDirectory(c.rootfs(), look)
	}
	facts.Programs = c.programs
	return facts, err
}

// inDirectory calls f with an open directory.
func inDirectory(dir string, f func(fd int) error) error {
	fd, err := openDirectory(dir)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return f(fd)
}

func (c *cell) mountRoot(ctx context.Context, r Root) error {
	layers := r.Layers
	if len(layers) == 0 {
		return &fault{err: errors.New("the image has no layers"), image: true}
	}
	c.made++ // a volatile upper directory cannot be mounted twice
	for _, dir := range []string{c.rootfs(), c.upper(), c.overlayWork()} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return fmt.Errorf("make the cell's directory: %w", err)
		}
	}
	if err := c.holdLayers(ctx, r); err != nil {
		return err
	}
	if err := likeLower(c.upper(), c.layers[0].dir, r.State != ""); err != nil {
		return err
	}
	layers = layerDirs(c.layers)
	if err := mountOverlay(c.rootfs(), layers, c.upper(), c.overlayWork()); err != nil {
		return fmt.Errorf("mount the image's %d layers as an overlay: %w", len(layers), err)
	}
	c.mounted = true
	return nil
}

// holdLayers opens the layers, once for all times that the cell is made: what a
// cell that is made again stands on must be what it first stood on.
func (c *cell) holdLayers(ctx context.Context, r Root) error {
	if c.layers == nil {
		opened, err := openLayers(ctx, r.State, c.numbered("filled"), r.Layers, r.Given)
		c.layers = opened
		return err
	}
	if missing := c.missingLayer(); missing != "" {
		return &fault{err: fmt.Errorf("the image's layer %s was removed meanwhile", missing), image: true}
	}
	return nil
}

// likeLower gives the upper directory, which is what the cell sees as /, the
// times of the image's root and the mode that Docker gives it: Podman's store
// keeps 0555, where root without CAP_DAC_OVERRIDE could make nothing.
//
// A state layer's root is what the cell before it saw as /, and is not changed,
// but that everybody may pass: an agent that closed / would keep the grade's
// cell from starting, and get no verdict.
func likeLower(upper, lower string, state bool) error {
	var st unix.Stat_t
	if err := unix.Stat(lower, &st); err != nil {
		return &fault{err: fmt.Errorf("look at the image's root: %w", err), image: true}
	}
	mode := uint32(0o755)
	if state {
		mode = st.Mode&0o7777 | 0o111
		if err := os.Chown(upper, int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	if err := unix.Chmod(upper, mode); err != nil {
		return err
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, upper, []unix.Timespec{st.Atim, st.Mtim}, 0)
}

// isOurs tells errors of our own side (a full disk above all) from those of
// the tree.
func isOurs(err error) bool {
	return isFullDisk(err) || errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

// isFullDisk tells a disk, or the caller's quota of it, that has no room.
func isFullDisk(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// EtcFiles are the files that a cell gets in /etc.
var EtcFiles = []string{"hosts", "hostname", "resolv.conf"}

// EtcDir is where the host puts them.
func EtcDir(run, name string) string { return filepath.Join(cellDir(run, name), "etc") }

// bindEtc restricts the mount that the cell's /etc files lie on: what is bound
// from it inherits that.
func (c *cell) bindEtc() error {
	dir := filepath.Join(c.dir, "etc")
	if slices.Contains(c.views, dir) {
		return nil
	}
	if err := bind(dir); err != nil {
		return err
	}
	c.views = append(c.views, dir)
	return nil
}

// startCell writes the specification and starts the runtime on it.
func (s *server) startCell(ctx context.Context, c *cell, r Request, files []int) error {
	if len(files) < 3 || len(files) > 4 && !r.Enter || !c.mounted || c.runtime != nil {
		return fmt.Errorf("cell %s cannot be started: it needs a root file system, three descriptors, and not to run", c.name)
	}
	group, doors := noGroup, files[3:]
	if len(doors) == 1 && !r.Enter {
		group, doors = doors[0], nil
	}
	if err := c.readSpec(r.Spec); err != nil {
		return err
	}
	if err := c.bindEtc(); err != nil {
		return err
	}
	if err := c.giveHosts(ctx); err != nil {
		return fmt.Errorf("give the cell the /etc/hosts of its state layer: %w", err)
	}
	bare, spec, err := c.withoutResources(r.Spec)
	compiled := false
	if err == nil {
		spec, compiled, err = s.filter.use(spec, bare, r.Profile, r.Filter)
	}
	if err != nil {
		return err
	}
	if c.compiles = ""; !compiled {
		c.compiles = r.Profile
	}
	if err := os.WriteFile(filepath.Join(c.bundle, "config.json"), spec, 0o600); err != nil {
		return fmt.Errorf("write the specification: %w", err)
	}
	c.starts++
	argv := append(runtimeArgs(s.settings), "run", "--bundle", c.bundle, "--pid-file", c.pidFile(), c.container())
	if len(doors) > 0 {
		argv = append([]string{"/proc/self/exe", StageJoin, strconv.Itoa(len(doors))}, argv...)
	}
	pid, ended, err := s.children.startIn(group, argv, runtimeEnv(s.settings), c.dir, [3]int(files[:3]), doors...)
	if err != nil {
		return fmt.Errorf("start %s: %w", argv[0], err)
	}
	c.pid, c.runtime = pid, ended
	return nil
}

func runtimeArgs(s Settings) []string {
	argv := []string{s.Runtime, "--root", runtimeStateDir(s.Run)}
	if IsCrun(s.Runtime) {
		// No cgroup of its own: nothing is enforced through one here, and the
		// hybrid layout would be refused.
		argv = append(argv, "--cgroup-manager=disabled")
	}
	return argv
}

// IsCrun tells crun from runc by its name.
func IsCrun(runtime string) bool { return strings.HasPrefix(filepath.Base(runtime), "crun") }

// toolPath is where programs that the worker starts find others.
const toolPath = "PATH=/usr/sbin:/usr/bin:/sbin:/bin"

// runtimeEnv is the environment of a runtime. Without the second variable crun
// makes a file in /tmp before each cell, which stays there when it is killed.
func runtimeEnv(s Settings) []string {
	return []string{toolPath, "_LIBCONTAINER_STATEDIR=" + tempDir(s.Run)}
}

// finish ends the cell: when Kill is set by ending its PID 1, else because the
// host closed the channel and the supervisor leaves by itself. Then it takes
// the mounts away; the views, and the hold on the layers, stay when Keep is set,
// and the root file system with what is in it when Hold is.
func (s *server) finish(c *cell, r Request, answer *Reply) error {
	end := End{Code: -1}
	c.first.Store(0)
	c.disconnect()
	if c.runtime != nil {
		code, err := c.await(r.Kill, &end)
		if err != nil {
			return err
		}
		end.Code = code
	}
	if c.adopted != nil {
		if err := c.release(r.Kill, &end); err != nil {
			return err
		}
	}
	answer.End = &end
	return c.unmount(r.Keep, r.Hold)
}

// endGrace is how long a supervisor may take to leave after its channel closed.
const endGrace = 3 * time.Second

func (c *cell) await(kill bool, end *End) (int, error) {
	if kill {
		end.Killed = true
		c.kill()
	}
	select {
	case status := <-c.runtime:
		c.runtime = nil
		return exitCode(status), nil
	case <-time.After(endGrace):
	}
	end.Killed = true
	c.kill()
	syscall.Kill(-c.pid, syscall.SIGKILL) // the runtime itself hangs
	select {
	case status := <-c.runtime:
		c.runtime = nil
		return exitCode(status), nil
	case <-time.After(endGrace):
		return 0, fmt.Errorf("cell %s does not end", c.name)
	}
}

// kill ends PID 1 of the cell, and with it the kernel ends the rest. The number
// in the runtime's file may have been given again to somebody else since: what
// is ended is a child of the runtime, or of ours when the runtime is gone.
func (c *cell) kill() {
	pid, err := c.initPID()
	if err != nil {
		return
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	// Only now: as long as the parent is that one, so is the process.
	if parent := parentOf(pid); parent == c.pid || parent == os.Getpid() {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}

// parentOf is the parent of a process; 0 when it is gone.
func parentOf(pid int) int {
	p, _ := processOf(pid)
	return p.parent
}

// pidPatience is how long the runtime may take to say which process it started.
const pidPatience = 10 * time.Second

// awaitInitPID is initPID for a cell whose first process runs: crun writes
// down its number only after it has let it go.
func (c *cell) awaitInitPID() (int, error) {
	for deadline := time.Now().Add(pidPatience); ; time.Sleep(time.Millisecond) {
		pid, err := c.initPID()
		if err == nil || len(c.runtime) > 0 || time.Now().After(deadline) {
			return pid, err
		}
	}
}

// initPID is PID 1 of the cell as we number processes.
func (c *cell) initPID() (int, error) {
	if c.adopted != nil {
		return c.adopted.pid, nil
	}
	text, err := os.ReadFile(c.pidFile())
	if err != nil {
		return 0, fmt.Errorf("find the cell's first process: %w", err)
	}
	var pid int
	if _, err := fmt.Sscan(string(text), &pid); err != nil || pid <= 1 {
		return 0, fmt.Errorf("find the cell's first process: %q is no process number", text)
	}
	return pid, nil
}

func (c *cell) unmount(keepViews, holdRoot bool) error {
	var errs []error
	if c.mounted && !holdRoot {
		errs = append(errs, unix.Unmount(c.rootfs(), unix.MNT_DETACH))
		c.mounted = false
	}
	if !keepViews {
		for _, dir := range c.views {
			errs = append(errs, unix.Unmount(dir, unix.MNT_DETACH))
		}
		c.views = nil
		closeLayers(c.layers)
		c.layers = nil
		if c.given {
			errs = append(errs, unix.Unmount(c.imageDir(), unix.MNT_DETACH))
			c.given = false
		}
	}
	return errors.Join(errs...)
}

// discard moves the cell's directory out of the way; it is removed in the
// background.
func (s *server) discard(c *cell) error {
	if c.mounted || c.runs() {
		return fmt.Errorf("cell %s is still in use", c.name)
	}
	s.mu.Lock()
	delete(s.cells, c.name)
	s.mu.Unlock()
	return errors.Join(os.RemoveAll(c.bundle), s.trash.throw(c.dir))
}
