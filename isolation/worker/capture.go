package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"podgrade/isolation/states"
	"podgrade/isolation/tree"
	"podgrade/oci"
)

// A task with a working directory has its workspace inside the image. What an
// agent left there is copied out when its cell is settled; a grade without the
// state layer gets the copy laid over the image's directory.

// Capture says what is copied out of a cell, or into it.
type Capture struct {
	Dir    string     `json:"dir"`              // in the cell
	Owner  tree.Owner `json:"owner"`            // the image's user
	Ignore []string   `json:"ignore,omitempty"` // base names that are left out, at every level
}

// makeWorkingDir makes the directory, when it is not there, for the image's
// user.
func makeWorkingDir(root int, dir string, user *oci.User) error {
	switch found, err := existingDirectory(root, dir); {
	case err != nil:
		return &fault{err: fmt.Errorf("work in %s: %w", dir, err), refused: true}
	case found:
		return nil
	}
	parts := strings.Split(strings.Trim(path.Dir(dir), "/"), "/")
	for i := range parts {
		parent := "/" + path.Join(parts[:i+1]...)
		if found, err := existingDirectory(root, parent); err != nil || found {
			continue
		}
		if err := makeOwned(root, parent, 0o755, &oci.User{}); err != nil {
			return err
		}
	}
	return makeOwned(root, dir, 0o755, user)
}

// existingDirectory tells whether there is a directory; anything else there is
// an error.
func existingDirectory(root int, dir string) (bool, error) {
	fd, err := openInRoot(root, dir, unix.O_PATH|unix.O_DIRECTORY)
	if err == unix.ENOENT {
		return false, nil
	}
	if err == nil {
		unix.Close(fd)
	}
	return err == nil, err
}

// captureTree copies the working directory of an ended cell into the passed
// directory. Owners are still those of the cell: the copy is taken back like a
// lent workspace.
func (s *server) captureTree(ctx context.Context, c *cell, r Request, files []int, answer *Reply) error {
	if r.Capture == nil || len(files) != 1 {
		return errors.New("a capture needs its description and one descriptor")
	}
	dst, err := openHere(files[0])
	if err != nil {
		return fmt.Errorf("open the directory to capture into: %w", err)
	}
	defer unix.Close(dst)
	if empty, err := tree.IsEmpty(dst); err != nil || !empty {
		return &fault{err: errors.Join(errors.New("the directory to capture into is not empty"), err), refused: true}
	}
	if err := tree.CheckPatterns(r.Capture.Ignore); err != nil {
		return &fault{err: err, refused: true}
	}
	root, err := c.rootToCapture(r.Mounted)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	src, err := openInRoot(root, r.Capture.Dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return treeFault("open "+r.Capture.Dir+" in the cell", err)
	}
	defer unix.Close(src)
	upper := c.upperOf(src, r.Mounted)
	defer unix.Close(upper)
	report, err := tree.Copy(ctx, src, dst, tree.Options{Ignore: r.Capture.Ignore, Skip: ourOwn(root), Upper: max(upper, 0)})
	answer.Tree = &report
	if err != nil {
		return treeFault("capture "+r.Capture.Dir, err)
	}
	return ownRoot(dst, r.Capture.Owner)
}

// apply puts a state layer into the root file system of a container that Podman
// has made and mounted, and not started.
func apply(ctx context.Context, state, mounted, etc string) error {
	layer, err := openDirectory(states.LayerDir(state))
	if err != nil {
		return &fault{err: fmt.Errorf("open the state layer: %w", err), image: true}
	}
	defer unix.Close(layer)
	root, err := openDirectory(mounted)
	if err != nil {
		return fmt.Errorf("open the container's root: %w", err)
	}
	defer unix.Close(root)
	hollow, err := states.HollowOf(state)
	if err == nil {
		err = tree.Apply(ctx, layer, root, hollow)
	}
	if err != nil {
		return fmt.Errorf("put the state layer into the container: %w", err)
	}
	if err := giveHosts(ctx, layer, etc); err != nil {
		return fmt.Errorf("give the container the /etc/hosts of its state layer: %w", err)
	}
	return freePlaces(ctx, root)
}

// rootToCapture opens the root of an ended cell, where Podman has mounted it when
// the cell was a container.
func (c *cell) rootToCapture(mounted string) (int, error) {
	if mounted == "" {
		return c.openRoot()
	}
	return unix.Open(mounted, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// upperOf opens what the cell's upper directory has at the place of a directory
// of the mounted root; -1: nothing, or the root is not ours.
func (c *cell) upperOf(dir int, mounted string) int {
	if mounted == "" {
		mounted = c.rootfs()
	}
	path, err := os.Readlink(descriptorPath(dir))
	rest, below := strings.CutPrefix(path, mounted)
	if err != nil || !below || c.upperDir() == "" {
		return -1
	}
	fd, err := openDirectory(c.upperDir() + rest)
	if err != nil {
		return -1
	}
	return fd
}

// ownRoot leaves the root of a capture to the caller or to the image's user, who
// gives it back: whoever else owned it, the caller must be able to remove it.
func ownRoot(dir int, user tree.Owner) error {
	var st unix.Stat_t
	err := unix.Fstat(dir, &st)
	if err == nil && st.Uid != user.UID {
		err = unix.Fchown(dir, 0, 0)
	}
	return err
}

// ourOwn are the directories that are podgrade's in every cell.
func ourOwn(root int) []tree.FileID {
	var ids []tree.FileID
	for _, path := range []string{oci.ToolPath, oci.WorkPath} {
		fd, err := openInRoot(root, path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		if err != nil {
			continue
		}
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil {
			ids = append(ids, tree.FileID{Dev: st.Dev, Ino: st.Ino})
		}
		unix.Close(fd)
	}
	return ids
}

// lay makes the working directory of a cell, before it starts, what was
// captured of it: what the image has there and the capture has not is gone,
// but for what the capture left out.
func (s *server) lay(ctx context.Context, c *cell, r Request, files []int, answer *Reply) error {
	if r.Capture == nil || len(files) != 1 {
		return errors.New("a capture needs its description and one descriptor")
	}
	if err := tree.CheckPatterns(r.Capture.Ignore); err != nil {
		return &fault{err: err, refused: true}
	}
	src, err := openHere(files[0])
	if err != nil {
		return treeFault("open the tree", err)
	}
	defer unix.Close(src)
	root, err := c.openRoot()
	if err != nil {
		return err
	}
	defer unix.Close(root)
	dst, err := openInRoot(root, r.Capture.Dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return fmt.Errorf("open %s in the cell: %w", r.Capture.Dir, err)
	}
	defer unix.Close(dst)
	if err := tree.Clear(ctx, dst, tree.Options{Ignore: r.Capture.Ignore, Skip: ourOwn(root)}); err != nil {
		return fmt.Errorf("clear %s in the cell: %w", r.Capture.Dir, err)
	}
	report, err := tree.Copy(ctx, src, dst, tree.Options{Give: r.Capture.Owner, Into: true})
	if err != nil {
		return treeFault("lay the workspace over "+r.Capture.Dir, err)
	}
	answer.Tree = &report
	return c.laidInto()
}
