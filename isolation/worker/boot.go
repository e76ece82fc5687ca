package worker

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// The stages of a worker's start, its first argument. Each executes this
// binary again, because a process that is executed before its id maps stand
// loses all its capabilities.
const (
	StageWait  = "wait"  // in the new user namespace, until its maps are written
	StageEnter = "enter" // as root of that namespace: makes the other namespaces
	StageBegin = "begin" // as StageEnter, of a worker whose maps stand already
	StageServe = "serve" // PID 1 of the new pid namespace
	StageHook  = "hook"  // not a stage of the worker: Podman's hook
)

// GoDescriptor is the pipe on which StageWait waits for one byte; to StageBegin
// it is its own program.
const GoDescriptor = 3

// Main is the worker's main function. args are the program's arguments: the
// stage, then the settings of serve. It returns the exit code.
func Main(args []string) int {
	if len(args) < 2 {
		fmt.Fprintln(os.Stderr, "podgrade-worker is started by podgrade, not by hand")
		return 2
	}
	var err error
	switch args[1] {
	case StageWait:
		if err = wait(args); errors.Is(err, io.EOF) {
			return 1 // podgrade gave up, and says why
		}
	case StageEnter:
		return enter(args)
	case StageBegin:
		syscall.Close(GoDescriptor)
		return enter(args)
	case StageServe:
		err = serve(args[2:])
	case StageTry:
		err = try(args[2:])
	case StageJoin:
		err = join(args[2:])
	case StageClose:
		err = closeAddresses(args[2:])
	case StageRemove:
		err = remove()
	case StageRelease:
		err = release(args[2:])
	case StagePack:
		err = pack(args[2:], packTree)
	case StagePackLayer:
		err = pack(args[2:], packLayer)
	case StageUnpack:
		err = unpack(args[2:])
	case StageHook:
		err = hook(os.Stdin, os.Stdout)
	default:
		err = fmt.Errorf("unknown stage %q", args[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "podgrade-worker:", err)
		if isFullDisk(err) {
			return ExitNoSpace
		}
		return 1
	}
	return 0
}

func self(stage string, args []string) []string {
	return append([]string{args[0], stage}, args[2:]...)
}

func wait(args []string) error {
	pipe := os.NewFile(GoDescriptor, "go")
	if n, err := pipe.Read(make([]byte, 1)); n != 1 {
		return fmt.Errorf("wait for the id maps: %w", err)
	}
	pipe.Close()
	return syscall.Exec("/proc/self/exe", self(StageEnter, args), os.Environ())
}

// enter makes the namespaces and waits. It ends with its parent (the setting
// made by the parent was lost when we gained capabilities) and its child with
// it.
func enter(args []string) int {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, "podgrade-worker: bind our life to podgrade's:", err)
		return 1
	}
	child, err := os.StartProcess("/proc/self/exe", self(StageServe, args), &os.ProcAttr{
		Env:   os.Environ(),
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys: &syscall.SysProcAttr{
			Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWCGROUP | syscall.CLONE_NEWPID,
			Pdeathsig:  syscall.SIGKILL,
		},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "podgrade-worker: make mount, cgroup and pid namespaces:", err)
		return 1
	}
	os.Stdin.Close() // the child alone holds the channel
	state, err := child.Wait()
	if err != nil || !state.Success() {
		return 1
	}
	return 0
}

// privateMounts makes this mount namespace ours alone, with /proc and
// /sys/fs/cgroup of our own namespaces. On hosts with the hybrid cgroup layout
// crun and Podman refuse to work without the latter.
func privateMounts() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc of our pid namespace: %w", err)
	}
	var st unix.Statfs_t
	if err := unix.Statfs("/sys/fs/cgroup", &st); err != nil {
		return fmt.Errorf("look at /sys/fs/cgroup: %w", err)
	}
	if st.Type == unix.CGROUP2_SUPER_MAGIC {
		return nil
	}
	if err := unix.Mount("none", "/sys/fs/cgroup", "cgroup2", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount a cgroup2 view on /sys/fs/cgroup: %w", err)
	}
	return nil
}
