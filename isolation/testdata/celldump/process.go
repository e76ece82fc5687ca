package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// processFacts are what a process is born with.
var processFacts = []fact{
	{"arguments", func() (string, error) { return fmt.Sprintf("%q", os.Args[1:]), nil }},
	{"environment", func() (string, error) {
		env := slices.Clone(os.Environ())
		slices.Sort(env)
		return fmt.Sprintf("%q", env), nil
	}},
	{"working directory", os.Getwd},
	{"umask", func() (string, error) {
		mask := unix.Umask(0)
		unix.Umask(mask)
		return fmt.Sprintf("%04o", mask), nil
	}},
	{"parent is the supervisor", func() (string, error) { return strconv.FormatBool(os.Getppid() == 1), nil }},
	{"leads a session", func() (string, error) {
		session, err := unix.Getsid(0)
		return strconv.FormatBool(session == os.Getpid()), err
	}},
	{"standard input", func() (string, error) { return descriptor(0) }},
	{"standard output", func() (string, error) { return descriptor(1) }},
	{"standard error", func() (string, error) { return descriptor(2) }},
	{"terminal", func() (string, error) {
		fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY, 0)
		if err != nil {
			return "none: " + err.Error(), nil
		}
		return "one", unix.Close(fd)
	}},
	{"other descriptors", otherDescriptors},
	{"nice value", func() (string, error) {
		n, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
		return strconv.Itoa(20 - n), err // the system call's own form
	}},
	{"oom_score_adj", func() (string, error) { return content("/proc/self/oom_score_adj") }},
	{"limits", limits},
	{"signals", func() (string, error) { return status("SigBlk", "SigIgn") }},
	{"no_new_privs and seccomp", func() (string, error) { return status("NoNewPrivs", "Seccomp", "Seccomp_filters") }},
	{"dumpable", func() (string, error) {
		n, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
		return strconv.Itoa(n), err
	}},
	{"secure bits", func() (string, error) {
		n, err := unix.PrctlRetInt(unix.PR_GET_SECUREBITS, 0, 0, 0, 0)
		return strconv.Itoa(n), err
	}},
	{"child subreaper", func() (string, error) {
		var n int32
		err := unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&n)), 0, 0, 0)
		return strconv.Itoa(int(n)), err
	}},
	{"security label", func() (string, error) { return content("/proc/self/attr/current") }},
	{"personality", func() (string, error) { return content("/proc/self/personality") }},
	{"landlock", landlock},
	{"processors", func() (string, error) { return status("Cpus_allowed_list", "Mems_allowed_list") }},
}

// descriptor describes what a standard stream is.
func descriptor(fd int) (string, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return "", err
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return "", err
	}
	kinds := map[uint32]string{
		unix.S_IFIFO: "pipe", unix.S_IFSOCK: "socket", unix.S_IFREG: "file", unix.S_IFCHR: "device", unix.S_IFDIR: "directory",
	}
	text := kinds[st.Mode&unix.S_IFMT]
	if text == "device" {
		text = fmt.Sprintf("device %d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
	}
	access := []string{"read", "write", "read and write"}[flags&unix.O_ACCMODE]
	return text + ", " + access, nil
}

// otherDescriptors lists what else was inherited. The directory that is read
// for it, and what the runtime of this program opens, do not count: those are
// closed on exec.
func otherDescriptors() (string, error) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return "", err
	}
	found := []string{}
	for _, e := range entries {
		n, err := strconv.Atoi(e.Name())
		if err != nil || n <= 2 {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(n), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC != 0 {
			continue
		}
		link, _ := os.Readlink(filepath.Join("/proc/self/fd", e.Name()))
		found = append(found, link)
	}
	return fmt.Sprint(found), nil
}

// limits are all sixteen, as the kernel gives them: this program's runtime
// raises its own soft limit of open files, so that one comes from the hard.
func limits() (string, error) {
	text, err := content("/proc/self/limits")
	var lines []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "Max open files") {
			fields := strings.Fields(line)
			line = "Max open files, hard " + fields[4]
		}
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return "\n  " + strings.Join(lines, "\n  "), err
}

// landlock tells whether a domain is there by what one forbids: a process in
// one may not trace its parent outside of it, which shows only indirectly, so
// this asks how far the kernel goes.
func landlock() (string, error) {
	version, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if e != 0 {
		return "none: " + e.Error(), nil
	}
	return fmt.Sprintf("version %d", version), nil
}

// status gives fields of /proc/self/status.
func status(names ...string) (string, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "", err
	}
	var found []string
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		if slices.Contains(names, name) {
			found = append(found, name+" "+strings.Join(strings.Fields(value), " "))
		}
	}
	return strings.Join(found, ", "), nil
}

// content is a small file without the white space at its end.
func content(path string) (string, error) {
	text, err := os.ReadFile(path)
	return strings.TrimRight(string(text), "\n\x00 "), err
}
