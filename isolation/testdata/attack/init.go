package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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

// threadsOfInit are the thread ids of PID 1, which are not seen but can be told: a
// signal for a thread of another process, or of none, has nowhere to go.
func threadsOfInit() []int {
	const younger = 4096 // threads of it that are made after this process
	var ids []int
	for id := 1; id < os.Getpid()+younger; id++ {
		if call(syscall.SYS_TGKILL, 1, uintptr(id), 0) != syscall.ESRCH {
			ids = append(ids, id)
		}
	}
	return ids
}

// signals sends all 64 signals to PID 1 and its threads, by every call there
// is. Whether they are accepted says nothing: what counts is that it lives.
func signals([]string) {
	ids, accepted := threadsOfInit(), 0
	pidfd, _, _ := syscall.Syscall(sysPidfdOpen, 1, 0, 0)
	for s := uintptr(1); s <= 64; s++ {
		var info [128]byte // siginfo_t: signo, errno, code
		*(*int32)(unsafe.Pointer(&info[0])) = int32(s)
		*(*int32)(unsafe.Pointer(&info[8])) = -1 // SI_QUEUE
		if call(syscall.SYS_KILL, 1, s) == nil {
			accepted++
		}
		call(sysRtSigqueueinfo, 1, s, uintptr(unsafe.Pointer(&info)))
		call(sysPidfdSendSignal, pidfd, s, 0, 0)
		for _, id := range ids {
			call(syscall.SYS_TGKILL, 1, uintptr(id), s)
			call(syscall.SYS_TKILL, uintptr(id), s)
			call(sysRtTgsigqueueinfo, 1, uintptr(id), s, uintptr(unsafe.Pointer(&info)))
		}
	}
	fmt.Printf("signals: %d of 64 accepted\n", accepted)
	for _, id := range ids {
		fmt.Printf("thread: %d\n", id)
	}
}

// trace tries to get hold of PID 1's memory, by its pid and its thread ids.
func trace([]string) {
	const seize = 0x4206
	buf := make([]byte, 8)
	local := [2]uintptr{uintptr(unsafe.Pointer(&buf[0])), 8}
	remote := [2]uintptr{0x400000, 8}
	for _, id := range threadsOfInit() {
		of, pid := fmt.Sprintf(" of %d", id), uintptr(id)
		say("ptrace seize"+of, call(syscall.SYS_PTRACE, seize, pid, 0, 0))
		say("ptrace attach"+of, call(syscall.SYS_PTRACE, syscall.PTRACE_ATTACH, pid, 0, 0))
		say("process_vm_readv"+of, call(sysProcessVMReadv, pid, uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&remote)), 1, 0))
		say("process_vm_writev"+of, call(sysProcessVMWritev, pid, uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&remote)), 1, 0))
		say("kcmp"+of, call(sysKcmp, pid, uintptr(os.Getpid()), 0, 0, 0))
		say("move_pages"+of, call(sysMovePages, pid, 0, 0, 0, 0, 0))
	}
}

// procFiles are the files of a process below /proc, as this one's own show them.
func procFiles() []string {
	names := []string{"."}
	for _, dir := range []string{"", "attr", "fdinfo", "net", "ns"} {
		entries, _ := os.ReadDir("/proc/self/" + dir)
		for _, e := range entries {
			names = append(names, filepath.Join(dir, e.Name()))
		}
	}
	for fd := range 64 {
		names = append(names, "fd/"+strconv.Itoa(fd))
	}
	return append(names, "cwd/.", "root/etc", "root/proc", "exe")
}

// proc opens every file of /proc/1 and of its threads for reading and writing.
func proc([]string) {
	for _, id := range threadsOfInit() {
		for _, of := range []string{fmt.Sprintf("/proc/%d/", id), fmt.Sprintf("/proc/1/task/%d/", id)} {
			for _, name := range procFiles() {
				openBoth(of + name)
			}
		}
	}
}

// openBoth opens a file for reading and for writing.
func openBoth(path string) {
	for _, mode := range []struct {
		name  string
		flags int
	}{{"read", syscall.O_RDONLY}, {"write", syscall.O_WRONLY}} {
		fd, err := syscall.Open(path, mode.flags|syscall.O_NONBLOCK, 0)
		if err == nil && strings.HasSuffix(path, "/oom_score_adj") {
			syscall.Write(fd, []byte("1000"))
		}
		say("open "+path+" "+mode.name, err)
		syscall.Close(fd)
	}
}

// limits reads PID 1's resource limits and changes each, by its pid and its thread
// ids, to what ends it: no processor time, no descriptor, no memory.
func limits([]string) {
	const resources = 16
	var none, old [2]uint64
	for _, id := range threadsOfInit() {
		for resource := range resources {
			pid, of := uintptr(id), fmt.Sprintf(" %d of %d", resource, id)
			say("read the limit"+of, call(syscall.SYS_PRLIMIT64, pid, uintptr(resource), 0, uintptr(unsafe.Pointer(&old))))
			say("prlimit"+of, call(syscall.SYS_PRLIMIT64, pid, uintptr(resource), uintptr(unsafe.Pointer(&none)), 0))
		}
	}
}

// scheduler makes PID 1 as slow as it can.
func scheduler([]string) {
	var zero, one uint64 = 0, 1
	const idle = 5
	for _, id := range threadsOfInit() {
		of, pid := fmt.Sprintf(" of %d", id), uintptr(id)
		say("setpriority"+of, call(syscall.SYS_SETPRIORITY, 0, pid, 19))
		say("sched_setscheduler"+of, call(syscall.SYS_SCHED_SETSCHEDULER, pid, idle, uintptr(unsafe.Pointer(&zero))))
		say("sched_setaffinity"+of, call(syscall.SYS_SCHED_SETAFFINITY, pid, 8, uintptr(unsafe.Pointer(&one))))
		say("ioprio_set"+of, call(syscall.SYS_IOPRIO_SET, 1, pid, 3<<13))
	}
}

// pidfd tries what a descriptor of PID 1, and of each of its threads, is good for.
func pidfd([]string) {
	const ofThread = syscall.O_EXCL // PIDFD_THREAD
	for _, id := range threadsOfInit() {
		for flags, kind := range map[uintptr]string{0: "process", ofThread: "thread"} {
			of := fmt.Sprintf(" of %s %d", kind, id)
			fd, _, e := syscall.Syscall(sysPidfdOpen, uintptr(id), flags, 0)
			if e != 0 {
				say("pidfd_open"+of, e)
				continue
			}
			say("pidfd_open"+of, nil)
			for target := range uintptr(64) {
				say(fmt.Sprintf("pidfd_getfd %d%s", target, of), call(sysPidfdGetfd, fd, target, 0))
			}
			say("pidfd_send_signal TERM"+of, call(sysPidfdSendSignal, fd, uintptr(syscall.SIGTERM), 0, 0))
			say("setns"+of, call(sysSetns, fd, syscall.CLONE_NEWNS|syscall.CLONE_NEWPID))
			syscall.Close(int(fd))
		}
	}
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
