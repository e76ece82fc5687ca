package isolation

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// mounts makes mounts in a mount namespace of podgrade's own, which nobody else
// sees. That namespace is one thread's, and goes with podgrade.
type mounts struct {
	dir   string
	calls chan<- func()
}

// mountThread is that thread, of which a process has one. It never ends: with a
// thread end the processes that were started on it while it was any thread.
var mountThread = sync.OnceValues(func() (chan<- func(), error) {
	calls, ready := make(chan func()), make(chan error)
	go serveMounts(calls, ready)
	return calls, <-ready
})

// serveMounts makes the calls on a thread that nothing else runs on afterwards.
// It must not be the first thread, whose namespace the whole process is said to
// have.
func serveMounts(calls <-chan func(), ready chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == os.Getpid() {
		done := make(chan error)
		go serveMounts(calls, done)
		ready <- <-done
		runtime.UnlockOSThread()
		return
	}
	err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS)
	if err == nil {
		err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, "") // ours appear nowhere else
	}
	ready <- err
	for call := range calls {
		call()
	}
}

// newMounts makes a place for mounts in dir, an empty directory.
func newMounts(dir string) (*mounts, error) {
	calls, err := mountThread()
	m := &mounts{dir: dir, calls: calls}
	if err == nil {
		err = m.do(func() error {
			return unix.Mount("none", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0700")
		})
	}
	if err != nil {
		return nil, fmt.Errorf("make mounts of podgrade's own: %w", err)
	}
	return m, nil
}

// do makes a call in the namespace and waits for it.
func (m *mounts) do(call func() error) error {
	done := make(chan error)
	m.calls <- func() { done <- call() }
	return <-done
}

// close takes all of them away.
func (m *mounts) close() {
	if m != nil {
		m.do(func() error { return unix.Unmount(m.dir, unix.MNT_DETACH) })
	}
}

// image mounts the layers of an image, top first, under the name and read-only:
// each with the ids of the user namespace, and above them an overlay, of which
// only root of the host sees all that Podman's store has written down
// (trusted.overlay.*).
func (m *mounts) image(name string, layers []string, ids *os.File) error {
	return m.do(func() error {
		dir := filepath.Join(m.dir, name)
		if err := errors.Join(os.Mkdir(dir, 0o700), os.Mkdir(filepath.Join(dir, imageRoot), 0o700)); err != nil {
			return err
		}
		if len(layers) == 1 {
			return mountMapped(layers[0], filepath.Join(dir, imageRoot), ids)
		}
		lowers := make([]string, len(layers))
		for i, layer := range layers {
			lowers[i] = strconv.Itoa(i)
			target := filepath.Join(dir, lowers[i])
			if err := os.Mkdir(target, 0o700); err != nil {
				return err
			}
			if err := mountMapped(layer, target, ids); err != nil {
				return err
			}
		}
		// The options of a mount are one page: short names count from here.
		if err := unix.Chdir(dir); err != nil {
			return err
		}
		defer unix.Chdir("/")
		return unix.Mount("overlay", imageRoot, "overlay", unix.MS_RDONLY|unix.MS_NODEV, "lowerdir="+strings.Join(lowers, ":"))
	})
}

// imageRoot is the directory of an image's root.
const imageRoot = "root"

// copyOf is a mount of its own of what image mounted, for somebody else's
// namespace.
func (m *mounts) copyOf(name string) (copied *os.File, err error) {
	err = m.do(func() error {
		fd, err := unix.OpenTree(unix.AT_FDCWD, filepath.Join(m.dir, name, imageRoot), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err == nil {
			copied = os.NewFile(uintptr(fd), name)
		}
		return err
	})
	return copied, err
}

// forget takes an image's mounts away.
func (m *mounts) forget(name string) {
	m.do(func() error {
		dir := filepath.Join(m.dir, name)
		entries, err := os.ReadDir(dir)
		for _, e := range entries {
			unix.Unmount(filepath.Join(dir, e.Name()), unix.MNT_DETACH)
		}
		return errors.Join(err, os.RemoveAll(dir))
	})
}

// mountMapped mounts a layer with the ids of a user namespace.
func mountMapped(layer, target string, ids *os.File) error {
	fd, err := unix.OpenTree(unix.AT_FDCWD, layer, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("open %s: %w", layer, err)
	}
	defer unix.Close(fd)
	if err := mapIDs(fd, ids, unix.MOUNT_ATTR_RDONLY); err != nil {
		return fmt.Errorf("mount %s with other ids: %w", layer, err)
	}
	return unix.MoveMount(fd, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// mapIDs gives a mount of its own the ids of a user namespace.
func mapIDs(mount int, ids *os.File, attributes uint64) error {
	return unix.MountSetattr(mount, "", unix.AT_EMPTY_PATH, &unix.MountAttr{
		Attr_set:  unix.MOUNT_ATTR_IDMAP | attributes,
		Userns_fd: uint64(ids.Fd()),
	})
}
