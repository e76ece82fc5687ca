package worker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"podgrade/isolation/states"
	"podgrade/isolation/tree"
)

// A state layer is the upper directory of an execute cell, kept in the store of
// the scratch (package states). It is named only when it is complete and on the
// disk.

// upperDir is where what changes in the cell's root is, "" when nobody knows.
func (c *cell) upperDir() string {
	if c.mounted {
		return c.upper()
	}
	return c.theirs
}

// mark notes what lies in the cell's upper directory before its first command
// runs: what we and the runtime made.
func (c *cell) mark(ctx context.Context) error {
	if !c.create || c.marks != nil || c.upperDir() == "" {
		return nil
	}
	upper, err := openDirectory(c.upperDir())
	if err != nil {
		return fmt.Errorf("look at what the cell starts with: %w", err)
	}
	defer unix.Close(upper)
	c.marks, err = tree.Mark(ctx, upper)
	return err
}

// keep makes the state layer of a cell that has ended, and says what is in it.
// Nothing is kept when nothing changed.
func (s *server) keep(ctx context.Context, c *cell, r Request, answer *Reply) error {
	upper := c.upperDir()
	if c.runs() || !c.create || upper == "" {
		return fmt.Errorf("cell %s has no state to keep: it still runs, or was no execute cell", c.name)
	}
	if err := c.letGo(ctx, r.Root); err != nil {
		return err
	}
	var lost bool
	err := inDirectory(upper, func(fd int) (err error) { lost, err = c.carryHosts(ctx, fd, r.Hosts); return err })
	var made *StateMade
	if err == nil {
		made, err = c.canonical(ctx, upper, c.marks, r)
	}
	if err != nil {
		return treeFault("keep what changed outside of the workspace", err)
	}
	made.HostsLost = lost
	answer.State = made
	if made.DiffID == "" || r.Look {
		return nil
	}
	dir := filepath.Join(c.dir, "state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("make the state layer: %w", err)
	}
	if err := takeUpper(ctx, upper, states.LayerDir(dir)); err != nil {
		return fmt.Errorf("make the state layer: %w", err)
	}
	return s.store(ctx, dir, made)
}

// letGo lets go of the upper directory, and makes sure of what is below it.
func (c *cell) letGo(ctx context.Context, podmans *Root) error {
	if !c.mounted {
		c.theirs = ""
		if podmans == nil {
			return errors.New("nothing is said of what is below the state layer")
		}
		return c.holdLayers(ctx, *podmans)
	}
	c.mounted = false
	if err := unix.Unmount(c.rootfs(), unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount the root file system: %w", err)
	}
	return nil
}

// takeUpper moves an upper directory. That of a container of Podman lies in
// another mount, and often on another file system: it is copied, and removed
// with its container.
func takeUpper(ctx context.Context, upper, to string) error {
	err := os.Rename(upper, to)
	if !errors.Is(err, unix.EXDEV) {
		return err
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	src, err := openDirectory(upper)
	if err != nil {
		return err
	}
	defer unix.Close(src)
	dst, err := openDirectory(to)
	if err != nil {
		return err
	}
	defer unix.Close(dst)
	_, err = tree.Copy(ctx, src, dst, tree.Options{})
	return err
}

const diffPrefix = "sha256:"

// canonical takes away what is no change in a directory of the upper's kind,
// gives the rest its name, and finds the tools of the image that it touches.
// Where nothing is left the name is "".
func (c *cell) canonical(ctx context.Context, upper string, marks tree.Marks, r Request) (*StateMade, error) {
	fd, err := openDirectory(upper)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	made := &StateMade{}
	sum := sha256.New()
	err = c.withLower(func(lower int) error {
		tools := openToolbox(lower, r.SearchPath)
		// What Python compiles beside the image's modules it makes again at will,
		// and nobody can tell it from what an agent has forged there.
		if made.Pruned, err = tree.Prune(ctx, fd, lower, marks, tools.python.isCache); err != nil {
			return err
		}
		layer, err := tree.WriteLayer(ctx, sum, fd, tree.LayerOptions{Notice: tools.notice, SumFrom: states.Least})
		if err != nil || layer.Entries == 0 {
			return err
		}
		made.Changed, made.Deleted, made.More = layer.Changed, layer.Deleted, layer.More
		made.sums = withoutHosts(layer.Sums)
		made.Info = states.Info{
			DiffID: diffPrefix + hex.EncodeToString(sum.Sum(nil)), Entries: layer.Entries, Bytes: layer.Bytes,
			Image: r.Pin, Made: time.Now().UTC(), BeforeAgent: r.Op == OpBefore, Replaced: tools.found, ReplacedMore: tools.more,
		}
		return nil
	})
	return made, err
}

// withLower calls f with the root of the image.
func (c *cell) withLower(f func(lower int) error) error {
	at := filepath.Join(c.dir, fmt.Sprintf("lower-%d", c.made))
	return inLayers(at, layerDirs(imageLayers(c.layers)), func(dir string) error {
		fd, err := openDirectory(dir)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return f(fd)
	})
}

// store names a layer: from here on it is kept. The same layer made twice is
// kept once. The bytes of files that other layers hold are given up first.
func (s *server) store(ctx context.Context, dir string, made *StateMade) error {
	scratch := filepath.Dir(s.settings.Run)
	var sharing *states.Sharing
	if len(made.sums) > 0 {
		// Without the lock the layer holds all its bytes itself.
		if unlock, err := lockStore(ctx, scratch); err == nil {
			defer unlock()
			if sharing, err = states.Share(ctx, scratch, dir, made.sums, &made.Info); err != nil {
				return fmt.Errorf("keep the state layer: %w", err)
			}
		}
	}
	err := states.Write(dir, made.Info)
	if err == nil {
		err = syncAll(dir)
	}
	store := states.StoreDir(scratch)
	named := false
	if err == nil {
		named, err = nameLayer(dir, store, strings.TrimPrefix(made.DiffID, diffPrefix))
	}
	if err == nil && named && sharing != nil {
		err = sharing.Hold(made.DiffID)
	}
	if err == nil {
		err = syncDirectory(store)
	}
	if err != nil {
		return fmt.Errorf("keep the state layer: %w", err)
	}
	return nil
}

// lockStore locks the store, which is made where there is none.
func lockStore(ctx context.Context, scratch string) (unlock func(), err error) {
	for range storeTries {
		if err = os.MkdirAll(states.StoreDir(scratch), 0o700); err != nil {
			return nil, err
		}
		if unlock, err = states.Lock(ctx, scratch); !errors.Is(err, os.ErrNotExist) {
			return unlock, err
		}
	}
	return nil, err
}

// storeTries is how often the store is made anew that goes with the last layer
// that somebody removes.
const storeTries = 5

// nameLayer moves a layer into the store; named is false when it is there
// already.
func nameLayer(dir, store, diffID string) (named bool, err error) {
	for range storeTries {
		if err = os.MkdirAll(store, 0o700); err != nil {
			return false, err
		}
		err = os.Rename(dir, filepath.Join(store, diffID))
		if errors.Is(err, os.ErrExist) || errors.Is(err, unix.ENOTEMPTY) {
			return false, isComplete(filepath.Join(store, diffID))
		}
		if !errors.Is(err, os.ErrNotExist) {
			return err == nil, err
		}
	}
	return false, err
}

// isComplete refuses a layer that somebody began to remove.
func isComplete(dir string) error {
	if _, err := os.Lstat(states.InfoFile(dir)); err != nil {
		return fmt.Errorf("%s is half removed: %w", dir, err)
	}
	return nil
}

// syncAll writes back the file system that holds dir. To do it file by file
// takes longer as soon as there are some hundred.
func syncAll(dir string) error {
	fd, err := openDirectory(dir)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Syncfs(fd)
}

func syncDirectory(dir string) error {
	fd, err := openDirectory(dir)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Fsync(fd)
}
