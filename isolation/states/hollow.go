package states

import (
	"fmt"
	"os"
	"path"

	"podgrade/isolation/tree"
)

// hollow are the files of a layer whose bytes lie elsewhere.
type hollow struct {
	holdings *holdings
	files    map[string]tree.FileSum // by each of their names
	dirs     map[string]bool         // those on the way to them
}

// HollowOf says which files of a complete layer are hollow; nil: it holds all its
// bytes.
func HollowOf(dir string) (tree.Elsewhere, error) {
	list, err := listOf(dir)
	if err != nil {
		return nil, err
	}
	h := &hollow{holdings: holdingsOf(scratchOf(dir)), files: map[string]tree.FileSum{}, dirs: map[string]bool{}}
	for _, f := range list {
		if f.shared {
			h.add(f.FileSum)
		}
	}
	if len(h.files) == 0 {
		return nil, nil
	}
	return h, nil
}

func (h *hollow) add(sum tree.FileSum) {
	for _, name := range sum.Paths {
		h.files[name] = sum
		for dir := path.Dir(name); dir != "." && dir != "/" && !h.dirs[dir]; dir = path.Dir(dir) {
			h.dirs[dir] = true
		}
	}
}

// Has implements tree.Elsewhere.
func (h *hollow) Has(path string) bool {
	_, ok := h.files[path]
	return ok
}

// Below implements tree.Elsewhere.
func (h *hollow) Below(dir string) bool { return h.dirs[dir] }

// Open implements tree.Elsewhere. The bytes are those that were given up, or it
// fails.
func (h *hollow) Open(path string) (*os.File, error) {
	sum, ok := h.files[path]
	if !ok {
		return nil, fmt.Errorf("%q is not hollow", path)
	}
	return h.holdings.open(sum.SHA256, sum.Size)
}
