package supervisor

import (
	"runtime"
	"syscall"

	"podgrade/isolation/protocol"
)

// probe is a system call that changes nothing whatever becomes of it.
type probe struct {
	number uintptr
	args   [6]uintptr
}

// Numbers that package syscall does not have on every architecture.
const (
	sysClone3   = 435
	sysOpenTree = 428
)

var (
	sysBPF            = map[string]uintptr{"amd64": 321, "arm64": 280}[runtime.GOARCH]
	sysSetns          = map[string]uintptr{"amd64": 308, "arm64": 268}[runtime.GOARCH]
	sysOpenByHandleAt = map[string]uintptr{"amd64": 304, "arm64": 265}[runtime.GOARCH]
)

const (
	nowhere   = 1           // an address that nobody can read
	noFile    = ^uintptr(0) // -1: no descriptor
	noFlags   = 0xffff0000  // flags that there are not
	noCommand = 0xffff
)

// probes are made so that a kernel without a filter says something else than a
// filter, where it looks at what it is given before it looks at who asks:
// EFAULT for the address, EBADF for the descriptor, EINVAL for the flags. A new
// user namespace is EINVAL for a process with threads, and, with what is shared
// here, for clone.
var probes = map[string]probe{
	"mount":             {number: syscall.SYS_MOUNT, args: [6]uintptr{nowhere, nowhere, nowhere, 0, 0}},
	"umount2":           {number: syscall.SYS_UMOUNT2, args: [6]uintptr{nowhere, noFlags}},
	"unshare":           {number: syscall.SYS_UNSHARE, args: [6]uintptr{syscall.CLONE_NEWUSER}},
	"setns":             {number: sysSetns, args: [6]uintptr{noFile, 0}},
	"clone":             {number: syscall.SYS_CLONE, args: [6]uintptr{syscall.CLONE_NEWUSER | syscall.CLONE_FS}},
	"clone3":            {number: sysClone3},
	"open_tree":         {number: sysOpenTree, args: [6]uintptr{noFile, nowhere, noFlags}},
	"keyctl":            {number: syscall.SYS_KEYCTL, args: [6]uintptr{noCommand}},
	"add_key":           {number: syscall.SYS_ADD_KEY, args: [6]uintptr{nowhere, nowhere, 0, 0, 0}},
	"request_key":       {number: syscall.SYS_REQUEST_KEY, args: [6]uintptr{nowhere, nowhere, 0, 0}},
	"bpf":               {number: sysBPF, args: [6]uintptr{noCommand}},
	"perf_event_open":   {number: syscall.SYS_PERF_EVENT_OPEN, args: [6]uintptr{nowhere, 0, 0, noFile, noFlags}},
	"prlimit64":         {number: syscall.SYS_PRLIMIT64, args: [6]uintptr{1, syscall.RLIMIT_CORE, 0, 0}},
	"io_uring_setup":    {number: sysIoUringSetup, args: [6]uintptr{0, nowhere}},
	"open_by_handle_at": {number: sysOpenByHandleAt, args: [6]uintptr{noFile, nowhere, 0}},
}

// open tries system calls that the cell's filter must refuse, and names those
// that it let through. A call that this kernel does not have is as good as
// refused, and some filters say so of clone3.
func open(names []string) protocol.Answer {
	var a protocol.Answer
	for _, name := range names {
		p, known := probes[name]
		if !known {
			return failed(protocol.Broken, "there is no system call %q to try", name)
		}
		_, _, e := syscall.RawSyscall6(p.number, p.args[0], p.args[1], p.args[2], p.args[3], p.args[4], p.args[5])
		if e != syscall.EPERM && e != syscall.ENOSYS {
			a.Open = append(a.Open, name+" ("+outcomeOf(e)+")")
		}
	}
	return a
}

func outcomeOf(e syscall.Errno) string {
	if e == 0 {
		return "it succeeded"
	}
	return e.Error()
}
