package isolation

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"podgrade/oci"
)

// Control groups of version 1 cannot be delegated, but root makes its own: one
// in the tree of each controller, below the group that podgrade is in.

const mountsFile = "/proc/self/mountinfo"

// firstGroups are the groups below which root makes those of cells; nil: there
// are none.
func firstGroups(mounts, self string) *groups {
	g := &groups{trees: map[string]string{}}
	for _, controller := range oci.LimitControllers() {
		dir, err := firstGroup(mounts, self, controller)
		if err == nil && unix.Access(dir, unix.W_OK) == nil {
			g.trees[controller] = dir
			g.controllers = append(g.controllers, controller)
		}
	}
	if len(g.controllers) == 0 {
		return nil
	}
	return g
}

// firstGroup is the directory of podgrade's own group in the tree of a
// controller (cgroups(7), proc(5)).
func firstGroup(mounts, self, controller string) (string, error) {
	own, err := os.ReadFile(self)
	if err != nil {
		return "", err
	}
	group, found := "", false
	for line := range strings.Lines(string(own)) {
		// "4:memory:/a/group"
		if f := strings.SplitN(strings.TrimSpace(line), ":", 3); len(f) == 3 && slices.Contains(strings.Split(f[1], ","), controller) {
			group, found = f[2], true
		}
	}
	text, err := os.ReadFile(mounts)
	if err != nil || !found {
		return "", errors.Join(err, fmt.Errorf("%s is in no tree of version 1", controller))
	}
	for line := range strings.Lines(string(text)) {
		mount, super, _ := strings.Cut(line, " - ")
		f, s := strings.Fields(mount), strings.Fields(super)
		if len(f) < 5 || len(s) < 3 || s[0] != "cgroup" || !slices.Contains(strings.Split(s[2], ","), controller) {
			continue
		}
		// What is mounted may be a group of the tree only.
		below, inside := strings.CutPrefix(group, strings.TrimSuffix(f[3], "/"))
		if inside {
			return filepath.Join(f[4], filepath.Clean("/"+below)), nil
		}
	}
	return "", fmt.Errorf("the tree of %s is not mounted", controller)
}

// removeOf removes the groups that the cells of a dead run left.
func (g *groups) removeOf(run string) {
	if g == nil {
		return
	}
	for _, tree := range g.trees {
		old, _ := filepath.Glob(filepath.Join(tree, cellGroup+run+"-*"))
		for _, dir := range old {
			unix.Rmdir(dir)
		}
	}
}
