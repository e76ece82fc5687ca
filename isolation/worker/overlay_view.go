package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"podgrade/isolation/tree"
)

// overlay mounts the tree as the lower layer of the view. The caller's files
// are the image user's already when that is root; for others a layer above the
// tree holds all but the bytes of each file, with that owner. how says which
// it was, for the record.
func (v *viewing) overlay() (how string, err error) {
	lower, done, err := v.lowerTree()
	if err != nil {
		return "", err
	}
	defer done()
	if v.Options.Give != (tree.Owner{}) && !v.Given {
		if err := v.server.metacopy.works(v.cell.dir); err != nil {
			return "", fmt.Errorf("the image's user is not root, and this kernel gives files to others by a copy only: %w", err)
		}
		layer := v.dir + "-meta"
		if err := v.metadata(layer); err != nil {
			return "", err
		}
		lower, how = dataOnly(layer, lower), ", with a layer of metadata that gives its files to the image's user"
	}
	upper, work := v.dir+"-upper", v.dir+"-work"
	if err := v.upper(upper, work); err != nil {
		return "", err
	}
	if err := mountLowers(v.dir, lower, upper, work); err != nil {
		return "", fmt.Errorf("mount the tree as a lower layer: %w", err)
	}
	v.cell.views = append(v.cell.views, v.dir)
	return how, nil
}

// lowerTree is the tree as the option of a mount names it, until done is called.
func (v *viewing) lowerTree() (path string, done func(), err error) {
	if v.Given {
		dir := v.dir + "-tree"
		if err := os.Mkdir(dir, 0o700); err != nil {
			return "", nil, fmt.Errorf("make the view: %w", err)
		}
		return escapeOverlay(dir), func() {}, v.mountTree(dir)
	}
	source, err := v.again()
	return descriptorPath(source), func() { unix.Close(source) }, err
}

// upper makes the upper directory, from which the view's root gets its owner,
// mode and times.
func (v *viewing) upper(upper, work string) error {
	for _, dir := range []string{upper, work} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return fmt.Errorf("make the view: %w", err)
		}
	}
	fd, err := openDirectory(upper)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return tree.Like(v.source, fd, v.Options)
}

// metadata makes the layer that gives the tree's files to the image's user.
func (v *viewing) metadata(layer string) error {
	if err := os.Mkdir(layer, 0o700); err != nil {
		return fmt.Errorf("make the view: %w", err)
	}
	fd, err := openDirectory(layer)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if _, err := tree.Metadata(v.ctx, v.source, fd, v.Options); err != nil {
		return fmt.Errorf("make the layer of metadata: %w", err)
	}
	return nil
}

// dataOnly is the lowerdir option of a layer above one that only gives bytes
// (Linux 6.5; in a user namespace some later one).
func dataOnly(layer, data string) string { return escapeOverlay(layer) + "::" + data }

// mountLowers mounts an overlay whose lower layers are written already as the
// option has them.
func mountLowers(target, lowers, upper, work string) error {
	data := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s,%s", lowers, escapeOverlay(upper), escapeOverlay(work), overlayOptions)
	return unix.Mount("overlay", target, "overlay", unix.MS_NOSUID|unix.MS_NODEV, data)
}

// metacopy knows whether the kernel mounts layers of metadata in a user
// namespace. It is asked once, by mounting one.
type metacopy struct {
	once sync.Once
	err  error
}

func (m *metacopy) works(dir string) error {
	m.once.Do(func() { m.err = tryMetacopy(filepath.Join(dir, "metacopy")) })
	return m.err
}

// tryMetacopy makes a layer of metadata over a directory with one file, in the
// new directory dir, and reads that file through it.
func tryMetacopy(dir string) (err error) {
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, name := range []string{"data", "meta", "upper", "work", "merged"} {
		if err := os.Mkdir(at(name), 0o700); err != nil {
			return err
		}
	}
	const content = "content"
	if err := os.WriteFile(at("data/file"), []byte(content), 0o600); err != nil {
		return err
	}
	if err := metadataOf(at("data"), at("meta")); err != nil {
		return err
	}
	if err := mountLowers(at("merged"), dataOnly(at("meta"), escapeOverlay(at("data"))), at("upper"), at("work")); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unix.Unmount(at("merged"), unix.MNT_DETACH)) }()
	if found, err := os.ReadFile(at("merged/file")); err != nil || string(found) != content {
		return fmt.Errorf("a file read through it says %q (%v)", found, err)
	}
	return nil
}

func metadataOf(data, layer string) error {
	src, err := openDirectory(data)
	if err != nil {
		return err
	}
	defer unix.Close(src)
	dst, err := openDirectory(layer)
	if err != nil {
		return err
	}
	defer unix.Close(dst)
	_, err = tree.Metadata(context.Background(), src, dst, tree.Options{})
	return err
}
