package supervisor

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// descendants ends all processes that descend from this one, on a host where
// kill(-1) would hit everything of the user. Orphans come to this process, as
// it is their subreaper; so nothing leaves the tree by losing its parent.
type descendants struct {
	self int
}

func newDescendants() descendants { return descendants{self: os.Getpid()} }

// end first stops the tree, again and again until a walk finds nobody new, so
// that no fork is missed; then it kills what it stopped. A process that may
// not be signalled counts as one that is there.
func (d descendants) end() bool {
	stopped := map[int]bool{}
	for again := true; again; {
		again = false
		for _, pid := range d.walk() {
			if !stopped[pid] {
				stopped[pid], again = true, true
				d.signal(pid, syscall.SIGSTOP)
			}
		}
	}
	for pid := range stopped {
		d.signal(pid, syscall.SIGKILL)
	}
	return len(stopped) > 0
}

// pids are those of the tree.
func (d descendants) pids() []int { return d.walk() }

// ownNetwork: the network namespace is the whole host's.
func (descendants) ownNetwork() bool { return false }

// signal signals one process of the tree, and never another one that got its
// number meanwhile: the descriptor is taken first, then the process behind it
// is looked up once more.
func (d descendants) signal(pid int, signal syscall.Signal) {
	fd, err := pidfdOpen(pid)
	if err != nil {
		return
	}
	defer syscall.Close(fd)
	if d.below(pid, parentOf) {
		_ = pidfdSignal(fd, signal) // gone, or not ours to end: the next walk tells
	}
}

// walk returns the pids of all descendants.
func (d descendants) walk() []int {
	parent := map[int]int{}
	for _, name := range namesIn("/proc") {
		if pid, ok := number(name); ok {
			if up, ok := parentOf(pid); ok {
				parent[pid] = up
			}
		}
	}
	var found []int
	for pid := range parent {
		if d.below(pid, func(pid int) (int, bool) { up, ok := parent[pid]; return up, ok }) {
			found = append(found, pid)
		}
	}
	return found
}

// deepest bounds how far a process may lie below this one. A pid namespace has
// no more processes than that.
const deepest = 1 << 22

// below tells whether pid descends from this process.
func (d descendants) below(pid int, parent func(int) (int, bool)) bool {
	for range deepest {
		up, ok := parent(pid)
		switch {
		case !ok, up == pid:
			return false
		case up == d.self:
			return true
		case up <= 1:
			return false
		}
		pid = up
	}
	return false
}

// parentOf reads the parent of a process; false when it is gone.
func parentOf(pid int) (int, bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, false
	}
	return parentIn(stat)
}

// parentIn reads the parent from a /proc/PID/stat. The second field is the
// program's name in parentheses, which may hold anything; the fourth is wanted.
func parentIn(stat []byte) (int, bool) {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, false
	}
	fields := bytes.Fields(stat[end+1:])
	if len(fields) < 2 {
		return 0, false
	}
	return number(string(fields[1]))
}

// namesIn returns the names in a directory of /proc; none when it cannot be
// read.
func namesIn(dir string) []string {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	return names
}

// number reads a decimal number without sign.
func number(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 31)
	return int(n), err == nil
}
