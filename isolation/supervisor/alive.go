package supervisor

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"podgrade/isolation/protocol"
)

// killPatience is endPatience where nobody waits for a command's answer: on a
// busy machine some hundred processes take their time to die.
const killPatience = 30 * time.Second

// killAll carries OpKillAll out: what was alive, then the end of it.
func (s *supervisor) killAll() *protocol.KillCount {
	alive := s.processes.alive()
	return &protocol.KillCount{Stuck: !s.processes.endAll(killPatience), Ended: alive}
}

// alive lists the processes that the supervisor answers for, but for the
// commands under way. What it may not look into (a process of another user, or
// one that made itself untraceable) it knows only when it is its parent, and
// then only by its number.
func (p *processes) alive() []protocol.Process {
	pids := p.ender.pids()
	p.mu.Lock()
	pids = slices.DeleteFunc(pids, func(pid int) bool { return p.waits[pid] != nil })
	p.mu.Unlock()
	slices.Sort(pids)
	pids = slices.Compact(pids)
	sockets := readSockets()
	var list []protocol.Process
	for _, pid := range pids[:min(len(pids), protocol.MaxProcesses)] {
		if found, ok := look(pid, sockets); ok {
			list = append(list, found)
		}
	}
	if p.ender.ownNetwork() {
		if rest := sockets.rest(); len(rest) > 0 {
			list = append(list, protocol.Process{Ports: rest})
		}
	}
	return list
}

// look describes one process, and takes its ports from the sockets. It is false
// for one that has ended, reaped or not.
func look(pid int, sockets sockets) (protocol.Process, bool) {
	dir := "/proc/" + strconv.Itoa(pid)
	found := protocol.Process{PID: pid}
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return found, !os.IsNotExist(err) || isChild(pid)
	}
	name, state := nameIn(stat)
	if state == 'Z' || state == 'X' {
		return found, false
	}
	found.Name = name
	found.Command = commandLine(dir + "/cmdline")
	for _, fd := range namesIn(dir + "/fd") {
		if link, err := os.Readlink(dir + "/fd/" + fd); err == nil {
			if port, ok := sockets.take(link); ok {
				found.Ports = append(found.Ports, port)
			}
		}
	}
	slices.SortFunc(found.Ports, comparePorts)
	found.Ports = slices.Compact(found.Ports)
	found.Ports = found.Ports[:min(len(found.Ports), protocol.MaxPorts)]
	return found, true
}

// nameIn reads a process's name and state from a /proc/PID/stat.
func nameIn(stat []byte) (name string, state byte) {
	begin, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if begin < 0 || end < begin {
		return "", 0
	}
	if len(stat) > end+2 {
		state = stat[end+2]
	}
	return string(stat[begin+1 : end]), state
}

// commandLine reads the beginning of a process's arguments.
func commandLine(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	buf := make([]byte, protocol.MaxCommandLine)
	n, _ := f.Read(buf)
	return strings.ReplaceAll(strings.TrimRight(string(buf[:n]), "\x00"), "\x00", " ")
}

// children returns the numbers of this process's own children: /proc says them
// of all, whoever may look into them.
func children() []int {
	var pids []int
	for _, thread := range namesIn("/proc/self/task") {
		list, _ := os.ReadFile("/proc/self/task/" + thread + "/children")
		for _, field := range bytes.Fields(list) {
			if pid, ok := number(string(field)); ok {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// isChild tells whether pid is a child of this process's that is still there.
func isChild(pid int) bool { return slices.Contains(children(), pid) }

// numbersIn returns the numbers of the processes that /proc shows.
func numbersIn(dir string) []int {
	var pids []int
	for _, name := range namesIn(dir) {
		if pid, ok := number(name); ok {
			pids = append(pids, pid)
		}
	}
	return pids
}
