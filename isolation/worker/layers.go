package worker

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"podgrade/isolation/states"
	"podgrade/isolation/tree"
)

// layer is an image layer that a cell stands on, with what tells later that it
// is still the same: Podman removes a layer's short link first, long before
// the last of its files.
type layer struct {
	dir  string
	link string // <store>/overlay/l/<short name>
	fd   int
	ours bool // a state layer, and no layer of the image
}

// takeImage puts an image that is one mount of its own where the cell finds it,
// once for all times that the cell is made, and makes it the one layer.
func (c *cell) takeImage(r *Root, image int) error {
	r.Layers = []string{c.imageDir()}
	if c.given {
		return nil
	}
	if err := os.Mkdir(c.imageDir(), 0o700); err != nil {
		return fmt.Errorf("make the cell's directory: %w", err)
	}
	if err := attach(image, c.imageDir()); err != nil {
		return fmt.Errorf("mount the image: %w", err)
	}
	c.given = true
	return nil
}

// attach puts a mount of its own at a directory.
func attach(mount int, dir string) error {
	return unix.MoveMount(mount, "", unix.AT_FDCWD, dir, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// openLayers opens every layer before it is mounted, above those of the image
// that of the state when there is one, and above that in the directory filled
// the bytes that it shares with other state layers.
func openLayers(ctx context.Context, state, filled string, dirs []string, given bool) ([]layer, error) {
	var layers []layer
	if state != "" {
		l, err := openStateLayer(state)
		if err != nil {
			return nil, &fault{err: fmt.Errorf("open the state layer %s: %w", state, err), image: true}
		}
		layers = append(layers, l)
		above, err := fill(ctx, state, l.fd, filled)
		if err != nil {
			closeLayers(layers)
			return nil, fmt.Errorf("open the state layer %s: %w", state, err)
		}
		layers = append(above, layers...)
	}
	for _, dir := range dirs {
		l, err := openLayer(dir, given)
		if err != nil {
			closeLayers(layers)
			return nil, &fault{err: fmt.Errorf("open the image's layer %s: %w", dir, err), image: true}
		}
		layers = append(layers, l)
	}
	return layers, nil
}

// Layers are the layers of an image that somebody stands on.
type Layers struct{ layers []layer }

// OpenLayers opens the layers of an image in Podman's store, top first, before
// they are mounted.
func OpenLayers(dirs []string) (Layers, error) {
	layers, err := openLayers(context.Background(), "", "", dirs, false)
	return Layers{layers}, err
}

// Missing names a layer that is no longer what was opened, "" when all are.
func (l Layers) Missing() string { return missingOf(l.layers) }

// Close lets go of them.
func (l Layers) Close() { closeLayers(l.layers) }

// openStateLayer opens a layer of our own store, which is removed by its
// directory's name.
func openStateLayer(state string) (layer, error) {
	dir := states.LayerDir(state)
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	return layer{dir: dir, link: states.InfoFile(state), fd: fd, ours: true}, err
}

// fill makes in the directory to the layer that has what a state layer shares
// with others, none where it shares nothing.
func fill(ctx context.Context, state string, from int, to string) ([]layer, error) {
	hollow, err := states.HollowOf(state)
	if err != nil || hollow == nil {
		return nil, err
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return nil, err
	}
	fd, err := openDirectory(to)
	if err != nil {
		return nil, err
	}
	if err := tree.Fill(ctx, from, fd, hollow); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return []layer{{dir: to, link: to, fd: fd, ours: true}}, nil
}

// imageLayers are the layers without those of ours.
func imageLayers(layers []layer) []layer {
	return slices.DeleteFunc(slices.Clone(layers), func(l layer) bool { return l.ours })
}

func layerDirs(layers []layer) []string {
	dirs := make([]string, len(layers))
	for i, l := range layers {
		dirs[i] = l.dir
	}
	return dirs
}

// openLayer opens one. Whose mount was given knows nothing of a store: its own
// directory stands for the link.
func openLayer(dir string, given bool) (layer, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil || given {
		return layer{dir: dir, link: dir, fd: fd}, err
	}
	parent := filepath.Dir(dir)
	short, err := os.ReadFile(filepath.Join(parent, "link"))
	if err != nil {
		unix.Close(fd)
		return layer{}, err
	}
	link := filepath.Join(filepath.Dir(parent), "l", strings.TrimSpace(string(short)))
	return layer{dir: dir, link: link, fd: fd}, nil
}

func closeLayers(layers []layer) {
	for _, l := range layers {
		unix.Close(l.fd)
	}
}

// missingLayer names a layer that is no longer what was mounted, "" when all
// are.
func (c *cell) missingLayer() string { return missingOf(c.layers) }

func missingOf(layers []layer) string {
	for _, l := range layers {
		var opened, now unix.Stat_t
		if unix.Lstat(l.link, &now) != nil {
			return l.dir
		}
		if unix.Fstat(l.fd, &opened) != nil || unix.Stat(l.dir, &now) != nil {
			return l.dir
		}
		if opened.Ino != now.Ino || opened.Dev != now.Dev || opened.Nlink == 0 {
			return l.dir
		}
	}
	return ""
}
