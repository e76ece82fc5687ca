package worker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"podgrade/isolation/states"
	"podgrade/isolation/tree"
)

// stock puts a state layer that came from elsewhere into the store: the archive
// that stands for it, at the passed descriptor. What the layer is, and which
// tools of its image it touches, is found out as for one that was made here:
// nothing that came with it is believed.
func (s *server) stock(ctx context.Context, c *cell, r Request, files []int, answer *Reply) error {
	if len(files) == 0 || len(files) > 2 || r.Root == nil || r.Stock == nil || c.layers != nil {
		return errors.New("to take a state layer in it needs its archive and what it lies above")
	}
	if err := c.standOn(ctx, *r.Root, r.Mounted, files[1:]); err != nil {
		return err
	}
	defer func() {
		closeLayers(c.layers)
		c.layers = nil
	}()
	dir := filepath.Join(c.dir, "state")
	layer := states.LayerDir(dir)
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Mkdir(layer, 0o755)); err != nil {
		return fmt.Errorf("make the state layer: %w", err)
	}
	if err := unpackLayer(ctx, files[0], layer, r.Stock.Most); err != nil {
		return treeFault("take the state layer in", err)
	}
	made, err := c.canonical(ctx, layer, c.marks, r)
	if err != nil {
		return treeFault("take the state layer in", err)
	}
	if made.DiffID != r.Stock.DiffID {
		return &fault{err: fmt.Errorf("what it holds is the state layer %q, and not %s", made.DiffID, r.Stock.DiffID), workspace: true}
	}
	made.BeforeAgent = r.Stock.BeforeAgent
	if err := s.store(ctx, dir, made); err != nil {
		return err
	}
	answer.State = &StateMade{Info: made.Info}
	return nil
}

// standOn opens what a layer lies above: layers of Podman's store, an image that
// Podman has mounted, or one that came as a mount of its own.
func (c *cell) standOn(ctx context.Context, r Root, mounted string, shown []int) error {
	switch {
	case len(shown) > 0:
		fd, err := unix.FcntlInt(uintptr(shown[0]), unix.F_DUPFD_CLOEXEC, 0)
		if err == nil {
			c.layers = []layer{{dir: descriptorPath(fd), fd: fd}}
		}
		return err
	case mounted != "":
		fd, err := unix.Open(mounted, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err == nil {
			c.layers = []layer{{dir: mounted, fd: fd}}
		}
		return err
	case len(r.Layers) == 0:
		return errors.New("the image has no layers")
	}
	return c.holdLayers(ctx, r)
}

func unpackLayer(ctx context.Context, archive int, dir string, most tree.Bound) error {
	to, err := openDirectory(dir)
	if err != nil {
		return err
	}
	defer unix.Close(to)
	fd, err := unix.FcntlInt(uintptr(archive), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	from := os.NewFile(uintptr(fd), "archive")
	defer from.Close()
	whole := bufio.NewReaderSize(from, stageBuffer)
	if err := tree.Unpack(ctx, whole, to, tree.UnpackOptions{Layer: true, Most: most}); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, whole) // whoever gives the archive sums it up to its end
	return err
}
