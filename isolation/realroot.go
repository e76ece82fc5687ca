package isolation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"podgrade/isolation/hostfacts"
	"podgrade/isolation/worker"
	"podgrade/oci"
)

// rootScratch is where the data of root lie: everybody may pass it, as the ids
// of cells must.
const rootScratch = "/var/lib/podgrade/scratch"

// realRoot is root of the host. Its cells are no root of the host: the worker's
// namespace has ids that are nobody's there, and podgrade gives it the image
// and the directories of the caller as mounts that show other owners than the
// disk has (idmapped ones). So the worker has no right that an ordinary user's
// has not.
type realRoot struct {
	given   oci.HostIDs // the ids of cells
	program string      // the worker's, for user namespaces

	mu     sync.Mutex
	spaces map[string]*os.File // user namespaces, by their maps
	mounts *mounts             // nil: none was needed yet
	images map[string]*heldImage
	made   int // images that were mounted
}

func newRealRoot(o Options) (*realRoot, error) {
	ids, err := rootIDs(os.Getenv(idsVariable), subuidFile, subgidFile)
	if err != nil {
		return nil, err
	}
	return &realRoot{given: ids, program: filepath.Join(o.Libexec, workerName), spaces: map[string]*os.File{}, images: map[string]*heldImage{}}, nil
}

func (r *realRoot) ids() *oci.HostIDs { return &r.given }

// scratch is a directory of its own for each choice of ids: what lies there
// belongs to them.
func (r *realRoot) scratch(asked string) (string, error) {
	if asked == "" {
		asked = rootScratch
	}
	dir, err := filepath.Abs(asked)
	name := fmt.Sprintf("ids-%d", r.given.Users)
	if r.given.Groups != r.given.Users {
		name += fmt.Sprintf("-%d", r.given.Groups)
	}
	if filepath.Base(dir) == name {
		return dir, err
	}
	return filepath.Join(dir, name), err
}

// makeScratch makes the directory for the worker's root, below directories that
// it may pass.
func (r *realRoot) makeScratch(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o711); err != nil {
		return err
	}
	if err := passable(dir); err != nil {
		return err
	}
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		return r.own(dir)
	}
	if !errors.Is(err, os.ErrExist) {
		return err
	}
	return r.ownScratch(dir)
}

func (r *realRoot) checkScratch(dir string) error {
	if err := passable(dir); err != nil {
		return err
	}
	if err := r.ownScratch(dir); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// passable refuses a scratch below a directory that the worker's root, who is
// nobody on this host, may not pass. What is not there yet is made so that he may.
func passable(scratch string) error {
	for parent := filepath.Dir(scratch); ; parent = filepath.Dir(parent) {
		info, err := os.Stat(parent)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err == nil && info.Mode()&0o001 == 0 {
			return &Fault{Kind: Refusal, Tried: "make the scratch directory", On: scratch,
				Why: fmt.Errorf("the ids of cells, which are no user's, may not pass %s", parent), Do: "choose a place with --scratch that everybody may pass, such as " + rootScratch}
		}
		if parent == filepath.Dir(parent) {
			return nil
		}
	}
}

// ownScratch refuses a directory that was not made for the worker's root.
func (r *realRoot) ownScratch(dir string) error {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Uid != r.given.Users || st.Mode&0o077 != 0 {
		return errors.New("it is no directory that podgrade made for these ids")
	}
	return nil
}

func (r *realRoot) own(paths ...string) error {
	var errs []error
	for _, path := range paths {
		errs = append(errs, os.Lchown(path, int(r.given.Users), int(r.given.Groups)))
	}
	return errors.Join(errs...)
}

// attributes are those of a process in a user namespace with these maps.
func attributes(users, groups []syscall.SysProcIDMap) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER, UidMappings: users, GidMappings: groups, GidMappingsEnableSetgroups: true,
	}
}

func one(inside, outside, size uint32) syscall.SysProcIDMap {
	return syscall.SysProcIDMap{ContainerID: int(inside), HostID: int(outside), Size: int(size)}
}

// worker starts the program by its descriptor: root's own directories may be
// closed to the worker's ids.
func (r *realRoot) worker(program string) (start, error) {
	file, err := os.OpenFile(program, unix.O_PATH, 0)
	if err != nil {
		return start{}, err
	}
	a := attributes([]syscall.SysProcIDMap{one(0, r.given.Users, r.given.Count)}, []syscall.SysProcIDMap{one(0, r.given.Groups, r.given.Count)})
	a.Credential = &syscall.Credential{}
	return start{path: fmt.Sprintf("/proc/self/fd/%d", worker.GoDescriptor), stage: worker.StageBegin, last: file, attributes: a}, nil
}

// mapped looks from outside whether the worker's namespace has these ids, and
// none else: root of the host is not among them.
func (r *realRoot) mapped(_ context.Context, pid int) error {
	for file, first := range map[string]uint32{"uid_map": r.given.Users, "gid_map": r.given.Groups} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
		if err != nil {
			return &Fault{Tried: "look at the ids of the worker", Why: err}
		}
		if got, want := strings.Join(strings.Fields(string(text)), " "), fmt.Sprintf("0 %d %d", first, r.given.Count); got != want {
			return &Fault{Tried: "look at the ids of the worker", Why: fmt.Errorf("its %s is %q, not %q", file, got, want)}
		}
	}
	return nil
}

// podman runs as root on root's own store, outside of the worker's namespaces.
// It ends with podgrade.
func (r *realRoot) podman(ctx context.Context, h *Host, argv []string, stdin *os.File, stdout, stderr io.Writer) (int, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = h.toolEnv(), "/", stdout, stderr
	if stdin != nil {
		cmd.Stdin = stdin
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = drainGrace
	err := cmd.Run()
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	var ended *exec.ExitError
	if errors.As(err, &ended) || errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	if err != nil {
		return 0, err
	}
	return cmd.ProcessState.ExitCode(), nil
}

// prepare makes the place for mounts in the run directory.
func (r *realRoot) prepare(run string) error {
	dir := filepath.Join(run, "mounts")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	var err error
	r.mounts, err = newMounts(dir)
	return err
}

func (r *realRoot) missing(c *cell) string {
	if c.held == nil {
		return ""
	}
	return c.held.layers.Missing()
}

// check refuses the engines that have no way for root yet.
func (r *realRoot) check(engine string) error {
	switch engine {
	case EngineHost:
		return &Fault{Kind: Refusal, Tried: "run a row on the host", Why: errors.New("podgrade runs as root, and so would every command of the row"),
			Do: "run it as the user who owns the rows, or in a cell"}
	case EnginePodman:
		return &Fault{Kind: Refusal, Tried: "make a cell with the Podman engine", Why: errors.New("podgrade runs as root, and that engine is for ordinary users"),
			Do: "use --engine bundle, or run it as an ordinary user"}
	}
	return nil
}

func (r *realRoot) describe(f *hostfacts.Facts) {
	f.Root = &hostfacts.Root{First: r.given.Users, Last: r.given.Users + r.given.Count - 1, From: r.given.From}
	if g := firstGroups(mountsFile, ownGroupFile); g != nil {
		f.Root.Controllers = g.controllers
	}
}

func (r *realRoot) tryMounts(dir string, f *hostfacts.Facts) {
	open, err := openPath(dir)
	if err == nil {
		defer open.Close()
		var mount *os.File
		if mount, err = r.readable(open); err == nil {
			err = mount.Close()
		}
	}
	if err != nil {
		f.Root.Mounts = cause(err)
	}
}

// groups are delegated ones where there are such, else those of version 1.
func (r *realRoot) groups() (*groups, string) {
	delegated, why := delegatedGroups()
	if delegated != nil {
		return delegated, ""
	}
	if first := firstGroups(mountsFile, ownGroupFile); first != nil {
		return first, ""
	}
	return nil, why
}

func (r *realRoot) forgetGroups(run string) {
	firstGroups(mountsFile, ownGroupFile).removeOf(filepath.Base(run))
}

func (r *realRoot) scope() string { return "systemd-run --scope -p Delegate=yes" }

func (r *realRoot) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, held := range r.images {
		held.layers.Close()
	}
	for _, space := range r.spaces {
		space.Close()
	}
	r.images, r.spaces = map[string]*heldImage{}, map[string]*os.File{}
	r.mounts.close()
	r.mounts = nil
}
