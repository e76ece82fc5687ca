package worker

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Layout of a run's directory in the scratch.
func toolDir(run string) string    { return filepath.Join(run, "tool") }
func trashDir(run string) string   { return filepath.Join(run, "trash") }
func runtimeDir(run string) string { return filepath.Join(run, "runtime") }
func tempDir(run string) string    { return filepath.Join(run, "tmp") }
func bundleDir(run, name string) string {
	return filepath.Join(runtimeDir(run), "bundles", name)
}
func runtimeStateDir(run string) string { return filepath.Join(runtimeDir(run), "state") }
func cellDir(run, name string) string {
	return filepath.Join(run, "cells", name)
}

// TempDir is where Podman and the runtime have their temporary files: what they
// leave when they are killed goes with the run.
func TempDir(run string) string { return tempDir(run) }

// ToolDir is where the host puts the supervisor before it starts the worker.
func ToolDir(run string) string { return toolDir(run) }

// bind mounts dir on itself, without set-user-id and devices: crun 1.8.1 loses
// these two options on writable binds, so the source has them already.
func bind(dir string) error {
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s: %w", dir, err)
	}
	return remount(dir, 0)
}

// mountRuntimeDir puts a file system in memory where the runtime keeps its state,
// and finds the specifications: no cell writes there, it is gone with this
// worker, and a disk takes several times as long for such small files.
func mountRuntimeDir(run string) error {
	dir := runtimeDir(run)
	if err := unix.Mount("runtime", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0700"); err != nil {
		return fmt.Errorf("mount a tmpfs on %s: %w", dir, err)
	}
	return errors.Join(os.Mkdir(runtimeStateDir(run), 0o700), os.Mkdir(bundleDir(run, ""), 0o700))
}

func bindReadOnly(dir string) error {
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s: %w", dir, err)
	}
	return remount(dir, unix.MS_RDONLY)
}

// remount keeps what the underlying mount already forbids: a user namespace
// may not lift it.
func remount(dir string, flags uintptr) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fmt.Errorf("look at the mount %s: %w", dir, err)
	}
	for have, keep := range map[int64]uintptr{
		unix.ST_NOEXEC: unix.MS_NOEXEC, unix.ST_NOATIME: unix.MS_NOATIME,
		unix.ST_NODIRATIME: unix.MS_NODIRATIME, unix.ST_RELATIME: unix.MS_RELATIME, unix.ST_RDONLY: unix.MS_RDONLY,
	} {
		if st.Flags&have != 0 {
			flags |= keep
		}
	}
	flags |= unix.MS_BIND | unix.MS_REMOUNT | unix.MS_NOSUID | unix.MS_NODEV
	if err := unix.Mount("", dir, "", flags, ""); err != nil {
		return fmt.Errorf("restrict the mount %s: %w", dir, err)
	}
	return nil
}

// overlayOptions: userxattr, or removing anything of a lower directory gives
// EIO; volatile, or unmounting writes back the whole disk below.
const overlayOptions = "userxattr,volatile"

// mountOverlay mounts the layers (top first) with a fresh upper directory.
func mountOverlay(target string, layers []string, upper, work string) error {
	escaped := make([]string, len(layers))
	for i, l := range layers {
		escaped[i] = escapeOverlay(l)
	}
	data := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s,%s", strings.Join(escaped, ":"), escapeOverlay(upper), escapeOverlay(work), overlayOptions)
	mount := func() error { return unix.Mount("overlay", target, "overlay", 0, data) }
	if len(data) >= os.Getpagesize() {
		mount = func() error { return mountManyLayers(target, layers, upper, work) }
	}
	// A Podman that ends takes a mount away that it had put over its store. Who
	// finds the layers through that mount in the same instant gets EINVAL.
	err := mount()
	for range mountTries {
		if !errors.Is(err, unix.EINVAL) {
			break
		}
		// Not in step with Podmans that end one after another.
		time.Sleep(time.Millisecond/2 + rand.N(2*time.Millisecond))
		// What the failed mount made there says that it was mounted once, which a
		// volatile overlay may be only once.
		if err := os.RemoveAll(filepath.Join(work, "work")); err != nil {
			return err
		}
		err = mount()
	}
	return err
}

// mountTries is how often a mount is tried again that met a Podman.
const mountTries = 20

var overlayEscapes = strings.NewReplacer(`\`, `\\`, `:`, `\:`, `,`, `\,`)

func escapeOverlay(path string) string { return overlayEscapes.Replace(path) }

// mountReadOnly mounts the layers (top first, more than one) and nothing else.
func mountReadOnly(target string, layers []string) error {
	escaped := make([]string, len(layers))
	for i, l := range layers {
		escaped[i] = escapeOverlay(l)
	}
	data := "lowerdir=" + strings.Join(escaped, ":") + ",userxattr"
	if len(data) < os.Getpagesize() {
		return unix.Mount("overlay", target, "overlay", unix.MS_RDONLY, data)
	}
	return mountManyLayers(target, layers, "", "")
}

// inLayers calls f with the directory where the layers (top first) are one tree:
// that of the only one, or at, which is made where it is not there, and where several
// are mounted meanwhile.
func inLayers(at string, layers []string, f func(dir string) error) (err error) {
	if len(layers) == 1 {
		return f(layers[0])
	}
	if err := os.Mkdir(at, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := mountReadOnly(at, layers); err != nil {
		return fmt.Errorf("mount the image: %w", err)
	}
	defer func() { err = errors.Join(err, unix.Unmount(at, unix.MNT_DETACH)) }()
	return f(at)
}

// mountManyLayers gives the layers one at a time (Linux 6.5), because the
// options of a mount are one page.
func mountManyLayers(target string, layers []string, upper, work string) error {
	fs, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fs)
	type option struct{ key, value string }
	var options []option
	for _, l := range layers {
		options = append(options, option{"lowerdir+", l})
	}
	flags := overlayOptions
	if upper == "" {
		flags = "userxattr"
	} else {
		options = append(options, option{"upperdir", upper}, option{"workdir", work})
	}
	for _, o := range options {
		if err := unix.FsconfigSetString(fs, o.key, o.value); err != nil {
			return fmt.Errorf("%d layers do not fit one page of mount options, and this kernel does not take them singly: %w", len(layers), err)
		}
	}
	for _, flag := range strings.Split(flags, ",") {
		if err := unix.FsconfigSetFlag(fs, flag); err != nil {
			return err
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return err
	}
	mnt, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(mnt)
	return unix.MoveMount(mnt, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH)
}
