package supervisor

import (
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"podgrade/isolation/protocol"
)

// A command is started by vfork: between the fork and the exec the child runs
// in the supervisor's memory, on its stack, while the thread that forked waits.
// There it does what must be done in the child (its Landlock domain, its
// limits), which package syscall has no way to ask for. A program in between
// would do that too, at five times the price of a small command.
//
// What the child may do is what syscall's own does: system calls, and no
// function that could grow the stack, allocate, or be preempted. It is traced
// by nobody: until its exec it shares the supervisor's memory, which is not
// dumpable, and it enters its Landlock domain before that.

// rawVfork is clone(2) with CLONE_VM and CLONE_VFORK: it returns twice, in the
// child with 0.
func rawVfork(flags uintptr) (pid, errno uintptr)

// stage is the step of the child that failed.
type stage uintptr

const (
	stageNone stage = iota
	stageSetup
	stageDir
	stageLimit
	stageExec
)

// fate is what the child leaves behind in the supervisor's memory. Numbers only:
// writing a pointer could call into the runtime.
type fate struct {
	stage stage
	errno uintptr
	which int // candidate or limit, from 1 on; 0: none
}

// birth is all that the child needs, in the form that the kernel takes.
type birth struct {
	files      [3]int // its standard streams
	landlock   int    // ruleset; -1: none
	terminal   bool   // files[0] becomes the controlling terminal
	dir        *byte
	umask      uintptr
	limits     []limit
	names      []string // where the program may lie
	candidates []*byte  // the same
	argv, env  []*byte  // ending in nil
}

type limit struct {
	resource int
	value    syscall.Rlimit
}

// newBirth prepares the start of a command.
func newBirth(r *protocol.Run, files [3]int, ruleset int) (*birth, *mishap) {
	b := &birth{files: files, landlock: -1, terminal: r.Terminal != nil, umask: uintptr(r.Umask & 0o777)}
	if r.Landlock {
		b.landlock = ruleset
	}
	var failed *mishap
	one := func(s string) *byte {
		p, err := syscall.BytePtrFromString(s)
		if err != nil && failed == nil {
			failed = &mishap{stage: stageSetup, errno: errno(err), text: "a NUL byte in an argument, a variable or the directory"}
		}
		return p
	}
	all := func(list []string) []*byte {
		pointers := make([]*byte, 0, len(list)+1)
		for _, s := range list {
			pointers = append(pointers, one(s))
		}
		return append(pointers, nil)
	}
	b.dir, b.argv, b.env = one(r.Dir), all(r.Argv), all(r.Env)
	b.names = programs(r)
	b.candidates = all(b.names)[:len(b.names)]
	if failed != nil {
		return nil, failed
	}
	b.limits, failed = limitsOf(r.Limits)
	return b, failed
}

func limitName(resource int) string { return "resource " + strconv.Itoa(resource) }

// limitsOf are the limits to set, soft and hard, none above the hard limit that
// is in force: only root could raise it.
func limitsOf(asked []protocol.Limit) ([]limit, *mishap) {
	var limits []limit
	for _, l := range asked {
		var now syscall.Rlimit
		if err := syscall.Getrlimit(l.Resource, &now); err != nil {
			return nil, &mishap{stage: stageLimit, errno: errno(err), text: limitName(l.Resource)}
		}
		value := min(l.Value, now.Max)
		limits = append(limits, limit{resource: l.Resource, value: syscall.Rlimit{Cur: value, Max: value}})
	}
	return limits, nil
}

// spawn makes the child. It returns when the child has become the command, has
// failed (fate says how; it is not reaped yet), or is dead.
func (b *birth) spawn() (pid int, f fate, err error) {
	// The child runs Go code for a moment, on this thread's stack: no signal may
	// call into the runtime meanwhile, in child or parent.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := blockSignals()
	n, e := b.vfork(&f)
	setSignalMask(before)
	runtime.KeepAlive(b)
	if e != 0 {
		return 0, f, syscall.Errno(e)
	}
	return int(n), f, nil
}

// vfork is written after syscall.forkAndExecInChild1, and its rules hold: after
// rawVfork nothing but assignments and raw system calls.
//
//go:noinline
//go:norace
//go:nocheckptr
func (b *birth) vfork(f *fate) (pid, errno uintptr) {
	var e syscall.Errno
	var action [4]uint64 // SIG_DFL, see signalsToDefault
	var nothing uint64   // an empty signal mask
	var at unsafe.Pointer

	pid, errno = rawVfork(syscall.CLONE_VM | syscall.CLONE_VFORK | uintptr(syscall.SIGCHLD))
	if pid != 0 || errno != 0 {
		return pid, errno
	}

	// The child.
	for s := uintptr(1); s <= highestSignal; s++ {
		if s != uintptr(syscall.SIGKILL) && s != uintptr(syscall.SIGSTOP) {
			syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, s, uintptr(unsafe.Pointer(&action)), 0, sizeOfSignalMask, 0, 0)
		}
	}
	f.stage = stageSetup
	if _, _, e = syscall.RawSyscall(syscall.SYS_SETSID, 0, 0, 0); e != 0 {
		goto failed
	}
	for i := 0; i < len(b.files); i++ {
		if _, _, e = syscall.RawSyscall(syscall.SYS_DUP3, uintptr(b.files[i]), uintptr(i), 0); e != 0 {
			goto failed
		}
	}
	if b.terminal {
		if _, _, e = syscall.RawSyscall(syscall.SYS_IOCTL, 0, syscall.TIOCSCTTY, 0); e != 0 {
			goto failed
		}
	}
	// Ours all close on exec; this is for what we were started with. Before
	// Linux 5.11 there is no such call, and harden has done it one by one.
	syscall.RawSyscall(sysCloseRange, 3, uintptr(highestRangeDescriptor), closeRangeCloexec)
	if b.landlock >= 0 {
		// Where the kernel has it: see landlockRuleset.
		syscall.RawSyscall(sysLandlockRestrictSelf, uintptr(b.landlock), 0, 0)
	}
	f.stage = stageDir
	if _, _, e = syscall.RawSyscall(syscall.SYS_CHDIR, uintptr(unsafe.Pointer(b.dir)), 0, 0); e != 0 {
		goto failed
	}
	syscall.RawSyscall(syscall.SYS_UMASK, b.umask, 0, 0)
	f.stage = stageLimit
	for i := 0; i < len(b.limits); i++ {
		f.which = i + 1
		at = unsafe.Pointer(&b.limits[i].value)
		if _, _, e = syscall.RawSyscall6(syscall.SYS_PRLIMIT64, 0, uintptr(b.limits[i].resource), uintptr(at), 0, 0, 0); e != 0 {
			goto failed
		}
	}
	syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, sigSetMask, uintptr(unsafe.Pointer(&nothing)), 0, sizeOfSignalMask, 0, 0)
	b.exec(f)

failed:
	if f.stage != stageExec {
		f.errno = uintptr(e)
	}
	for {
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, exitNotRun, 0, 0)
	}
}

// exec tries each candidate by executing it, which alone tells whether it can
// be, and leaves why none could: a refusal says more than an absence. It runs
// in the child.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (b *birth) exec(f *fate) {
	dir, why, which := atFDCWD, syscall.ENOENT, 0
	for i := 0; i < len(b.candidates); i++ {
		_, _, e := syscall.RawSyscall(syscall.SYS_EXECVE, uintptr(unsafe.Pointer(b.candidates[i])),
			uintptr(unsafe.Pointer(&b.argv[0])), uintptr(unsafe.Pointer(&b.env[0])))
		switch e {
		case syscall.ENOENT, syscall.ENOTDIR:
			// Where it is there, its interpreter or loader is not.
			_, _, absent := syscall.RawSyscall6(syscall.SYS_FACCESSAT, uintptr(dir), uintptr(unsafe.Pointer(b.candidates[i])), 0, 0, 0, 0)
			if absent == 0 {
				why, which = e, i+1
			}
			continue
		case syscall.EACCES, syscall.ENAMETOOLONG, syscall.ELOOP:
			if why == syscall.ENOENT {
				why, which = e, i+1
			}
			continue
		}
		why, which = e, i+1
		break
	}
	// Only now: what was executed leaves nothing here.
	f.stage, f.errno, f.which = stageExec, uintptr(why), which
}

// exitNotRun is the status of a child that could not become the command; its
// fate says why.
const exitNotRun = 127

// mishap says what a child's fate was; nil when it became the command, or was
// ended by somebody before it did: that is a command that was killed.
func (b *birth) mishap(f fate) *mishap {
	switch {
	case f.errno == 0:
		return nil
	case f.stage == stageExec && f.which > 0:
		return &mishap{stage: f.stage, errno: syscall.Errno(f.errno), text: b.names[f.which-1]}
	case f.stage == stageLimit && f.which > 0:
		return &mishap{stage: f.stage, errno: syscall.Errno(f.errno), text: limitName(b.limits[f.which-1].resource)}
	}
	return &mishap{stage: f.stage, errno: syscall.Errno(f.errno)}
}

// defaultPath is searched when the environment has no PATH, as Python's
// os.defpath, by which upstream's commands are found.
const defaultPath = "/bin:/usr/bin"

// programs lists where the program may lie: the name itself when it has a
// slash, else one path for each part of PATH, as execvp(3) has it.
func programs(r *protocol.Run) []string {
	name := r.Argv[0]
	if name == "" {
		return nil
	}
	if strings.Contains(name, "/") {
		return []string{name}
	}
	path, ok := lookup(r.Env, "PATH")
	if !ok {
		path = defaultPath
	}
	var found []string
	for _, dir := range strings.Split(path, ":") {
		if dir == "" {
			dir = "."
		}
		found = append(found, dir+"/"+name)
	}
	return found
}
