package criteria

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"

	"podgrade/tasks/criteria/python"
)

// Bounds of one glob over a tree that the agent made.
const (
	maxGlobEntries = 2_000_000
	maxGlobDepth   = 200
)

// glob gives the names, relative to the root, that a pattern finds as
// pathlib's Path.glob does (Python 3.11): "*" and "?" match a leading dot too,
// "**" is any number of directories including none and does not follow links
// to directories, a part without wildcards must exist. Names may repeat no
// more than once and come in no order that means anything.
func glob(ctx context.Context, files Files, pattern string) ([]string, error) {
	if strings.HasPrefix(pattern, "/") {
		return nil, troublef("NotImplementedError", "Non-relative patterns are unsupported: '%s'", pattern)
	}
	parts := clean(pattern)
	for _, part := range parts {
		if strings.Contains(part, "**") && part != "**" {
			return nil, troublef("ValueError", "Invalid pattern: '**' can only be an entire path component: '%s'", pattern)
		}
	}
	w := &globWalk{files: files, found: map[string]bool{}}
	if err := w.match(ctx, "", parts); err != nil {
		return nil, err
	}
	names := make([]string, 0, len(w.found))
	for name := range w.found {
		names = append(names, name)
	}
	sort.Strings(names)
	return names, nil
}

// globWalk is one glob under way.
type globWalk struct {
	files   Files
	found   map[string]bool
	entries int
}

// match finds what parts match below the directory dir.
func (w *globWalk) match(ctx context.Context, dir string, parts []string) error {
	if len(parts) == 0 {
		w.found[dir] = true
		return nil
	}
	part, rest := parts[0], parts[1:]
	switch {
	case part == "**":
		for len(rest) > 0 && rest[0] == "**" {
			rest = rest[1:]
		}
		return w.descend(ctx, dir, rest, 0)
	case !strings.ContainsAny(part, "*?["):
		return w.exact(ctx, dir, part, rest)
	}
	entries, err := w.list(ctx, dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !python.Fnmatch(part, entry.Name) {
			continue
		}
		name := join(dir, entry.Name)
		if len(rest) > 0 && entry.Type != Directory && entry.Type != Symlink {
			continue
		}
		if err := w.match(ctx, name, rest); err != nil {
			return err
		}
	}
	return nil
}

// exact follows a part that is spelled out.
func (w *globWalk) exact(ctx context.Context, dir, part string, rest []string) error {
	name := dir + "/" + part
	if dir == "" {
		name = part
	}
	_, err := w.files.Stat(ctx, name)
	switch {
	case errors.Is(err, ErrNotExist), errors.Is(err, ErrNotDir), errors.Is(err, ErrEscapes), errors.Is(err, ErrDenied):
		return nil
	case err != nil:
		return fileTrouble(err, name)
	}
	return w.match(ctx, name, rest)
}

// descend matches rest in dir and in every directory below it.
func (w *globWalk) descend(ctx context.Context, dir string, rest []string, depth int) error {
	if depth > maxGlobDepth {
		return troublef("RecursionError", "directories are nested deeper than %d: '%s'", maxGlobDepth, dir)
	}
	// A pattern that ends in ** finds directories only, none of which counts.
	if len(rest) > 0 {
		if err := w.match(ctx, dir, rest); err != nil {
			return err
		}
	}
	entries, err := w.list(ctx, dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Type != Directory {
			continue
		}
		if err := w.descend(ctx, join(dir, entry.Name), rest, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// list lists a directory. What cannot be listed holds nothing, as for Python.
func (w *globWalk) list(ctx context.Context, dir string) ([]File, error) {
	if dir == "" {
		dir = "."
	}
	entries, err := w.files.List(ctx, dir)
	switch {
	case errors.Is(err, ErrNotExist), errors.Is(err, ErrNotDir), errors.Is(err, ErrDenied), errors.Is(err, ErrEscapes):
		return nil, nil
	case err != nil:
		return nil, fileTrouble(err, dir)
	}
	if w.entries += len(entries); w.entries > maxGlobEntries {
		return nil, &trouble{"OSError", fmt.Sprintf("the glob looked at more than %d entries", maxGlobEntries)}
	}
	return entries, nil
}
