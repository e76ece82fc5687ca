// Package attacktest says what the hostile program isolation/testdata/attack
// may achieve: it is one table for every place that commands run in, with and
// without a container. It is imported by tests only.
package attacktest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"podgrade/isolation/protocol"
)

// Variable must be "yes" in the environment of the hostile program, which
// otherwise refuses to start.
const Variable = "PODGRADE_ATTACK"

// Defences are what a place has, beyond the supervisor's own, against the
// attacks that need it. Without it an attack may end the place.
type Defences uint

// The defences that an engine makes.
const (
	// HidePID: /proc is mounted with hidepid=2.
	HidePID Defences = 1 << iota
	// Seccomp: prlimit64 is refused for every pid but 0.
	Seccomp
	// ToolMount: the supervisor's binary has mode 0111 and lies in a directory
	// that is a read-only mount itself.
	ToolMount
)

// Attack is one run of the hostile program.
type Attack struct {
	Name  string
	Args  []string
	Needs Defences
	// Limits and Timeout belong to the command that runs the program.
	Limits  []protocol.Limit
	Timeout time.Duration
	// Codes are the exit statuses that are allowed; nil: any.
	Codes []int
	// TimedOut, Held: the command must end so.
	TimedOut, Held bool
	// MayStick: so many processes die that a busy machine may take longer than the
	// supervisor waits. The host then ends the cell, which is the command's failure.
	MayStick bool
	// Line judges one line "NAME: OUTCOME"; nil: any is allowed.
	Line func(name, outcome string) bool
	// Lines is how many lines there must be at least.
	Lines int
	// OutOfMemory: it takes all that it can get.
	OutOfMemory bool
}

// threads is how many threads PID 1 has at least: a Go program has never fewer,
// and an attack that finds fewer has not found them.
const threads = 3

const (
	limitNproc = 6
	limitAS    = 9
)

// Attacks is the table. Mark appears in the arguments of every process that an
// attack leaves behind: none may be left after a time-out.
func Attacks(mark, toolPath string) []Attack {
	ok := []int{0}
	crowd := []protocol.Limit{{Resource: limitNproc, Value: 120}}
	return []Attack{
		{Name: "all signals to PID 1 and its threads", Args: []string{"signals"}, Codes: ok, Line: signalsLine, Lines: 1 + threads},
		{Name: "trace PID 1", Args: []string{"trace"}, Codes: ok, Line: refused, Lines: 6 * threads},
		{Name: "open all of /proc/1", Args: []string{"proc"}, Needs: HidePID, Codes: ok, Line: refused, Lines: 2 * 2 * 100 * threads},
		{Name: "limits of PID 1", Args: []string{"limits"}, Needs: Seccomp, Codes: ok, Line: refused, Lines: 2 * 16 * threads},
		{Name: "scheduling of PID 1", Args: []string{"scheduler"}, Codes: ok, Lines: 4 * threads},
		{Name: "a pidfd of PID 1", Args: []string{"pidfd"}, Codes: ok, Line: pidfdLine, Lines: 66 + threads},
		{Name: "the supervisor's binary", Args: []string{"tool", toolPath}, Needs: ToolMount, Codes: ok, Line: refused, Lines: 9},
		{Name: "inherited descriptors", Args: []string{"fds"}, Codes: ok, Line: onlyStandard, Lines: 3},
		{Name: "false frames", Args: []string{"frames"}, Codes: []int{9}},
		{Name: "kill everything", Args: []string{"killall"}, Codes: []int{137}},
		{Name: "fork bomb", Args: []string{"bomb", "60"}, Limits: crowd, Timeout: 2 * time.Second, TimedOut: true, MayStick: true},
		{Name: "threads", Args: []string{"threads", "60"}, Limits: crowd, Timeout: 5 * time.Second},
		{Name: "all memory", Args: []string{"hog"}, Limits: []protocol.Limit{{Resource: limitAS, Value: 850 << 20}}, Timeout: 20 * time.Second, Codes: ok, Lines: 2, OutOfMemory: true},
		{Name: "a proof sleeper", Args: []string{"linger", mark, "60"}, Timeout: time.Second, TimedOut: true, Lines: 3},
		{Name: "held output", Args: []string{"hold", mark, "60"}, Timeout: time.Second, Codes: ok, TimedOut: true, Held: true, Lines: 1},
		{Name: "a chain of processes", Args: []string{"spawn", mark, "60"}, Timeout: time.Second},
	}
}

// Check compares what became of an attack with what is allowed, and returns
// what is wrong.
func (a Attack) Check(exit protocol.Exit, stdout string) []string {
	var wrong []string
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if a.Codes != nil && !slices.Contains(a.Codes, exit.Code) && !(a.OutOfMemory && exit.Code == 2) {
		complain("it ended with %d, allowed is %d", exit.Code, a.Codes)
	}
	if exit.TimedOut != a.TimedOut && (a.TimedOut || a.Timeout == 0) {
		complain("timed out: %v", exit.TimedOut)
	}
	if exit.Held != a.Held && a.Held {
		complain("its output was not held")
	}
	if exit.Stuck && !a.MayStick {
		complain("something could not be ended")
	}
	lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
	if stdout == "" {
		lines = nil
	}
	// The runtime of Go ends with 2, without a word on standard output, where it is
	// itself refused memory.
	if len(lines) < a.Lines && !(a.OutOfMemory && exit.Code == 2) {
		complain("it printed %d lines, not %d", len(lines), a.Lines)
	}
	for _, line := range lines {
		name, outcome, _ := strings.Cut(line, ": ")
		if a.Line != nil && !a.Line(name, outcome) {
			complain("%s", line)
		}
	}
	return wrong
}

// refused: nothing of it may succeed.
func refused(_, outcome string) bool { return strings.HasPrefix(outcome, "refused") }

// signalsLine: every signal reaches PID 1, to no effect; else nothing was tried.
func signalsLine(name, outcome string) bool {
	return name == "thread" || outcome == "64 of 64 accepted"
}

// pidfdLine: a descriptor of PID 1 may be had, and signals may be sent that
// have no effect; nothing may be taken through it.
func pidfdLine(name, outcome string) bool {
	return strings.HasPrefix(name, "pidfd_open") || strings.HasPrefix(name, "pidfd_send_signal") || refused(name, outcome)
}

// onlyStandard: standard input is /dev/null, the outputs are pipes, and there
// is nothing else.
func onlyStandard(name, outcome string) bool {
	switch name {
	case "descriptor 0":
		return outcome == "/dev/null"
	case "descriptor 1", "descriptor 2":
		return strings.HasPrefix(outcome, "pipe:")
	}
	return false
}
