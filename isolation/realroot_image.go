package isolation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"podgrade/isolation/worker"
)

// heldImage is an image that is mounted for cells.
type heldImage struct {
	name   string // of its mount
	layers worker.Layers
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
