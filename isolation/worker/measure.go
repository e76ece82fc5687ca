package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"podgrade/oci"
)

// measure reads from outside what the kernel says about a started cell.
func (s *server) measure(ctx context.Context, c *cell, answer *Reply) error {
	if !c.runs() || c.spec == nil {
		return fmt.Errorf("cell %s does not run", c.name)
	}
	if c.compiles != "" {
		answer.Filter = s.filter.keep(s.settings.Run, c.container(), c.compiles)
	}
	pid, err := c.awaitInitPID()
	if err != nil {
		return err
	}
	proc := fmt.Sprintf("/proc/%d/", pid)
	m := oci.Measured{Namespaces: map[string]string{}, Outside: map[string]string{}}
	for name, to := range map[string]*string{
		"status": &m.Status, "uid_map": &m.UIDMap, "gid_map": &m.GIDMap,
		"mountinfo": &m.Mountinfo, "limits": &m.Limits,
	} {
		text, err := os.ReadFile(proc + name)
		if err != nil {
			return fmt.Errorf("measure the cell: %w", err)
		}
		*to = string(text)
	}
	for _, name := range oci.NamespaceFiles() {
		cell, err1 := os.Readlink(proc + "ns/" + name)
		outside, err2 := os.Readlink("/proc/self/ns/" + name)
		if err := errors.Join(err1, err2); err != nil {
			return fmt.Errorf("measure the cell's namespaces: %w", err)
		}
		m.Namespaces[name], m.Outside[name] = cell, outside
	}
	c.first.Store(int64(pid)) // before the others are looked at: of two that are measured at once one sees the other
	m.Neighbours = s.neighbours(c, m.Namespaces)
	if m.Interfaces, err = interfaces(proc + "net/dev"); err != nil {
		return fmt.Errorf("measure the cell's network: %w", err)
	}
	if err := c.measureMounts(proc, &m); err != nil {
		return fmt.Errorf("measure the cell's mounts: %w", err)
	}
	answer.Measured = &m
	return c.mark(ctx)
}

// neighbours are the names of the namespaces that another measured cell is in as well.
func (s *server) neighbours(c *cell, own map[string]string) (names []string) {
	s.mu.Lock()
	others := slices.Collect(maps.Values(s.cells))
	s.mu.Unlock()
	for _, name := range oci.NamespaceFiles() {
		shared := slices.ContainsFunc(others, func(other *cell) bool {
			pid := other.first.Load()
			if other == c || pid == 0 {
				return false
			}
			link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, name))
			return err == nil && link == own[name] // one that cannot be read has ended
		})
		if shared {
			names = append(names, name)
		}
	}
	return names
}

// stopped tells whether somebody stopped the cell's first process, or traces it.
// None of the cell's own processes can.
func (s *server) stopped(c *cell, answer *Reply) error {
	pid, err := c.initPID()
	if err != nil {
		return err
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return fmt.Errorf("look at the cell's first process: %w", err)
	}
	// The state follows the program's name in parentheses, which may hold
	// anything.
	_, state, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " ")
	answer.Stopped = strings.HasPrefix(strings.ToUpper(state), "T")
	return nil
}

// interfaces reads the names of a network namespace's interfaces, sorted.
func interfaces(file string) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var names []string
	for line := range strings.Lines(string(text)) {
		if name, _, ok := strings.Cut(line, ":"); ok {
			names = append(names, strings.TrimSpace(name))
		}
	}
	slices.Sort(names)
	return names, nil
}

// measureMounts compares each bind with what we prepared by device and inode,
// and looks at each path that should be covered, resolving all in the cell.
func (c *cell) measureMounts(proc string, m *oci.Measured) error {
	root, err := unix.Open(proc+"root", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	prepared, err := c.preparedRoot()
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	m.Root = err == nil && sameFile(root, "/", prepared)
	m.Binds, m.Covers = map[string]bool{}, map[string]oci.Cover{}
	for _, mount := range c.spec.Mounts {
		if mount.Type == "bind" {
			m.Binds[mount.Destination] = sameFile(root, mount.Destination, mount.Source)
		}
	}
	for _, path := range slices.Concat(c.spec.Linux.MaskedPaths, c.spec.Linux.ReadonlyPaths) {
		m.Covers[path] = cover(root, path)
	}
	return nil
}

// preparedRoot is the directory that the runtime was to make the cell's root: ours,
// or the one that Podman mounted for its container, which it does not say where it
// calls no hook.
func (c *cell) preparedRoot() (string, error) {
	if c.adopted == nil {
		return c.rootfs(), nil
	}
	path, err := os.ReadFile(rootFile(c.specFile()))
	if err != nil {
		return "", fmt.Errorf("find the root that Podman mounted: %w", err)
	}
	return string(path), nil
}

func sameFile(root int, inCell, outside string) bool {
	fd, err := openInRoot(root, inCell, unix.O_PATH)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var have, want unix.Stat_t
	return unix.Fstat(fd, &have) == nil && unix.Stat(outside, &want) == nil && have.Dev == want.Dev && have.Ino == want.Ino
}

func cover(root int, path string) oci.Cover {
	fd, err := openInRoot(root, path, unix.O_PATH|unix.O_NOFOLLOW)
	if err == unix.ENOENT {
		return oci.CoverAbsent
	}
	if err != nil {
		return oci.CoverNone
	}
	defer unix.Close(fd)
	var st unix.Statx_t
	if unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_TYPE, &st) != nil {
		return oci.CoverNone
	}
	if st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return oci.CoverMount
	}
	return oci.CoverNone
}
