package main

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"unsafe"
)

// System calls without a name in package syscall; the same on every
// architecture, or chosen in numbers_*.go.
const (
	sysPidfdSendSignal = 424
	sysPidfdOpen       = 434
	sysPidfdGetfd      = 438
)

// threadsOfInit are the thread ids that PID 1 probably has.
const threadsOfInit = 16

// signals sends all 64 signals to PID 1 and its threads, by every call there
// is. Whether they are accepted says nothing: what counts is that it lives.
func signals([]string) {
	accepted := 0
	for s := uintptr(1); s <= 64; s++ {
		var info [128]byte // siginfo_t: signo, errno, code
		*(*int32)(unsafe.Pointer(&info[0])) = int32(s)
		*(*int32)(unsafe.Pointer(&info[8])) = -1 // SI_QUEUE
		if call(syscall.SYS_KILL, 1, s) == nil {
			accepted++
		}
		call(sysRtSigqueueinfo, 1, s, uintptr(unsafe.Pointer(&info)))
		for tid := uintptr(1); tid <= threadsOfInit; tid++ {
			call(syscall.SYS_TGKILL, 1, tid, s)
			if !own(int(tid)) {
				call(syscall.SYS_TKILL, tid, s)
			}
			call(sysRtTgsigqueueinfo, 1, tid, s, uintptr(unsafe.Pointer(&info)))
		}
	}
	fmt.Printf("signals: %d of 64 accepted\n", accepted)
}

// trace tries to get hold of PID 1's memory.
func trace([]string) {
	const seize = 0x4206
	say("ptrace seize", call(syscall.SYS_PTRACE, seize, 1, 0, 0))
	say("ptrace attach", call(syscall.SYS_PTRACE, syscall.PTRACE_ATTACH, 1, 0, 0))
	buf := make([]byte, 8)
	local := [2]uintptr{uintptr(unsafe.Pointer(&buf[0])), 8}
	remote := [2]uintptr{0x400000, 8}
	say("process_vm_readv", call(sysProcessVMReadv, 1, uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&remote)), 1, 0))
	say("process_vm_writev", call(sysProcessVMWritev, 1, uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&remote)), 1, 0))
	say("kcmp", call(sysKcmp, 1, uintptr(os.Getpid()), 0, 0, 0))
	say("move_pages", call(sysMovePages, 1, 0, 0, 0, 0, 0))
}

// procFiles are the files of /proc/PID.
var procFiles = []string{
	"arch_status", "attr/current", "attr/exec", "autogroup", "auxv", "cgroup", "clear_refs", "cmdline", "comm",
	"coredump_filter", "cpuset", "cwd/.", "environ", "exe", "fd/0", "fd/1", "fd/2", "fd/10", "fd/11", "fd/12",
	"fdinfo/0", "gid_map", "io", "limits", "loginuid", "map_files", "maps", "mem", "mountinfo", "mounts",
	"mountstats", "net/tcp", "ns/mnt", "ns/pid", "ns/user", "numa_maps", "oom_adj", "oom_score", "oom_score_adj",
	"pagemap", "personality", "projid_map", "root/etc", "sched", "schedstat", "setgroups", "smaps",
	"smaps_rollup", "stack", "stat", "statm", "status", "syscall", "task", "timens_offsets", "timers",
	"timerslack_ns", "uid_map", "wchan",
}

// proc opens every file of /proc/1 and of its threads for reading and writing.
func proc([]string) {
	for pid := 1; pid <= threadsOfInit; pid++ {
		if own(pid) {
			continue
		}
		for _, name := range procFiles {
			for mode, flags := range map[string]int{"read": syscall.O_RDONLY, "write": syscall.O_WRONLY} {
				path := "/proc/" + strconv.Itoa(pid) + "/" + name
				fd, err := syscall.Open(path, flags|syscall.O_NONBLOCK, 0)
				if err == nil && mode == "write" && name == "oom_score_adj" {
					syscall.Write(fd, []byte("1000"))
				}
				say("open "+path+" "+mode, err)
				syscall.Close(fd)
			}
		}
	}
}

// own tells whether pid is a thread of this process.
func own(pid int) bool {
	_, err := os.Stat("/proc/self/task/" + strconv.Itoa(pid))
	return err == nil
}

// limits changes PID 1's resource limits, by its pid and its thread ids, to
// what ends it: no processor time, no descriptor, no memory.
func limits([]string) {
	var none [2]uint64
	for pid := uintptr(1); pid <= threadsOfInit; pid++ {
		if own(int(pid)) {
			continue
		}
		for resource, name := range map[uintptr]string{0: "CPU", 7: "NOFILE", 9: "AS"} {
			say(fmt.Sprintf("prlimit %s of %d", name, pid), call(syscall.SYS_PRLIMIT64, pid, resource, uintptr(unsafe.Pointer(&none)), 0))
		}
	}
}

// scheduler makes PID 1 as slow as it can.
func scheduler([]string) {
	var zero, one uint64 = 0, 1
	const idle = 5
	for pid := uintptr(1); pid <= threadsOfInit; pid++ {
		if own(int(pid)) {
			continue
		}
		of := fmt.Sprintf(" of %d", pid)
		say("setpriority"+of, call(syscall.SYS_SETPRIORITY, 0, pid, 19))
		say("sched_setscheduler"+of, call(syscall.SYS_SCHED_SETSCHEDULER, pid, idle, uintptr(unsafe.Pointer(&zero))))
		say("sched_setaffinity"+of, call(syscall.SYS_SCHED_SETAFFINITY, pid, 8, uintptr(unsafe.Pointer(&one))))
		say("ioprio_set"+of, call(syscall.SYS_IOPRIO_SET, 1, pid, 3<<13))
	}
}

// pidfd tries what a descriptor of PID 1 is good for.
func pidfd([]string) {
	fd, _, e := syscall.Syscall(sysPidfdOpen, 1, 0, 0)
	if e != 0 {
		say("pidfd_open", e)
		return
	}
	say("pidfd_open", nil)
	for _, target := range []uintptr{0, 1, 2, 10, 11, 12} {
		say(fmt.Sprintf("pidfd_getfd %d", target), call(sysPidfdGetfd, fd, target, 0))
	}
	say("pidfd_send_signal TERM", call(sysPidfdSendSignal, fd, uintptr(syscall.SIGTERM), 0, 0))
	say("setns", call(sysSetns, fd, syscall.CLONE_NEWNS|syscall.CLONE_NEWPID))
}

// tool tries to change the supervisor's binary, which lies at the given path
// below a directory of podgrade's own.
func tool(args []string) {
	path := "/.podgrade/podgrade-init"
	if len(args) > 0 {
		path = args[0]
	}
	dir := path[:len(path)-len("/podgrade-init")]
	fd, err := syscall.Open(path, syscall.O_WRONLY, 0)
	say("write the binary", err)
	syscall.Close(fd)
	fd, err = syscall.Open(path, syscall.O_RDONLY, 0)
	say("read the binary", err)
	syscall.Close(fd)
	say("make a file beside it", os.WriteFile(dir+"/new", nil, 0o600))
	say("chmod the binary", syscall.Chmod(path, 0o777))
	say("unlink the binary", syscall.Unlink(path))
	say("rename the directory", syscall.Rename(dir, dir+".away"))
	say("remount the directory", syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_BIND, ""))
	say("mount over it", syscall.Mount("none", dir, "tmpfs", 0, ""))
	say("umount it", syscall.Unmount(dir, syscall.MNT_DETACH))
}
