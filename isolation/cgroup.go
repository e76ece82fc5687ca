package isolation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"podgrade/oci"
)

// Limits of a whole cell are enforced by a control group of its own. A process
// may make groups only where one was delegated to it: below the group that
// podgrade was started in, when that is its user's and nobody else is in it.
// systemd-run --user --scope makes such a group.

const (
	groupRoot    = "/sys/fs/cgroup"
	ownGroupFile = "/proc/self/cgroup"
	groupProcs   = "cgroup.procs"
	groupControl = "cgroup.subtree_control"
	// mainGroup is the group of podgrade itself and its worker: a group with
	// groups below it may hold no process.
	mainGroup = "podgrade-main"
	// cellGroup begins the names of the groups of cells.
	cellGroup = "podgrade-cell-"
)

// groupFacts are what podgrade finds of its own control group.
type groupFacts struct {
	Version2    bool     // the root is version 2 alone
	Own         string   // the group's directory
	Writable    bool     // groups can be made below it, and processes moved
	Controllers []string // that groups below it can have
	Others      int      // processes in it that are not podgrade's
}

// notDelegated says why no group can be made; "" when one can.
func (f groupFacts) notDelegated() string {
	switch {
	case !f.Version2:
		return notUnified
	case !f.Writable:
		return "podgrade's control group is not delegated to this user"
	case f.Others > 0:
		return fmt.Sprintf("%d other processes are in podgrade's control group", f.Others)
	case len(f.Controllers) == 0:
		return "no controller is delegated to podgrade's control group"
	}
	return ""
}

// readGroupFacts looks at the group that a process is in. ours tells of a
// process whether it is podgrade's.
func readGroupFacts(root, self string, ours func(pid int) bool) (groupFacts, error) {
	f := groupFacts{}
	var st unix.Statfs_t
	if err := unix.Statfs(root, &st); err != nil {
		return f, err
	}
	if f.Version2 = st.Type == unix.CGROUP2_SUPER_MAGIC; !f.Version2 {
		return f, nil
	}
	return f.below(root, self, ours)
}

// below fills in what is found in a tree of version 2.
func (f groupFacts) below(root, self string, ours func(pid int) bool) (groupFacts, error) {
	text, err := os.ReadFile(self)
	if err != nil {
		return f, err
	}
	_, own, found := strings.Cut("\n"+string(text), "\n0::")
	if !found {
		return f, fmt.Errorf("%s names no group of version 2", self)
	}
	own, _, _ = strings.Cut(own, "\n")
	f.Own = filepath.Join(root, filepath.Clean("/"+own))
	f.Writable = true
	for _, name := range []string{"", groupProcs, groupControl} {
		f.Writable = f.Writable && unix.Access(filepath.Join(f.Own, name), unix.W_OK) == nil
	}
	controllers, err := os.ReadFile(filepath.Join(f.Own, "cgroup.controllers"))
	if err != nil {
		return f, err
	}
	for _, name := range strings.Fields(string(controllers)) {
		if slices.Contains(oci.LimitControllers(), name) {
			f.Controllers = append(f.Controllers, name)
		}
	}
	pids, err := processesIn(f.Own)
	f.Others = len(slices.DeleteFunc(pids, ours))
	return f, err
}

// processesIn lists the processes of a group.
func processesIn(group string) ([]int, error) {
	text, err := os.ReadFile(filepath.Join(group, groupProcs))
	if err != nil {
		return nil, err
	}
	var pids []int
	for field := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// descends tells whether a process is this one, or one that it started.
func descends(pid int) bool {
	for range 64 {
		if pid == os.Getpid() {
			return true
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		_, parent, found := strings.Cut(string(text), "\nPPid:\t")
		if err != nil || !found {
			return false
		}
		parent, _, _ = strings.Cut(parent, "\n")
		if pid, err = strconv.Atoi(parent); err != nil || pid <= 1 {
			return false
		}
	}
	return false
}

// groups are the control groups that podgrade may make.
type groups struct {
	dir         string   // the delegated group
	controllers []string // enabled for the groups below it
	// trees are the groups below which root makes its own where control groups
	// are of version 1, one for each controller; nil: they are of version 2.
	trees map[string]string
}

// below is the directory in which groups for a controller are made.
func (g *groups) below(controller string) string {
	if g.trees != nil {
		return g.trees[controller]
	}
	return g.dir
}

// files are those that enforce resources.
func (g *groups) files(r *specs.LinuxResources) []oci.GroupFile {
	if g.trees != nil {
		return oci.GroupFiles1(r)
	}
	return oci.GroupFiles(r)
}

// delegatedGroups takes the group that podgrade was started in over, so that
// cells can have groups of their own below it. Where it is not delegated, or is
// but does not work, there are none, and the reason is given.
//
// The worker must have its namespaces already: a process can be put only into
// groups below the root of its cgroup namespace.
func delegatedGroups() (*groups, string) {
	facts, err := readGroupFacts(groupRoot, ownGroupFile, descends)
	if err != nil {
		return nil, err.Error()
	}
	if reason := facts.notDelegated(); reason != "" {
		return nil, reason
	}
	g, err := takeOver(facts)
	if err != nil {
		return nil, err.Error()
	}
	return g, ""
}

func takeOver(f groupFacts) (*groups, error) {
	leaf := filepath.Join(f.Own, mainGroup)
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	pids, err := processesIn(f.Own)
	if err != nil {
		return nil, err
	}
	for _, pid := range pids {
		if err := writeGroup(leaf, groupProcs, strconv.Itoa(pid)); err != nil && !errors.Is(err, unix.ESRCH) {
			return nil, err
		}
	}
	g := &groups{dir: f.Own}
	for _, name := range f.Controllers {
		if err = writeGroup(f.Own, groupControl, "+"+name); err == nil {
			g.controllers = append(g.controllers, name)
		}
	}
	if len(g.controllers) == 0 {
		return nil, err
	}
	g.removeOld()
	return g, nil
}

// removeOld removes the groups of cells that a dead podgrade left: nobody else
// works here. One with a process in it stays.
func (g *groups) removeOld() {
	old, _ := filepath.Glob(filepath.Join(g.dir, cellGroup+"*"))
	for _, dir := range old {
		unix.Rmdir(dir)
	}
}

func writeGroup(group, name, value string) error {
	f, err := os.OpenFile(filepath.Join(group, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// cellLimits is the control group of one cell, of version 1 one for each
// controller.
type cellLimits struct {
	dirs      []string
	first     bool // they are of version 1
	files     []limitFile
	resources *specs.LinuxResources
	kept      []string // names of limits, as the kernel has them
	killed    int      // processes that the limit of memory had ended when we last looked
}

// limitFile is a file of a group with its path.
type limitFile struct {
	oci.GroupFile
	path string
}

// make makes a group with limits, and reads back what the kernel made of them.
// nil: there is nothing to enforce, or nothing to enforce it with.
func (g *groups) make(name string, l oci.Limits) (*cellLimits, error) {
	if g == nil {
		return nil, nil
	}
	resources := oci.Resources(l, g.controllers)
	if resources == nil {
		return nil, nil
	}
	c := &cellLimits{resources: resources, first: g.trees != nil}
	for _, file := range g.files(resources) {
		dir := filepath.Join(g.below(file.Controller), cellGroup+name)
		if !slices.Contains(c.dirs, dir) {
			c.dirs = append(c.dirs, dir)
		}
		c.files = append(c.files, limitFile{file, filepath.Join(dir, file.Name)})
	}
	if err := errors.Join(c.set(), c.readBack()); err != nil {
		return nil, errors.Join(err, c.remove())
	}
	return c, nil
}

// set makes the groups and writes their files.
func (c *cellLimits) set() error {
	for _, dir := range c.dirs {
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	for _, file := range c.files {
		err := writeGroup(filepath.Dir(file.path), file.Name, file.Value)
		if err != nil && (!file.Optional || !errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	return nil
}

// readBack compares the group's files with the resources.
func (c *cellLimits) readBack() error {
	c.kept = nil
	for _, file := range c.files {
		text, err := os.ReadFile(file.path)
		if file.Optional && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if got := strings.TrimSpace(string(text)); got != file.Value {
			return fmt.Errorf("%s of its control group is %q, not %q", file.Name, got, file.Value)
		}
		if !slices.Contains(c.kept, file.Limit) {
			c.kept = append(c.kept, file.Limit)
		}
	}
	return nil
}

// holds tells whether a cell's processes are in the group, with its limits as
// they were set.
func (c *cellLimits) holds() error {
	if err := c.readBack(); err != nil {
		return err
	}
	for _, dir := range c.dirs {
		pids, err := processesIn(dir)
		if err == nil && len(pids) == 0 {
			err = errors.New("its control group holds no process")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// forRuntime is the group as a runtime names it that enters it by itself, from the
// root of the hierarchy on; "": there is none. It is made anew where a runtime has
// removed it with a container before: they think that a group they entered is
// theirs.
func (c *cellLimits) forRuntime() (string, error) {
	if c == nil {
		return "", nil
	}
	below, found := strings.CutPrefix(c.dirs[0], groupRoot+"/")
	if c.first || len(c.dirs) != 1 || !found {
		return "", fmt.Errorf("a runtime has no name for the control group %s", c.dirs[0])
	}
	return "/" + below, c.set()
}

// doors are what a process enters the groups by: the directory of one of version
// 2, of those of version 1 the files to which it writes.
func (c *cellLimits) doors() (doors []*os.File, err error) {
	for _, dir := range c.dirs {
		var door *os.File
		if c.first {
			door, err = os.OpenFile(filepath.Join(dir, groupProcs), os.O_WRONLY, 0)
		} else {
			door, err = os.Open(dir)
		}
		if err != nil {
			closeAll(doors)
			return nil, err
		}
		doors = append(doors, door)
	}
	return doors, nil
}

// overMemory tells whether the limit of memory has ended a process since it was
// last asked.
func (c *cellLimits) overMemory() bool {
	if c == nil {
		return false
	}
	for _, dir := range c.dirs {
		for _, name := range []string{"memory.events", "memory.oom_control"} { // of version 2, and of version 1
			text, err := os.ReadFile(filepath.Join(dir, name))
			_, rest, found := strings.Cut("\n"+string(text), "\noom_kill ")
			count, _, _ := strings.Cut(rest, "\n")
			n, wrong := strconv.Atoi(count)
			if errors.Join(err, wrong) == nil && found && n > c.killed {
				c.killed = n
				return true
			}
		}
	}
	return false
}

// asSpec is what the specification says of the group.
func (c *cellLimits) asSpec() *specs.LinuxResources {
	if c == nil {
		return nil
	}
	return c.resources
}

// remove removes the group of a cell that has ended. Its last process may be on
// its way out still.
func (c *cellLimits) remove() error {
	if c == nil {
		return nil
	}
	var errs []error
	for _, dir := range c.dirs {
		errs = append(errs, removeGroup(dir))
	}
	return errors.Join(errs...)
}

func removeGroup(dir string) error {
	for end := time.Now().Add(time.Second); ; time.Sleep(5 * time.Millisecond) {
		err := unix.Rmdir(dir)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("remove the control group %s: %w", dir, err)
		}
	}
}

// notUnified is why a host has no control groups that podgrade could take over. A
// group of its own does not change that.
const notUnified = "this host has no control groups of version 2 alone"
