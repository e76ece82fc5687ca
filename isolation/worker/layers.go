package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// layer is an image layer that a cell stands on, with what tells later that it
// is still the same: Podman removes a layer's short link first, long before
// the last of its files.
type layer struct {
	dir  string
	link string // <store>/overlay/l/<short name>
	fd   int
}

// openLayers opens every layer before it is mounted: that of the state, when
// there is one, above those of the image.
func openLayers(state string, dirs []string) ([]layer, error) {
	var layers []layer
	if state != "" {
		l, err := openStateLayer(state)
		if err != nil {
			return nil, &fault{err: fmt.Errorf("open the state layer %s: %w", state, err), image: true}
		}
		layers = append(layers, l)
	}
	for _, dir := range dirs {
		l, err := openLayer(dir)
		if err != nil {
			closeLayers(layers)
			return nil, &fault{err: fmt.Errorf("open the image's layer %s: %w", dir, err), image: true}
		}
		layers = append(layers, l)
	}
	return layers, nil
}

// openStateLayer opens a layer of our own store, which is removed by its
// directory's name.
func openStateLayer(state string) (layer, error) {
	dir := StateLayerDir(state)
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	return layer{dir: dir, link: StateInfoFile(state), fd: fd}, err
}

func layerDirs(layers []layer) []string {
	dirs := make([]string, len(layers))
	for i, l := range layers {
		dirs[i] = l.dir
	}
	return dirs
}

func openLayer(dir string) (layer, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return layer{}, err
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
func (c *cell) missingLayer() string {
	for _, l := range c.layers {
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
