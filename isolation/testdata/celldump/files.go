package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// fileFacts are what lies in the file system.
var fileFacts = []fact{
	{"mounts", mounts},
	{"devices", devices},
	{"shared memory", func() (string, error) { return fileSystem("/dev/shm") }},
	{"modes", modes},
	{"names in /", func() (string, error) { return directory("/") }},
	{"names in /etc", func() (string, error) { return directory("/etc") }},
	{"names in /run", func() (string, error) { return directory("/run") }},
	{"names in /work", func() (string, error) { return directory("/work") }},
	{"names in /sys", func() (string, error) { return directory("/sys") }},
	{"names in /sys/dev", func() (string, error) { return directory("/sys/dev") }},
	{"names in /sys/fs", func() (string, error) { return directory("/sys/fs") }},
	{"names in /sys/fs/cgroup", func() (string, error) { return directory("/sys/fs/cgroup") }},
	{"hosts", func() (string, error) { return quoted("/etc/hosts") }},
	{"resolv.conf", func() (string, error) { return quoted("/etc/resolv.conf") }},
	{"hostname file", func() (string, error) { return quoted("/etc/hostname") }},
	{"passwd", func() (string, error) { return quoted("/etc/passwd") }},
	{"group", func() (string, error) { return quoted("/etc/group") }},
	{"masked and read-only paths", covered},
	{"what can be written", writable},
	{"setuid counts", setuid},
	{"an executable on /dev/shm", func() (string, error) { return try(executable("/dev/shm")) }},
	{"an executable in /tmp", func() (string, error) { return try(executable("/tmp")) }},
	{"a device can be made", func() (string, error) {
		path := filepath.Join(os.TempDir(), "celldump-node")
		defer os.Remove(path)
		return try(unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))))
	}},
	{"a device 0:0 can be made", func() (string, error) {
		const path = "celldump-whiteout" // in the workspace: overlays refuse it
		defer os.Remove(path)
		return try(unix.Mknod(path, unix.S_IFCHR|0o600, 0))
	}},
}

// mounts are the mount points with their options and file systems, sorted. The
// places on the host that they come from, which differ from cell to cell, and
// the options of the root's overlay that name such places are left out.
func mounts() (string, error) {
	text, err := content("/proc/self/mountinfo")
	var lines []string
	for line := range strings.Lines(text) {
		left, right, ok := strings.Cut(strings.TrimSpace(line), " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 6 || len(r) < 3 {
			return "", fmt.Errorf("mountinfo has the line %q", line)
		}
		propagation := strings.Join(l[6:], " ")
		if propagation != "" {
			propagation = " " + regexp.MustCompile(`[0-9]+`).ReplaceAllString(propagation, "N")
		}
		lines = append(lines, fmt.Sprintf("%s %s%s %s %s", l[4], sorted(l[5]), propagation, r[0], superOptions(r[0], r[2])))
	}
	slices.Sort(lines)
	return "\n  " + strings.Join(lines, "\n  "), err
}

func sorted(options string) string {
	all := strings.Split(options, ",")
	slices.Sort(all)
	return strings.Join(all, ",")
}

func superOptions(fs, options string) string {
	var kept []string
	for _, option := range strings.Split(sorted(options), ",") {
		name, _, _ := strings.Cut(option, "=")
		if fs == "overlay" && slices.Contains([]string{"lowerdir", "upperdir", "workdir", "lowerdir+"}, name) {
			continue
		}
		kept = append(kept, option)
	}
	return strings.Join(kept, ",")
}

func devices() (string, error) {
	var lines []string
	err := filepath.WalkDir("/dev", func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			lines = append(lines, path+" "+err.Error())
			return nil
		}
		lines = append(lines, describe(path))
		return nil
	})
	return "\n  " + strings.Join(lines, "\n  "), err
}

// describe gives kind, mode and owner of a path, and where a link leads.
func describe(path string) string {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return path + " " + err.Error()
	}
	text := fmt.Sprintf("%s %06o %d:%d", path, st.Mode, st.Uid, st.Gid)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		link, _ := os.Readlink(path)
		text += " -> " + link
	case unix.S_IFCHR, unix.S_IFBLK:
		text += fmt.Sprintf(" %d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
	}
	return text
}

func fileSystem(path string) (string, error) {
	var st unix.Statfs_t
	err := unix.Statfs(path, &st)
	return fmt.Sprintf("type %#x, %d KiB", st.Type, int64(st.Blocks)*st.Bsize/1024), err
}

func modes() (string, error) {
	var lines []string
	for _, path := range []string{
		"/", "/bin", "/etc", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/mtab", "/proc", "/root", "/run", "/run/.containerenv", "/run/secrets", "/.dockerenv",
		"/sys", "/sys/fs/cgroup", "/tmp", "/var/tmp", "/work", "/work/workspace", "/work/home", "/.podgrade", "/.podgrade/podgrade-init",
	} {
		lines = append(lines, describe(path))
	}
	return "\n  " + strings.Join(lines, "\n  "), nil
}

func quoted(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error(), nil
	}
	return fmt.Sprintf("%q", text), nil
}

// covered shows what lies at the paths that containers hide or protect.
func covered() (string, error) {
	var lines []string
	for _, path := range []string{
		"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug", "/proc/scsi",
		"/proc/timer_list", "/proc/timer_stats", "/sys/devices/virtual/powercap", "/sys/firmware", "/sys/fs/selinux", "/sys/dev/block",
		"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger",
	} {
		var st unix.Statx_t
		err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_TYPE, &st)
		mounted := st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
		if err != nil {
			lines = append(lines, path+" "+err.Error())
			continue
		}
		lines = append(lines, fmt.Sprintf("%s kind %06o, mounted over: %v", path, st.Mode&unix.S_IFMT, mounted))
	}
	return "\n  " + strings.Join(lines, "\n  "), nil
}

// writable tries to make a file in each of some directories.
func writable() (string, error) {
	var lines []string
	for _, dir := range []string{
		"/", "/etc", "/tmp", "/var/tmp", "/run", "/dev", "/dev/shm", "/root", "/home", "/usr", "/work", "/work/workspace", "/work/home", "/.podgrade",
		"/sys", "/sys/fs/cgroup", "/proc", "/proc/sys/kernel", os.Getenv("HOME"),
	} {
		answer, _ := try(touch(filepath.Join(dir, "celldump-touch")))
		lines = append(lines, dir+" "+answer)
	}
	for _, file := range []string{"/etc/hosts", "/etc/resolv.conf", "/etc/hostname", "/etc/passwd", "/proc/sysrq-trigger", "/proc/self/oom_score_adj"} {
		fd, err := unix.Open(file, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			unix.Close(fd)
		}
		answer, _ := try(err)
		lines = append(lines, file+" "+answer)
	}
	return "\n  " + strings.Join(lines, "\n  "), nil
}

func touch(path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	file.Close()
	return os.Remove(path)
}

// setuid tells which mounts would honour a set-user-id bit.
func setuid() (string, error) {
	var honoured []string
	for _, dir := range []string{"/", "/tmp", "/dev/shm", "/work/workspace", "/.podgrade", "/etc/hosts"} {
		var st unix.Statfs_t
		if err := unix.Statfs(dir, &st); err != nil {
			return "", err
		}
		if st.Flags&unix.ST_NOSUID == 0 {
			honoured = append(honoured, dir)
		}
	}
	return strings.Join(honoured, " "), nil
}

// executable tells whether a program in dir can be started: access(2) asks the
// mount too.
func executable(dir string) error {
	path := filepath.Join(dir, "celldump-program")
	if err := os.WriteFile(path, nil, 0o700); err != nil {
		return err
	}
	defer os.Remove(path)
	return unix.Access(path, unix.X_OK)
}
