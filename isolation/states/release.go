package states

import (
	"errors"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Release takes a layer that is being removed out of what layers share: it has
// lost its description, and the store is locked. Bytes that other layers need are
// moved out of it, and those that only it needed go. Ended at any moment it can
// be begun anew: bytes are in the layer or in the pool, never in none.
func Release(dir string) error {
	list, err := formerListOf(dir)
	if err != nil || len(list) == 0 {
		return err
	}
	h := holdingsOf(scratchOf(dir))
	need, err := needsOf(h.scratch, dir)
	if err != nil {
		return err
	}
	layer, err := unix.Open(LayerDir(dir), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil && !isMissing(err) {
		return err
	}
	if err == nil {
		defer unix.Close(layer)
	}
	for line, f := range list {
		if f.SHA256 == "" {
			continue
		}
		if err := h.release(f, place{filepath.Base(dir), line}, layer, need); err != nil {
			return err
		}
	}
	pool := bytesDir(h.scratch)
	if err := syncDirectory(pool); err != nil && !isMissing(err) {
		return err
	}
	err = os.Remove(pool) // the last layer takes it along
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) || isMissing(err) {
		err = nil
	}
	return err
}

// release does so for one file.
func (h *holdings) release(f file, own place, layer int, need needs) error {
	at, inPool, err := h.placeOf(f.SHA256)
	if isMissing(err) {
		return nil
	}
	needed := need.all || need.sums[f.SHA256]
	switch {
	case inPool && needed:
		return nil
	case inPool:
		return ignoreMissing(os.Remove(h.entry(f.SHA256)))
	case err == nil && at != own:
		return nil // another layer's
	case needed && !f.shared:
		return h.move(f, layer)
	}
	return ignoreMissing(os.Remove(h.entry(f.SHA256)))
}

// move puts the bytes of a layer's file in the place of the note that says that
// they are in the layer.
func (h *holdings) move(f file, layer int) error {
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC
	parent, err := unix.Openat2(layer, path.Dir(f.Paths[0]), &unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS})
	if err == nil {
		defer unix.Close(parent)
		err = unix.Renameat(parent, path.Base(f.Paths[0]), unix.AT_FDCWD, h.entry(f.SHA256))
	}
	if isMissing(err) { // somebody else took them away, and the note is wrong
		return ignoreMissing(os.Remove(h.entry(f.SHA256)))
	}
	return err
}

// needs are the bytes that layers have given up.
type needs struct {
	sums map[string]bool
	all  bool // somebody needs what nobody can tell
}

// needsOf are those of all layers but one.
func needsOf(scratch, but string) (needs, error) {
	n := needs{sums: map[string]bool{}}
	entries, err := os.ReadDir(StoreDir(scratch))
	if err != nil {
		return n, err
	}
	for _, e := range entries {
		dir := filepath.Join(StoreDir(scratch), e.Name())
		if dir == but || !isComplete(dir) {
			continue
		}
		list, err := listOf(dir)
		if err != nil {
			n.all = true
			continue
		}
		for _, f := range list {
			if f.shared {
				n.sums[f.SHA256] = true
			}
		}
	}
	return n, nil
}

func ignoreMissing(err error) error {
	if isMissing(err) {
		return nil
	}
	return err
}

func syncDirectory(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
