package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// spent is what a measurement took.
type spent struct {
	wall      time.Duration
	processor time.Duration // of this program and all that it started, user and system
}

// spend measures what do takes. On a machine with other work the processors' time
// says more than the clock's.
func spend(do func() error) (spent, error) {
	before := processorTime()
	took, err := timed(do)
	return spent{wall: took, processor: processorTime() - before}, err
}

// processorTime is what this process and its descendants have used, those
// included that have ended and were waited for.
func processorTime() time.Duration {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	parents, used := map[int]int{}, map[int]time.Duration{}
	for _, file := range files {
		if pid, parent, time, ok := readStat(file); ok {
			parents[pid], used[pid] = parent, time
		}
	}
	var sum time.Duration
	for pid, time := range used {
		for up := pid; up > 1; up = parents[up] {
			if up == os.Getpid() {
				sum += time
				break
			}
		}
	}
	return sum
}

// readStat reads a process's parent, and its own time with that of the children
// that it has waited for, from /proc/PID/stat.
func readStat(file string) (pid, parent int, used time.Duration, ok bool) {
	text, err := os.ReadFile(file)
	end := bytes.LastIndexByte(text, ')') // of the program's name, which may hold anything
	if err != nil || end < 0 {
		return 0, 0, 0, false
	}
	const (
		tick                   = 10 * time.Millisecond // USER_HZ, on every architecture that podgrade is built for
		parentAt, first, after = 1, 11, 15             // of what follows the name: the parent; utime, stime, cutime, cstime
	)
	fields := bytes.Fields(text[end+1:])
	if len(fields) < after {
		return 0, 0, 0, false
	}
	pid, _ = strconv.Atoi(filepath.Base(filepath.Dir(file)))
	parent, _ = strconv.Atoi(string(fields[parentAt]))
	for _, field := range fields[first:after] {
		ticks, _ := strconv.ParseInt(string(field), 10, 64)
		used += time.Duration(ticks) * tick
	}
	return pid, parent, used, true
}
