package states

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// place is where bytes lie in a layer: the line of its list that has them. It
// stands as the target of a link so short that file systems keep it in the inode.
type place struct {
	hex  string // the layer's directory
	line int
}

func (p place) String() string {
	id, _ := hex.DecodeString(p.hex)
	return base64.RawURLEncoding.EncodeToString(id) + "." + strconv.Itoa(p.line)
}

func parsePlace(text string) (place, error) {
	id, line, _ := strings.Cut(text, ".")
	raw, err := base64.RawURLEncoding.DecodeString(id)
	n, lineErr := strconv.Atoi(line)
	if err != nil || lineErr != nil || n < 0 || len(raw) != sha256.Size {
		return place{}, fmt.Errorf("%q is no place in a layer", text)
	}
	return place{hex.EncodeToString(raw), n}, nil
}

// holdings finds bytes by their sum.
type holdings struct {
	scratch string
	lists   map[string][]file // of the layers that were asked, by their directories
}

func holdingsOf(scratch string) *holdings {
	return &holdings{scratch: scratch, lists: map[string][]file{}}
}

func (h *holdings) entry(sum string) string { return filepath.Join(bytesDir(h.scratch), sum) }

// placeOf reads where bytes are. inPool: they lie in the file of that name.
func (h *holdings) placeOf(sum string) (p place, inPool bool, err error) {
	target, err := os.Readlink(h.entry(sum))
	if errors.Is(err, unix.EINVAL) {
		return p, true, nil
	}
	if err != nil {
		return p, false, err
	}
	p, err = parsePlace(target)
	return p, false, err
}

// moves is how often bytes are looked for anew that were moved meanwhile.
const moves = 5

// find opens bytes by their sum. Whose layer is being removed has them until they
// are moved.
func (h *holdings) find(sum string) (found *os.File, err error) {
	for range moves {
		var p place
		var inPool bool
		if p, inPool, err = h.placeOf(sum); err != nil {
			return nil, err
		}
		if inPool {
			found, err = openRegular(unix.AT_FDCWD, h.entry(sum), 0)
		} else {
			found, err = h.inLayer(p, sum)
		}
		if !isMissing(err) {
			return found, err
		}
	}
	return nil, err
}

// inLayer opens bytes that a layer holds.
func (h *holdings) inLayer(p place, sum string) (*os.File, error) {
	dir := filepath.Join(StoreDir(h.scratch), p.hex)
	list, err := h.list(dir)
	if err != nil {
		return nil, err
	}
	if p.line >= len(list) || list[p.line].SHA256 != sum || list[p.line].shared {
		return nil, fmt.Errorf("the layer %s does not hold them", p.hex)
	}
	layer, err := unix.Open(LayerDir(dir), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(layer)
	return openRegular(layer, list[p.line].Paths[0], unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS)
}

func (h *holdings) list(dir string) ([]file, error) {
	list, known := h.lists[dir]
	if known {
		return list, nil
	}
	list, err := formerListOf(dir) // a layer that is being removed has it too
	if err == nil && len(list) == 0 {
		err = os.ErrNotExist // by now they were moved
	}
	if err == nil {
		h.lists[dir] = list
	}
	return list, err
}

func openRegular(dir int, path string, resolve uint64) (*os.File, error) {
	fd, err := unix.Openat2(dir, path, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC, Resolve: resolve})
	if err != nil {
		return nil, err
	}
	found := os.NewFile(uintptr(fd), path)
	if info, err := found.Stat(); err != nil || !info.Mode().IsRegular() {
		found.Close()
		return nil, errors.Join(err, errors.New("it is no regular file"))
	}
	return found, nil
}

// ErrDamaged is returned for a layer that cannot be read any more.
var ErrDamaged = errors.New("the bytes that the state layer shares with others are damaged")

// open opens bytes by their sum, and makes sure that they are those.
func (h *holdings) open(sum string, size int64) (*os.File, error) {
	found, err := h.find(sum)
	if err != nil {
		return nil, fmt.Errorf("%w: find %s: %w", ErrDamaged, sum, err)
	}
	got := sha256.New()
	n, err := io.Copy(got, found)
	if err == nil {
		_, err = found.Seek(0, io.SeekStart)
	}
	if err == nil && (n != size || hex.EncodeToString(got.Sum(nil)) != sum) {
		err = fmt.Errorf("%w: %s has another sum", ErrDamaged, sum)
	}
	if err != nil {
		found.Close()
		return nil, err
	}
	return found, nil
}
