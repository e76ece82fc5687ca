package states

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"podgrade/isolation/tree"
)

// Least is the size of the smallest files that are shared: one of less takes no
// more space than the note of where its bytes are.
const Least = 4 << 10

// Sharing is a layer that is being kept.
type Sharing struct {
	holdings *holdings
	dir      string // of the state, which has no name yet
	files    []file
}

// Share gives up the bytes of the files of a layer that other layers hold
// already. dir is the directory of a state of which nobody knows yet. The store
// must be locked until the layer is named, and Hold has said so.
func Share(ctx context.Context, scratch, dir string, sums []tree.FileSum, info *Info) (*Sharing, error) {
	s := &Sharing{holdings: holdingsOf(scratch), dir: dir}
	layer, err := unix.Open(LayerDir(dir), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(layer)
	for _, sum := range sums {
		shared, err := s.share(ctx, layer, sum)
		if err != nil {
			return nil, err
		}
		if shared {
			info.SharedBytes += sum.Size
		}
		s.files = append(s.files, file{sum, shared})
	}
	text := format(s.files)
	info.Files = sumOf(text)
	return s, os.WriteFile(listFile(dir), text, 0o600)
}

// share gives up the bytes of one file. That others cannot be read, or are not
// equal to the last byte, leaves the file as it is.
func (s *Sharing) share(ctx context.Context, layer int, sum tree.FileSum) (bool, error) {
	p, inPool, err := s.holdings.placeOf(sum.SHA256)
	if err != nil || !inPool && !isComplete(filepath.Join(StoreDir(s.holdings.scratch), p.hex)) {
		return false, nil
	}
	same, err := s.holdings.find(sum.SHA256)
	if err != nil {
		return false, nil
	}
	defer same.Close()
	return tree.Hollow(ctx, layer, sum.Paths[0], same)
}

// Write writes the description, which makes the layer complete.
func Write(dir string, info Info) error {
	text, err := json.Marshal(info)
	if err != nil {
		return err
	}
	return os.WriteFile(InfoFile(dir), text, 0o600)
}

// Hold notes that the layer, which has its name now, holds the bytes that it did
// not give up. Without the note nobody shares them, and nothing else is lost.
func (s *Sharing) Hold(diffID string) error {
	if err := os.Mkdir(bytesDir(s.holdings.scratch), 0o700); err != nil && !os.IsExist(err) {
		return err
	}
	for i, f := range s.files {
		if f.shared {
			continue
		}
		if err := s.holdings.note(f.SHA256, place{hexOf(diffID), i}); err != nil {
			return err
		}
	}
	return nil
}

// note says where bytes are, unless they are said to be in a layer that is there.
func (h *holdings) note(sum string, at place) error {
	err := os.Symlink(at.String(), h.entry(sum))
	if !os.IsExist(err) {
		return err
	}
	p, inPool, err := h.placeOf(sum)
	if inPool || err == nil && isComplete(filepath.Join(StoreDir(h.scratch), p.hex)) {
		return nil
	}
	fresh := h.entry(strings.Repeat("0", 8)) // no sum, and only for as long as the store is locked
	if err := os.Remove(fresh); err != nil && !isMissing(err) {
		return err
	}
	if err := os.Symlink(at.String(), fresh); err != nil {
		return err
	}
	return os.Rename(fresh, h.entry(sum))
}
