package oci

import specs "github.com/opencontainers/runtime-spec/specs-go"

// Rlimit is the caller's present limit of one resource.
type Rlimit struct{ Soft, Hard uint64 }

// Unlimited is RLIM_INFINITY.
const Unlimited = ^uint64(0)

const (
	openFiles        = 1048576 // what Docker gives
	supervisorMargin = 64      // processes that the supervisor may have above its commands
	defaultProcesses = 4096    // of a cell whose task says nothing
)

// rlimits gives a cell what containers usually have, clamped to the hard
// limits of the caller: a higher one fails.
func rlimits(host map[string]Rlimit, processes uint64) []specs.POSIXRlimit {
	want := []specs.POSIXRlimit{
		{Type: "RLIMIT_CORE", Soft: 0, Hard: 0}, // a core file of an agent is nobody's evidence
		{Type: "RLIMIT_NOFILE", Soft: openFiles, Hard: openFiles},
		{Type: "RLIMIT_NPROC", Soft: processes + supervisorMargin, Hard: processes + supervisorMargin},
	}
	for i := range want {
		if have, ok := host[want[i].Type]; ok {
			want[i].Hard = min(want[i].Hard, have.Hard)
			want[i].Soft = min(want[i].Soft, want[i].Hard)
		}
	}
	return want
}

// Processes is how many processes and threads the commands of a cell may have
// together. It lies below the supervisor's own limit, so that a fork bomb
// cannot keep it from starting the next command.
func Processes(l Limits, host map[string]Rlimit) uint64 {
	n := uint64(defaultProcesses)
	if l.PIDs > 0 {
		n = uint64(l.PIDs)
	}
	if have, ok := host["RLIMIT_NPROC"]; ok && have.Hard != Unlimited && have.Hard > supervisorMargin {
		n = min(n, have.Hard-supervisorMargin)
	}
	return n
}
