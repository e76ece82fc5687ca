package regrade

import (
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
	known := map[string]bool{}
	for _, dir := range own {
		names, _, err := programs(ctx, cell, dir)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			known[name] = true
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
			if known[name] && !s.ofVenv(dir, name) {
				found = append(found, path.Join(dir, name))
			}
		}
	}
	if extra := len(found) - mostShadows; extra > 0 {
		found = append(found[:mostShadows], fmt.Sprintf("and %d more", extra))
	}
	return found, nil
}

// ofVenv: a task that asks for a virtual environment asks for its interpreter.
func (s surroundings) ofVenv(dir, name string) bool {
	return s.task.Sandbox.Python != nil && strings.HasSuffix(dir, "/"+venvDir+"/bin") &&
		(strings.HasPrefix(name, "python") || strings.HasPrefix(name, "pip"))
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
