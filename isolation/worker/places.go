package worker

import (
	"context"
	"errors"
	"fmt"
	"path"

	"golang.org/x/sys/unix"

	"podgrade/isolation/tree"
	"podgrade/oci"
)

// ourPlaces are where podgrade mounts something in a cell, each after what it
// lies in. An agent can move a directory away that is nobody's mount, with the
// mounts in it, and leave a link or a file there: the runtime would mount
// elsewhere then, or not at all.
var ourPlaces = []string{
	oci.ToolPath, oci.WorkPath, oci.WorkspacePath, oci.TaskDirPath, oci.ReferencesPath, oci.PluginsPath,
	"/proc", "/sys", "/dev", "/etc",
}

// freePlaces makes sure that what is mounted in a cell on a state layer is
// mounted at its own place: what the agent left there and is no directory is
// taken away, and a directory made. In an image such a thing keeps the agent's
// cell from starting, so it is not the image's.
func freePlaces(ctx context.Context, root int) error {
	for _, place := range ourPlaces {
		if err := freePlace(root, place); err != nil {
			return fmt.Errorf("make room for %s: %w", place, err)
		}
	}
	if err := openPlaces(root); err != nil {
		return fmt.Errorf("open %s for everybody: %w", oci.WorkPath, err)
	}
	return freeFiles(ctx, root)
}

// openPlaces gives the directory of the places its mode back when the agent has
// closed it: it is not the agent's.
func openPlaces(root int) error {
	dir, err := openInRoot(root, oci.WorkPath, unix.O_PATH|unix.O_DIRECTORY)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil || st.Mode&0o555 == 0o555 {
		return err
	}
	return unix.Chmod(descriptorPath(dir), 0o755)
}

// freePlaces does so for the cell's own root file system.
func (c *cell) freePlaces() error {
	root, err := c.openRoot()
	if err != nil {
		return err
	}
	defer unix.Close(root)
	return freePlaces(context.Background(), root)
}

func freePlace(root int, place string) error {
	dir, err := openInRoot(root, path.Dir(place), unix.O_PATH|unix.O_DIRECTORY)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	var st unix.Stat_t
	err = unix.Fstatat(dir, path.Base(place), &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == unix.ENOENT || err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return nil
	}
	if err == nil {
		err = unix.Unlinkat(dir, path.Base(place), 0)
	}
	if err == nil {
		err = unix.Mkdirat(dir, path.Base(place), 0o755)
	}
	return err
}

// freeFiles does so for the files that a cell has of ours in /etc.
func freeFiles(ctx context.Context, root int) error {
	dir, err := openInRoot(root, "etc", unix.O_RDONLY|unix.O_DIRECTORY)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return fmt.Errorf("make room in /etc: %w", err)
	}
	defer unix.Close(dir)
	for _, name := range EtcFiles {
		if err := freeFile(ctx, dir, name); err != nil {
			return fmt.Errorf("make room for /etc/%s: %w", name, err)
		}
	}
	return errors.Join(freeUsers(root, dir, "passwd"), freeUsers(root, dir, "group"))
}

// freeUsers takes a list of users or groups away that is a pipe: the runtime
// reads it when it starts the cell, and would wait for somebody who writes.
func freeUsers(root, etc int, name string) error {
	fd, err := openInRoot(root, path.Join("etc", name), unix.O_PATH)
	if err != nil {
		return nil // nothing that could be read
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
		return err
	}
	return unix.Unlinkat(etc, name, 0)
}

func freeFile(ctx context.Context, dir int, name string) error {
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return nil
	case unix.S_IFDIR:
		return removeDirectory(ctx, dir, name)
	}
	return unix.Unlinkat(dir, name, 0)
}

func removeDirectory(ctx context.Context, dir int, name string) error {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	err = tree.Clear(ctx, fd, tree.Options{})
	return errors.Join(err, unix.Close(fd), unix.Unlinkat(dir, name, unix.AT_REMOVEDIR))
}
