package supervisor

import (
	"runtime"
	"syscall"
	"unsafe"
)

// System calls that package syscall has no function for. Their numbers are the
// same on every architecture, as all since Linux 5.0 are.
const (
	sysPidfdSendSignal       = 424
	sysIoUringSetup          = 425
	sysPidfdOpen             = 434
	sysCloseRange            = 436
	sysOpenat2               = 437
	sysLandlockCreateRuleset = 444
	sysLandlockAddRule       = 445
	sysLandlockRestrictSelf  = 446
)

var sysRenameat2 = map[string]uintptr{"amd64": 316, "arm64": 276}[runtime.GOARCH]

// Constants of the kernel's interface, from its uapi headers.
const (
	oPath                  = 0x200000 // O_PATH
	resolveNoMagiclinks    = 0x02     // RESOLVE_NO_MAGICLINKS
	resolveBeneath         = 0x08     // RESOLVE_BENEATH
	resolveInRoot          = 0x10     // RESOLVE_IN_ROOT
	atFDCWD                = -0x64
	atSymlinkNoFollow      = 0x100 // AT_SYMLINK_NOFOLLOW
	atRemoveDir            = 0x200 // AT_REMOVEDIR
	utimeOmit              = 1<<30 - 2
	renameNoReplaceFlag    = 1  // RENAME_NOREPLACE
	closeRangeCloexec      = 4  // CLOSE_RANGE_CLOEXEC
	prSetChildSubreaper    = 36 // PR_SET_CHILD_SUBREAPER
	landlockVersion        = 1  // LANDLOCK_CREATE_RULESET_VERSION
	landlockRuleBeneath    = 1  // LANDLOCK_RULE_PATH_BENEATH
	landlockAccessRefer    = 1 << 13
	firstOwnDescriptor     = 10 // the supervisor's own descriptors start here
	highestSignal          = 64
	pExited                = 4          // WEXITED
	pNoWait                = 0x01000000 // WNOWAIT
	waitAll                = 0          // P_ALL
	sizeOfSignalMask       = 8
	sigSetMask             = 2 // SIG_SETMASK
	highestRangeDescriptor = ^uint32(0)
)

// prctl is prctl(2) with one argument.
func prctl(option, arg uintptr) error {
	if _, _, e := syscall.RawSyscall6(syscall.SYS_PRCTL, option, arg, 0, 0, 0, 0); e != 0 {
		return e
	}
	return nil
}

// openHow is struct open_how of openat2(2).
type openHow struct {
	flags, mode, resolve uint64
}

// openat2 opens a path, seen from a directory when it is not absolute.
func openat2(dir int, path string, flags int, resolve uint64) (int, error) {
	p, err := syscall.BytePtrFromString(path)
	if err != nil {
		return -1, err
	}
	how := openHow{flags: uint64(flags) | syscall.O_CLOEXEC, resolve: resolve}
	for {
		fd, _, e := syscall.Syscall6(sysOpenat2, uintptr(dir), uintptr(unsafe.Pointer(p)),
			uintptr(unsafe.Pointer(&how)), unsafe.Sizeof(how), 0, 0)
		if e == 0 {
			return int(fd), nil
		}
		if e != syscall.EINTR {
			return -1, e
		}
	}
}

// unlinkat is unlinkat(2).
func unlinkat(dir int, path string, flags int) error {
	p, err := syscall.BytePtrFromString(path)
	if err != nil {
		return err
	}
	if _, _, e := syscall.Syscall(syscall.SYS_UNLINKAT, uintptr(dir), uintptr(unsafe.Pointer(p)), uintptr(flags)); e != 0 {
		return e
	}
	return nil
}

// symlinkat is symlinkat(2).
func symlinkat(target string, dir int, path string) error {
	t, err := syscall.BytePtrFromString(target)
	if err != nil {
		return err
	}
	p, err := syscall.BytePtrFromString(path)
	if err != nil {
		return err
	}
	if _, _, e := syscall.Syscall(syscall.SYS_SYMLINKAT, uintptr(unsafe.Pointer(t)), uintptr(dir), uintptr(unsafe.Pointer(p))); e != 0 {
		return e
	}
	return nil
}

// utimensat is utimensat(2): the times of the last access and change.
func utimensat(dir int, path string, times [2]syscall.Timespec, flags int) error {
	p, err := syscall.BytePtrFromString(path)
	if err != nil {
		return err
	}
	if _, _, e := syscall.Syscall6(syscall.SYS_UTIMENSAT, uintptr(dir), uintptr(unsafe.Pointer(p)), uintptr(unsafe.Pointer(&times)), uintptr(flags), 0, 0); e != 0 {
		return e
	}
	return nil
}

// renameNoReplace is renameat2(2), and never takes another file's place.
func renameNoReplace(from int, name string, to int, as string) error {
	a, err := syscall.BytePtrFromString(name)
	if err != nil {
		return err
	}
	b, err := syscall.BytePtrFromString(as)
	if err != nil {
		return err
	}
	if _, _, e := syscall.Syscall6(sysRenameat2, uintptr(from), uintptr(unsafe.Pointer(a)), uintptr(to), uintptr(unsafe.Pointer(b)), renameNoReplaceFlag, 0); e != 0 {
		return e
	}
	return nil
}

// waitable blocks until a child has ended, and returns its pid without reaping
// it: so the number stays taken until it was looked up.
func waitable() (int, error) {
	var info struct { // siginfo_t of SIGCHLD: three ints, padding, the pid
		signo, errno, code, _ int32
		pid                   int32
		_                     [108]byte
	}
	for {
		_, _, e := syscall.Syscall6(syscall.SYS_WAITID, waitAll, 0, uintptr(unsafe.Pointer(&info)), pExited|pNoWait, 0, 0)
		if e == 0 {
			return int(info.pid), nil
		}
		if e != syscall.EINTR {
			return 0, e
		}
	}
}

// pidfdOpen is pidfd_open(2).
func pidfdOpen(pid int) (int, error) {
	fd, _, e := syscall.RawSyscall(sysPidfdOpen, uintptr(pid), 0, 0)
	if e != 0 {
		return -1, e
	}
	return int(fd), nil
}

// pidfdSignal is pidfd_send_signal(2).
func pidfdSignal(fd int, signal syscall.Signal) error {
	if _, _, e := syscall.RawSyscall6(sysPidfdSendSignal, uintptr(fd), uintptr(signal), 0, 0, 0, 0); e != 0 {
		return e
	}
	return nil
}

// closeOnExecFrom marks every descriptor from first on as close-on-exec,
// whatever this process was started with.
func closeOnExecFrom(first int) error {
	_, _, e := syscall.RawSyscall(sysCloseRange, uintptr(first), uintptr(highestRangeDescriptor), closeRangeCloexec)
	if e == 0 {
		return nil
	}
	// Before Linux 5.11, or refused by a filter: one by one.
	for _, name := range namesIn("/proc/self/fd") {
		if fd, ok := number(name); ok && fd >= first {
			syscall.CloseOnExec(fd)
		}
	}
	return nil
}

// signalsToDefault puts the disposition of every signal to SIG_DFL, behind the
// Go runtime's back. The kernel drops each signal sent to the init of a pid
// namespace from inside whose disposition is SIG_DFL; Go's own handlers would
// make it killable. SIGURG stays: the runtime preempts goroutines with it.
//
// The zero value is SIG_DFL without flags, whatever the layout of the kernel's
// struct sigaction; it has 32 bytes on amd64 and arm64 (handler, flags,
// restorer, mask).
func signalsToDefault() error {
	var action [4]uint64
	for s := 1; s <= highestSignal; s++ {
		switch syscall.Signal(s) {
		case syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGURG:
			continue
		}
		_, _, e := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&action)), 0, sizeOfSignalMask, 0, 0)
		if e != 0 {
			return e
		}
	}
	return nil
}

// everySignal is a signal mask.
const everySignal = ^uint64(0)

// blockSignals blocks every signal for this thread, which must be locked, and
// returns the mask that was in force.
func blockSignals() (before uint64) {
	mask := everySignal
	syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, sigSetMask, uintptr(unsafe.Pointer(&mask)), uintptr(unsafe.Pointer(&before)), sizeOfSignalMask, 0, 0)
	return before
}

// setSignalMask sets this thread's signal mask.
func setSignalMask(mask uint64) {
	syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, sigSetMask, uintptr(unsafe.Pointer(&mask)), 0, sizeOfSignalMask, 0, 0)
}

// landlockRuleset makes the rules of the Landlock domain that each command gets
// for itself. They forbid nothing: they handle only the right to move files
// between directories, and allow it everywhere. What a domain is for is that a
// process of another one can no longer trace the command. Where the kernel has
// no such domain there are no rules: -1.
func landlockRuleset() int {
	abi, _, e := syscall.RawSyscall(sysLandlockCreateRuleset, 0, 0, landlockVersion)
	if e != 0 || abi < 2 {
		return -1
	}
	handled := uint64(landlockAccessRefer)
	made, _, e := syscall.RawSyscall(sysLandlockCreateRuleset, uintptr(unsafe.Pointer(&handled)), unsafe.Sizeof(handled), 0)
	if e != 0 {
		return -1
	}
	ruleset := int(made) // it closes on exec
	root, err := syscall.Open("/", oPath|syscall.O_CLOEXEC, 0)
	if err != nil {
		_ = syscall.Close(ruleset)
		return -1
	}
	defer syscall.Close(root)
	var rule [12]byte // packed: allowed access, descriptor
	*(*uint64)(unsafe.Pointer(&rule[0])) = handled
	*(*int32)(unsafe.Pointer(&rule[8])) = int32(root)
	_, _, e = syscall.RawSyscall6(sysLandlockAddRule, made, landlockRuleBeneath, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	runtime.KeepAlive(rule)
	if e != 0 {
		_ = syscall.Close(ruleset)
		return -1
	}
	return ruleset
}

// restoreLimits takes back what package os does at its start: it raises the
// soft limit of open files for its own program. What the Go runtime keeps for
// this is private, so an exec that must fail is what sets it: of no program.
func restoreLimits() { _ = syscall.Exec("", []string{""}, nil) }
