// Package process names processes so that one that ended is never taken for
// another that got its number.
package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Identity is a process: its number, when it started, and in which life of
// the machine. Its text is "number:start:boot id".
type Identity struct {
	PID   int
	Start string // in clock ticks since the machine started
	Boot  string
}

// Self is the identity of this process.
func Self() (Identity, error) {
	start, err := startTime("self")
	if err != nil {
		return Identity{}, err
	}
	boot, err := BootID()
	return Identity{PID: os.Getpid(), Start: start, Boot: boot}, err
}

// String is what Parse reads.
func (i Identity) String() string { return fmt.Sprintf("%d:%s:%s", i.PID, i.Start, i.Boot) }

// Parse reads the text of an identity.
func Parse(text string) (Identity, error) {
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return Identity{}, fmt.Errorf("%q is no process id, start time and boot id", text)
	}
	pid, err := strconv.Atoi(parts[0])
	if err != nil || pid < 1 {
		return Identity{}, fmt.Errorf("%q is no process id", parts[0])
	}
	if _, err := strconv.ParseUint(parts[1], 10, 64); err != nil {
		return Identity{}, fmt.Errorf("%q is no start time", parts[1])
	}
	if parts[2] == "" {
		return Identity{}, errors.New("there is no boot id")
	}
	return Identity{PID: pid, Start: parts[1], Boot: parts[2]}, nil
}

// Lives tells whether the process still runs, given the boot id of now. What
// cannot be found out may live.
func (i Identity) Lives(boot string) bool {
	if i.Boot != boot {
		return false
	}
	start, err := startTime(strconv.Itoa(i.PID))
	if errors.Is(err, os.ErrNotExist) {
		return false
	}
	return err != nil || start == i.Start
}

// BootID names this life of the machine.
func BootID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text)), err
}

// startTime is when a process started, in clock ticks since the machine did.
func startTime(pid string) (string, error) {
	stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return "", err
	}
	// The command name, in parentheses, may hold anything: count from behind it.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const at = 19 // field 22 of proc(5), less pid and name, from 0
	if len(fields) <= at {
		return "", fmt.Errorf("/proc/%s/stat has %d fields", pid, len(fields)+2)
	}
	return fields[at], nil
}
