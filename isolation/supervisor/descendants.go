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

// signal signals one process of the tree, and never another one that got its
// number meanwhile: the descriptor is taken first, then the process behind it
// is looked up once more.
func (d descendants) signal(pid int, signal syscall.Signal) {
	fd, err := pidfdOpen(pid)
	if err != nil {
		return
	}
	defer syscall.Close(fd)
	if d.below(pid, parents()) {
		_ = pidfdSignal(fd, signal) // gone, or not ours to end: the next walk tells
	}
}

// walk returns the pids of all descendants.
func (d descendants) walk() []int {
	parent := parents()
	var found []int
	for pid := range parent {
		if d.below(pid, parent) {
			found = append(found, pid)
		}
	}
	return found
}

// below tells whether pid descends from this process.
func (d descendants) below(pid int, parent map[int]int) bool {
	for range len(parent) {
		up, ok := parent[pid]
		if !ok || up <= 1 && up != d.self {
			return false
		}
		if up == d.self {
			return true
		}
		pid = up
	}
	return false
}

// parents maps each visible process to its parent.
func parents() map[int]int {
	parent := map[int]int{}
	for _, name := range namesIn("/proc") {
		pid, ok := number(name)
		if !ok {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // it is gone
		}
		if up, ok := parentIn(stat); ok {
			parent[pid] = up
		}
	}
	return parent
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
