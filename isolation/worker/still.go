package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// errMoving: a process of the cell could not be stopped.
var errMoving = errors.New("what runs in the cell cannot be stopped for the moment that it takes")

// standStill stops every process of a cell but its first, and returns what lets
// them go on. What was stopped before stays stopped.
func (c *cell) standStill(ctx context.Context) (goOn func(), err error) {
	if !c.runs() {
		return func() {}, nil
	}
	first, err := c.awaitInitPID()
	if err != nil {
		return nil, err
	}
	// A process that waits for a child it made with vfork stops for no signal,
	// and the child cannot end its wait once it is stopped: begin anew then.
	const rounds, patience = 5, time.Second
	for range rounds {
		still := stillness{}
		deadline := time.Now().Add(patience)
		for time.Now().Before(deadline) && ctx.Err() == nil {
			moving, err := still.stop(first)
			if err != nil {
				still.end()
				return nil, err
			}
			if !moving {
				return still.end, nil
			}
			time.Sleep(time.Millisecond)
		}
		still.end()
		time.Sleep(10 * time.Millisecond)
	}
	return nil, errors.Join(errMoving, ctx.Err())
}

// stillness holds what was stopped: descriptors of processes by their numbers,
// which may be given again.
type stillness map[int]int

// stop stops what descends from a process, and tells whether anything of it
// still moved.
func (s stillness) stop(first int) (moving bool, err error) {
	all, err := processes()
	if err != nil {
		return false, err
	}
	for pid, p := range all {
		if p.still || !descends(all, pid, first) {
			continue
		}
		moving = true
		fd, known := s[pid]
		if !known {
			if fd, err = unix.PidfdOpen(pid, 0); err != nil {
				continue // it is gone
			}
			if now, ok := processOf(pid); !ok || now.parent != p.parent {
				unix.Close(fd) // another one of its number, or of another parent: the next round sees
				continue
			}
			s[pid] = fd
		}
		_ = unix.PidfdSendSignal(fd, unix.SIGSTOP, nil, 0)
	}
	return moving, nil
}

// end lets all go on.
func (s stillness) end() {
	for _, fd := range s {
		_ = unix.PidfdSendSignal(fd, unix.SIGCONT, nil, 0)
		unix.Close(fd)
	}
}

// process is one that runs in the worker's namespace.
type process struct {
	parent int
	still  bool // stopped, or ended
}

func processes() (map[int]process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	all := map[int]process{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, ok := processOf(pid); ok {
			all[pid] = p
		}
	}
	return all, nil
}

// processOf reads what the kernel says about a process; false when it is gone.
func processOf(pid int) (process, bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, false
	}
	// The name is in parentheses, and may hold any byte.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return process{}, false
	}
	parent, err := strconv.Atoi(string(fields[1]))
	return process{parent: parent, still: bytes.ContainsAny(fields[0], "TtZXx")}, err == nil
}

// descends tells whether a process is below another one. In a cell all are below
// its first, which takes those whose parents ended.
func descends(all map[int]process, pid, first int) bool {
	for range len(all) {
		p, known := all[pid]
		if !known || pid == first {
			return false
		}
		if p.parent == first {
			return true
		}
		pid = p.parent
	}
	return false
}
