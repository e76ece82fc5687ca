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
	"podgrade/isolation/tree"
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

// heldImage is an image that is mounted for cells.
type heldImage struct {
	name   string // of its mount
	layers worker.Layers
}

func newRealRoot(o Options) (*realRoot, error) {
	ids, err := rootIDs(os.Getenv(idsVariable), "/etc/subuid", "/etc/subgid")
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
	for parent := filepath.Dir(dir); ; parent = filepath.Dir(parent) {
		info, err := os.Stat(parent)
		if err != nil {
			return err
		}
		if info.Mode()&0o001 == 0 {
			return &Fault{Kind: Refusal, Tried: "make the scratch directory", On: dir,
				Why: fmt.Errorf("the ids of cells, which are no user's, may not pass %s", parent), Do: "choose a place with --scratch that everybody may pass, such as " + rootScratch}
		}
		if parent == filepath.Dir(parent) {
			break
		}
	}
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		return r.own(dir)
	}
	if !errors.Is(err, os.ErrExist) {
		return err
	}
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
func (r *realRoot) podman(ctx context.Context, _ *Host, argv []string, stdin *os.File, stdout, stderr io.Writer) (int, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = hostEnv(), "/", stdout, stderr
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

// image mounts the image once, and gives each cell a mount of its own of it.
func (r *realRoot) image(_ context.Context, c *cell, root *worker.Root) ([]*os.File, error) {
	held, err := r.hold(c, root.Layers)
	if err != nil {
		return nil, err
	}
	mount, err := r.mounts.copyOf(held.name)
	if err != nil {
		return nil, err
	}
	root.Given, root.Layers = true, nil
	c.held = held
	return []*os.File{mount}, nil
}

// hold mounts the image, where no other cell had it mounted. A cell that is made
// again stands on what it first stood on.
func (r *realRoot) hold(c *cell, layers []string) (*heldImage, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := strings.Join(layers, "\x00")
	held := r.images[key]
	if c.held != nil {
		held = c.held
	}
	if held != nil {
		missing := held.layers.Missing()
		if missing == "" {
			return held, nil
		}
		if c.held != nil {
			return nil, fmt.Errorf("%w: its layer %s was removed meanwhile", ErrNoImage, missing)
		}
		delete(r.images, key) // an image of the same layers was made anew
	}
	held, err := r.mount(layers)
	if err == nil {
		r.images[key] = held
	}
	return held, err
}

// mount mounts an image. r.mu is held.
func (r *realRoot) mount(layers []string) (*heldImage, error) {
	opened, err := worker.OpenLayers(layers)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoImage, err)
	}
	ids, err := r.space([]syscall.SysProcIDMap{one(0, r.given.Users, r.given.Count)}, []syscall.SysProcIDMap{one(0, r.given.Groups, r.given.Count)})
	if err == nil && r.mounts == nil {
		err = errors.New("there is no place for mounts")
	}
	if err != nil {
		opened.Close()
		return nil, err
	}
	r.made++
	held := &heldImage{name: fmt.Sprintf("image-%d", r.made), layers: opened}
	if err := r.mounts.image(held.name, layers, ids); err != nil {
		r.mounts.forget(held.name)
		opened.Close()
		return nil, r.mountFault(err)
	}
	return held, nil
}

// mountFault explains why there is no mount with other ids.
func (r *realRoot) mountFault(err error) error {
	f := &Fault{Tried: "show a directory with other owners", Why: err, Do: "run podgrade as an ordinary user, who needs no such mounts"}
	switch {
	case errors.Is(err, unix.EINVAL):
		f.Do = "keep images and rows on ext4, xfs, btrfs or tmpfs, with a kernel of 6.3 or later; or run podgrade as an ordinary user, who needs no such mounts"
	case errors.Is(err, unix.EPERM):
		f.Do = "run podgrade as root of the host, not of a container; or as an ordinary user, who needs no such mounts"
	}
	return f
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

// space is a user namespace with these maps. r.mu is held.
func (r *realRoot) space(users, groups []syscall.SysProcIDMap) (*os.File, error) {
	key := fmt.Sprint(users, groups)
	if known := r.spaces[key]; known != nil {
		return known, nil
	}
	file, err := r.makeSpace(users, groups)
	if err != nil {
		return nil, &Fault{Tried: "make a user namespace", Why: err, Do: "see what `podgrade doctor` says"}
	}
	r.spaces[key] = file
	return file, nil
}

// makeSpace starts a process that only waits, and keeps its namespace.
func (r *realRoot) makeSpace(users, groups []syscall.SysProcIDMap) (*os.File, error) {
	waits, goOn, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer waits.Close()
	defer goOn.Close()
	a := attributes(users, groups)
	a.Pdeathsig = syscall.SIGKILL
	process, err := os.StartProcess(r.program, []string{workerName, worker.StageWait}, &os.ProcAttr{
		Env: []string{}, Files: []*os.File{nil, nil, nil, waits}, Sys: a,
	})
	if err != nil {
		return nil, err
	}
	defer process.Wait()
	defer process.Kill()
	return os.Open(fmt.Sprintf("/proc/%d/ns/user", process.Pid))
}

// ownerMaps are the maps of a directory of the owner's: what is the owner's on
// the disk is as in the cell; what the cell's other ids have, they keep.
func (r *realRoot) ownerMaps(owner, as tree.Owner) (users, groups []syscall.SysProcIDMap) {
	return ownerMap(owner.UID, as.UID, r.given.Users, r.given.Count), ownerMap(owner.GID, as.GID, r.given.Groups, r.given.Count)
}

func ownerMap(owner, as, first, count uint32) []syscall.SysProcIDMap {
	if owner >= first && owner-first < count {
		return []syscall.SysProcIDMap{one(first, first, count)} // a cell's already
	}
	maps := []syscall.SysProcIDMap{one(owner, first+as, 1)}
	if as > 0 {
		maps = append(maps, one(first, first, as))
	}
	if rest := count - as - 1; as < count && rest > 0 {
		maps = append(maps, one(first+as+1, first+as+1, rest))
	}
	return maps
}

// source gives a mount in which the owner's files are the worker's root's, and
// where the view is one that is mounted, one in which they are the image
// user's. Only the latter of a view that is to change the tree can be written.
func (r *realRoot) source(v *worker.View) ([]*os.File, error) {
	dir, err := openPath(v.Source)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if err := bindable(v, dir); err != nil {
		return nil, err
	}
	v.Given = true
	read, err := r.readable(dir)
	if err != nil {
		return nil, r.mountFault(err)
	}
	var writable uint64 = unix.MOUNT_ATTR_RDONLY
	if v.Kind == worker.ViewBind {
		writable = 0
	}
	if v.Options.Give == (tree.Owner{}) && writable != 0 {
		return []*os.File{read}, nil
	}
	shown, err := r.copyWith(dir, v.Options.Give, writable)
	if err != nil {
		read.Close()
		return nil, r.mountFault(err)
	}
	return []*os.File{read, shown}, nil
}

// bindable refuses to let a cell write into root's own directory: what it makes
// there would be root's, a set-user-id program too.
func bindable(v *worker.View, dir *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil || v.Kind != worker.ViewBind || st.Uid != 0 {
		return err
	}
	return &Fault{Kind: Refusal, Tried: "bind the workspace", On: v.Source, Why: errors.New("it is root's, and so would be every program that a command makes in it"),
		Do: "use another --workspace-view: auto, copy or overlay"}
}

// readable is a mount of the directory in which the owner is the worker's root,
// to be read only.
func (r *realRoot) readable(dir *os.File) (*os.File, error) {
	return r.copyWith(dir, tree.Owner{}, unix.MOUNT_ATTR_RDONLY)
}

// copyWith is a mount of its own of the directory, in which its owner is another
// user of the cell.
func (r *realRoot) copyWith(dir *os.File, as tree.Owner, attributes uint64) (*os.File, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return nil, err
	}
	r.mu.Lock()
	ids, err := r.space(r.ownerMaps(tree.Owner{UID: st.Uid, GID: st.Gid}, as))
	r.mu.Unlock()
	if err != nil {
		return nil, err
	}
	file, err := cloneTree(dir)
	if err != nil {
		return nil, err
	}
	if err := mapIDs(int(file.Fd()), ids, attributes); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// target gives root's empty directory to the worker's root, as the mount of its
// own that it is shown by.
func (r *realRoot) target(v *worker.View) (*os.File, error) {
	v.Given = true
	dir, err := openPath(v.Source)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return nil, err
	}
	if int(st.Uid) != os.Geteuid() && st.Uid != r.given.Users {
		return nil, errors.New("it belongs to somebody else than the caller")
	}
	entries, err := os.ReadDir(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()))
	if err == nil && len(entries) > 0 {
		err = errors.New("it is not empty")
	}
	if err == nil {
		err = unix.Fchownat(int(dir.Fd()), "", int(r.given.Users), int(r.given.Groups), unix.AT_EMPTY_PATH)
	}
	if err != nil {
		return nil, err
	}
	return cloneTree(dir)
}

// cloneTree is a mount of its own of a directory.
func cloneTree(dir *os.File) (*os.File, error) {
	fd, err := unix.OpenTree(int(dir.Fd()), "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), dir.Name()), nil
}

// takeBack gives root what the cell's ids have, and then has the worker look at
// it as a grade will see it. No process of the cell is left.
//
// A tree with a set-user-id file, or one with capabilities, stays with the first
// of the cell's ids, who is nobody: as root's, the file would make whoever can
// start it root, and without its bit it would not be what the agent left.
func (r *realRoot) takeBack(ctx context.Context, h *Host, dir *os.File, owner tree.Owner) (worker.Reply, error) {
	nobody := tree.Owner{UID: r.given.Users, GID: r.given.Groups}
	user := tree.Owner{UID: nobody.UID + owner.UID, GID: nobody.GID + owner.GID}
	returned, err := tree.GiveBack(ctx, int(dir.Fd()), tree.Return{From: user, Root: nobody, To: nobody, Arms: true})
	if err == nil && returned.Armed == 0 {
		root := tree.Owner{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
		_, err = tree.GiveBack(ctx, int(dir.Fd()), tree.Return{From: nobody, Root: nobody, To: root, Disarm: true})
	}
	if err != nil {
		return worker.Reply{}, err
	}
	shown, err := r.readable(dir)
	if err != nil {
		return worker.Reply{}, r.mountFault(err)
	}
	defer shown.Close()
	reply, err := h.worker.do(ctx, worker.Request{Op: worker.OpSurvey}, shown)
	reply.Returned = &returned
	return reply, err
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
