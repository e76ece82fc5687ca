package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"podgrade/oci"
)

// A cell of the Podman engine is a container that Podman makes inside our
// namespaces. The worker prepares its specification and its views as for its
// own, and adopts the container once there is one.

// adopted is the first process of a container that somebody else started.
type adopted struct {
	pid  int
	file *os.File // pidfd: the number may be given again, this may not
}

// look reads what a specification needs to know of an image that Podman has
// mounted, or of the layers that make one.
func (s *server) look(r Request, answer *Reply) error {
	if r.Root == nil {
		return lookInto(r.Dir, r, answer)
	}
	layers, err := OpenLayers(r.Root.Layers)
	if err != nil {
		return err
	}
	defer layers.Close()
	at, err := os.MkdirTemp(s.settings.Run, "look-")
	if err != nil {
		return err
	}
	defer os.Remove(at)
	err = inLayers(at, r.Root.Layers, func(dir string) error { return lookInto(dir, r, answer) })
	// What was removed meanwhile looked like an image without anything.
	if missing := layers.Missing(); err == nil && missing != "" {
		err = fmt.Errorf("the image's layer %s was removed meanwhile", missing)
	}
	return err
}

func lookInto(dir string, r Request, answer *Reply) error {
	facts, err := factsOf(dir)
	if err != nil {
		return err
	}
	facts.Path = "" // a cell of Podman has its root elsewhere
	answer.Rootfs = facts
	return inDirectory(dir, func(image int) error {
		facts.Programs = programsInRoot(image, r.SearchPath, r.Programs)
		return nil
	})
}

// entrust keeps the specification of a cell that Podman will make, where
// Podman's hook finds it, and its seccomp profile where Podman does.
func (s *server) entrust(c *cell, spec json.RawMessage, answer *Reply) error {
	if err := c.readSpec(spec); err != nil {
		return err
	}
	if err := c.bindEtc(); err != nil {
		return err
	}
	if err := os.Remove(rootFile(c.specFile())); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("forget the container before: %w", err)
	}
	profile, err := json.Marshal(c.spec.Linux.Seccomp)
	if err != nil {
		return fmt.Errorf("write the seccomp profile: %w", err)
	}
	if err := errors.Join(os.WriteFile(c.specFile(), spec, 0o600), os.WriteFile(SeccompFile(c.specFile()), profile, 0o600)); err != nil {
		return fmt.Errorf("write the specification: %w", err)
	}
	answer.Path = c.specFile()
	return nil
}

// SeccompFile is where the profile of a specification lies.
func SeccompFile(specFile string) string {
	return filepath.Join(filepath.Dir(specFile), "seccomp.json")
}

// adopt takes the container whose first process is given, not yet started, for
// the cell, and gives its root directory what the bundle engine's has. The pipe
// whose end came with the request is closed when that process ends.
func (s *server) adopt(c *cell, r Request, files []int) error {
	pid, image := r.PID, r.Image
	if c.runtime != nil || c.adopted != nil || c.spec == nil {
		return fmt.Errorf("cell %s cannot adopt a container: it has one, or no specification", c.name)
	}
	if pid <= 1 || image == nil || len(files) != 1 {
		return fmt.Errorf("adopt a container: it needs its image's facts and one descriptor, and %d must be a process of it", pid)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("adopt the container's process %d: %w", pid, err)
	}
	c.adopted = &adopted{pid: pid, file: os.NewFile(uintptr(fd), "container")}
	if err := c.adopted.announceEnd(files[0]); err != nil {
		return fmt.Errorf("watch the container's process %d: %w", pid, err)
	}
	c.theirs = r.Upper
	root, err := c.openRoot()
	if err != nil {
		return fmt.Errorf("open the container's root: %w", err)
	}
	defer unix.Close(root)
	if err := c.noteDisk(root, disk{at: fmt.Sprintf("/proc/%d/root", pid), theirs: true}); err != nil {
		return err
	}
	return likeOurs(root, image)
}

// likeOurs gives the root file system of a container of Podman what the bundle
// engine's has (likeLower, makeWork), and takes away the link that Podman puts
// into every image without an /etc/mtab.
func likeOurs(root int, image *RootFacts) error {
	if err := chmodInRoot(root, "/", 0o755); err != nil {
		return err
	}
	if !image.Work {
		if err := chmodInRoot(root, oci.WorkPath, 0o755); err != nil && !errors.Is(err, unix.ENOENT) {
			return err // where nothing is mounted below it is made later
		}
	}
	if image.Mtab {
		return nil
	}
	etc, err := openInRoot(root, "etc", unix.O_PATH|unix.O_DIRECTORY)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open the container's /etc: %w", err)
	}
	defer unix.Close(etc)
	if err := unix.Unlinkat(etc, "mtab", 0); err != nil && err != unix.ENOENT {
		return fmt.Errorf("remove the container's /etc/mtab: %w", err)
	}
	return nil
}

// chmodInRoot sets the mode of a directory.
func chmodInRoot(root int, path string, mode uint32) error {
	dir, err := openInRoot(root, path, unix.O_PATH|unix.O_DIRECTORY)
	if err == nil {
		defer unix.Close(dir)
		err = unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", dir), mode)
	}
	if err != nil {
		return fmt.Errorf("set the mode of the container's %s: %w", path, err)
	}
	return nil
}

// openRoot opens the root directory that commands of the cell see.
func (c *cell) openRoot() (int, error) {
	path := c.rootfs()
	switch {
	case c.adopted != nil:
		path = fmt.Sprintf("/proc/%d/root", c.adopted.pid)
	case !c.mounted:
		return -1, fmt.Errorf("cell %s has no root file system", c.name)
	}
	return unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// runs tells whether the cell has a container.
func (c *cell) runs() bool { return c.runtime != nil || c.adopted != nil }

// release waits until the adopted container's first process is gone, and ends
// it when it does not go, or when it is asked to.
func (c *cell) release(kill bool, end *End) error {
	a := c.adopted
	defer func() {
		a.file.Close()
		c.adopted = nil
	}()
	if !kill && a.ended(endGrace) {
		return nil
	}
	end.Killed = true
	if err := unix.PidfdSendSignal(int(a.file.Fd()), syscall.SIGKILL, nil, 0); err != nil && err != unix.ESRCH {
		return fmt.Errorf("end the container of cell %s: %w", c.name, err)
	}
	if !a.ended(endGrace) {
		return fmt.Errorf("cell %s does not end", c.name)
	}
	return nil
}

// announceEnd closes a copy of a pipe's end when the process ends.
func (a *adopted) announceEnd(pipe int) error {
	fd, err := unix.FcntlInt(a.file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	end, err := unix.FcntlInt(uintptr(pipe), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		unix.Close(fd)
		return err
	}
	watched := &adopted{pid: a.pid, file: os.NewFile(uintptr(fd), "container")}
	go func() {
		for !watched.ended(time.Hour) {
		}
		watched.file.Close()
		unix.Close(end)
	}()
	return nil
}

// ended waits for the process's end.
func (a *adopted) ended(grace time.Duration) bool {
	deadline := time.Now().Add(grace)
	for {
		poll := []unix.PollFd{{Fd: int32(a.file.Fd()), Events: unix.POLLIN}}
		n, err := unix.Poll(poll, int(max(0, time.Until(deadline)).Milliseconds()))
		if err != unix.EINTR {
			return n > 0
		}
	}
}
