package isolation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"podgrade/isolation/hostfacts"
	"podgrade/isolation/tree"
	"podgrade/isolation/worker"
	"podgrade/oci"
)

// privilege is what an ordinary user and root do otherwise. The worker has a
// user namespace of its own under both, in which it is root and the caller's
// files are its own; how that comes to be is the difference.
type privilege interface {
	// scratch completes the directory of podgrade's own data; "": the default.
	scratch(asked string) (string, error)
	// makeScratch makes it, where the worker can reach it.
	makeScratch(dir string) error
	// checkScratch finds out what makeScratch would refuse, and makes nothing.
	checkScratch(dir string) error
	// prepare makes what is needed in the directory of a Host.
	prepare(run string) error
	// own gives what podgrade made in there to the worker's root.
	own(paths ...string) error
	// worker says how the worker's program is started: its first stage, what it
	// gets at worker.GoDescriptor, and the attributes of the process.
	worker(program string) (start, error)
	// mapped sees to it that the started worker has its ids.
	mapped(ctx context.Context, pid int) error
	// podman runs Podman, or what works as it, on the caller's own store.
	podman(ctx context.Context, h *Host, argv []string, stdin *os.File, stdout, stderr io.Writer) (int, error)
	// image gives the cell its image, which is held from then on.
	image(ctx context.Context, c *cell, root *worker.Root) ([]*os.File, error)
	// missing names a layer of the cell's image that is gone and that the worker
	// knows nothing of; "": none is.
	missing(c *cell) string
	// source opens a directory of the caller's for a view of it.
	source(v *worker.View) ([]*os.File, error)
	// target opens the caller's own empty directory for what a cell leaves.
	target(v *worker.View) (*os.File, error)
	// takeBack gives the caller what the cell of the owner left in a directory.
	takeBack(ctx context.Context, h *Host, dir *os.File, owner tree.Owner) (worker.Reply, error)
	// check refuses what only the other one may do.
	check(engine string) error
	// ids are the ids of this host that those of cells are, for the record; nil:
	// the caller's own and its subordinate ones.
	ids() *oci.HostIDs
	// describe says what the doctor must know of it, and tryMounts whether a
	// directory can be shown as cells need it.
	describe(f *hostfacts.Facts)
	tryMounts(dir string, f *hostfacts.Facts)
	// groups are the control groups in which limits of cells are enforced; nil with
	// the reason where there are none.
	groups() (*groups, string)
	// forgetGroups removes those that a dead run left and no new podgrade meets.
	forgetGroups(run string)
	// scope starts a program in a control group of its own.
	scope() string
	// close lets go of what was made for one Host.
	close()
}

// start is how the worker starts.
type start struct {
	path, stage string
	last        *os.File // at worker.GoDescriptor; nil: the pipe on which StageWait waits
	attributes  *syscall.SysProcAttr
}

// newPrivilege is the privilege of this process, for one Host.
func newPrivilege(o Options) (privilege, error) {
	if os.Geteuid() == 0 {
		return newRealRoot(o)
	}
	return ordinary{}, nil
}

// ordinary is a user without privileges: cells are rootless. The worker's root
// is the caller, its other ids are the caller's subordinate ones.
type ordinary struct{}

func (ordinary) scratch(asked string) (string, error) {
	if asked == "" {
		return DefaultScratch()
	}
	return filepath.Abs(asked)
}

func (ordinary) makeScratch(dir string) error { return os.MkdirAll(dir, 0o700) }

func (ordinary) checkScratch(string) error { return nil }

func (ordinary) prepare(string) error { return nil }

func (ordinary) own(...string) error { return nil }

func (ordinary) worker(program string) (start, error) {
	return start{path: program, stage: worker.StageWait, attributes: &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}}, nil
}

func (ordinary) mapped(ctx context.Context, pid int) error { return writeMaps(ctx, pid) }

func (ordinary) podman(ctx context.Context, h *Host, argv []string, stdin *os.File, stdout, stderr io.Writer) (int, error) {
	if argv[0] == h.podman {
		argv = insideArgs(argv)
	}
	return h.execInside(ctx, argv, h.podmanEnv(), stdin, stdout, stderr)
}

// cgroupManager is an option that a Podman has, and a mere client of one has not.
const cgroupManager = "--cgroup-manager"

// insideArgs are the arguments of Podman inside the worker's namespaces. The
// user's systemd, which Podman asks for control groups where there is one, would
// take the process numbers of those namespaces for its own.
func insideArgs(argv []string) []string {
	return slices.Insert(slices.Clone(argv), 1, cgroupManager+"=cgroupfs")
}

func (ordinary) image(context.Context, *cell, *worker.Root) ([]*os.File, error) { return nil, nil }

func (ordinary) missing(*cell) string { return "" }

func (ordinary) source(v *worker.View) ([]*os.File, error) {
	dir, err := openPath(v.Source)
	return []*os.File{dir}, err
}

func (ordinary) target(v *worker.View) (*os.File, error) { return openPath(v.Source) }

func (ordinary) takeBack(ctx context.Context, h *Host, dir *os.File, owner tree.Owner) (worker.Reply, error) {
	return h.worker.do(ctx, worker.Request{Op: worker.OpBack, Owner: &owner}, dir)
}

func (ordinary) check(string) error { return nil }

func (ordinary) ids() *oci.HostIDs { return nil }

func (ordinary) describe(*hostfacts.Facts) {}

func (ordinary) tryMounts(string, *hostfacts.Facts) {}

func (ordinary) groups() (*groups, string) { return delegatedGroups() }

func (ordinary) forgetGroups(string) {}

func (ordinary) scope() string { return "systemd-run --user --scope -p Delegate=yes" }

func (ordinary) close() {}

// openPath opens a directory without reading it, which only its owner may do. The
// path was resolved when it was found to lie where it may: a link that has taken
// the place of one of its directories since then is not followed.
func openPath(path string) (*os.File, error) {
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_NO_SYMLINKS})
	switch {
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM): // a kernel, or a filter, without it
		fd, err = unix.Open(path, flags|unix.O_NOFOLLOW, 0)
	case errors.Is(err, unix.ELOOP):
		err = fmt.Errorf("a link has taken its place, or that of a directory above it: %w", err)
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}
