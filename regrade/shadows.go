package regrade

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"podgrade/isolation"
	"podgrade/policy"
)

// mostShadows caps the paths that a stamp names.
const mostShadows = 50

// shadows lists what stands in front of a program of the image on the search
// path of a grade: files of directories that only the workspace or the recorded
// PATH brings, under the name of a program that the image has on its own PATH
// (design: State layers). On the host nothing is pinned that could be hidden.
func (s surroundings) shadows(ctx context.Context, cell isolation.Cell, image isolation.Image, env []string) ([]string, error) {
	own := directoriesOf(searchPathOf(image.Env))
	front := slices.DeleteFunc(directoriesOf(searchPathOf(env)), func(dir string) bool { return slices.Contains(own, dir) })
	if s.accepted.Place() != policy.InCell || len(front) == 0 {
		return nil, nil
	}
	known := map[string][]string{} // places by name
	for _, dir := range own {
		names, _, err := programs(ctx, cell, dir)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			known[name] = append(known[name], path.Join(dir, name))
		}
	}
	var found []string
	for _, dir := range front {
		names, all, err := programs(ctx, cell, dir)
		if err != nil {
			return nil, err
		}
		if !all {
			found = append(found, dir)
		}
		for _, name := range names {
			if known[name] == nil {
				continue
			}
			honest, err := s.ofVenv(ctx, cell, path.Join(dir, name), known)
			if err != nil {
				return nil, err
			}
			if !honest {
				found = append(found, path.Join(dir, name))
			}
		}
	}
	if extra := len(found) - mostShadows; extra > 0 {
		found = append(found[:mostShadows], fmt.Sprintf("and %d more", extra))
	}
	return found, nil
}

// ofVenv tells whether a program is what a task's virtual environment is made
// with: a python that leads to one of the image's own, or a pip that is run by the
// python beside it. What is installed there is the task's.
func (s surroundings) ofVenv(ctx context.Context, cell isolation.Cell, program string, known map[string][]string) (bool, error) {
	dir, name := path.Split(program)
	if s.task.Sandbox.Python == nil || !strings.HasSuffix(dir, "/"+venvDir+"/bin/") {
		return false, nil
	}
	switch {
	case strings.HasPrefix(name, "python"):
		return leadsToPython(ctx, cell, program, known)
	case strings.HasPrefix(name, "pip"):
		return isScriptOf(ctx, cell, program, dir+"python")
	}
	return false, nil
}

// leadsToPython tells whether a program is one of the image's pythons.
func leadsToPython(ctx context.Context, cell isolation.Cell, program string, known map[string][]string) (bool, error) {
	is, err := placeOf(ctx, cell, program)
	if err != nil || is == "" {
		return false, err
	}
	for name, places := range known {
		if !strings.HasPrefix(name, "python") {
			continue
		}
		for _, place := range places {
			if own, err := placeOf(ctx, cell, place); err != nil || own == is {
				return own == is, err
			}
		}
	}
	return false, nil
}

// placeOf is where a file of the cell really lies; "" when there is none.
func placeOf(ctx context.Context, cell isolation.Cell, name string) (string, error) {
	file, err := cell.Stat(ctx, "/", name)
	if badPlace(err) {
		return "", nil
	}
	return file.Path, err
}

// longestScript is longer than any script that pip makes of itself.
const longestScript = 4 << 10

// isScriptOf tells whether a file is a short script that a program runs whose path
// begins so.
func isScriptOf(ctx context.Context, cell isolation.Cell, name, program string) (bool, error) {
	var text bytes.Buffer
	_, err := cell.Read(ctx, "/", name, longestScript, &text)
	if errors.Is(err, isolation.ErrTooLarge) || badPlace(err) {
		return false, nil
	}
	return strings.HasPrefix(text.String(), "#!"+program), err
}

// programs lists the names in a directory of PATH; all is false when there are
// more than can be told.
func programs(ctx context.Context, cell isolation.Cell, dir string) (names []string, all bool, err error) {
	entries, err := cell.List(ctx, "/", dir, mostListed)
	switch {
	case errors.Is(err, isolation.ErrTooLarge):
		return nil, false, nil
	case badPlace(err):
		return nil, true, nil
	case err != nil:
		return nil, false, err
	}
	for _, entry := range entries {
		names = append(names, entry.Name)
	}
	return names, true, nil
}

// searchPathOf is the PATH of an environment, the usual one when it has none.
func searchPathOf(env []string) string {
	found := newEnvironment()
	found.set(envPath, fallbackPath)
	found.add(env)
	return found.get(envPath)
}

// directoriesOf are the absolute directories of a PATH, without repeats.
func directoriesOf(searchPath string) []string {
	var dirs []string
	for _, dir := range strings.Split(searchPath, ":") {
		if path.IsAbs(dir) && !slices.Contains(dirs, path.Clean(dir)) {
			dirs = append(dirs, path.Clean(dir))
		}
	}
	return dirs
}
