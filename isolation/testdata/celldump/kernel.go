package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// kernelFacts are what the kernel is asked.
var kernelFacts = []fact{
	{"network interfaces", interfaces},
	{"routes", func() (string, error) { return content("/proc/self/net/route") }},
	{"sysctls", sysctls},
	{"a packet to a network", func() (string, error) { return try(dial("udp4", "192.0.2.53:53")) }},
	{"a packet to loopback", func() (string, error) { return try(dial("udp4", "127.0.0.1:53")) }},
	{"listening on port 80", func() (string, error) { return try(listen("127.0.0.1:80")) }},
	{"a ping socket", func() (string, error) { return try(socket(unix.SOCK_DGRAM, unix.IPPROTO_ICMP)) }},
	{"a raw socket", func() (string, error) { return try(socket(unix.SOCK_RAW, unix.IPPROTO_ICMP)) }},
	{"system calls", systemCalls},
	{"message queues", func() (string, error) { return directory("/dev/mqueue") }},
}

func interfaces() (string, error) {
	all, err := net.Interfaces()
	var lines []string
	for _, i := range all {
		addresses, err := i.Addrs()
		lines = append(lines, fmt.Sprint(i.Name, " ", i.Flags, " mtu ", i.MTU, " ", addresses, " ", err))
	}
	return strings.Join(lines, "; "), err
}

func sysctls() (string, error) {
	var lines []string
	for _, name := range []string{
		"net/ipv4/ip_unprivileged_port_start", "net/ipv4/ping_group_range", "net/ipv4/ip_forward", "net/ipv6/conf/all/disable_ipv6",
		"net/ipv4/conf/lo/route_localnet", "kernel/hostname", "kernel/domainname", "kernel/shmmax", "kernel/shmall", "kernel/msgmax", "fs/mqueue/msg_max",
		"net/core/somaxconn",
	} {
		value, err := content("/proc/sys/" + name)
		if err != nil {
			value = err.Error()
		}
		lines = append(lines, name+" "+strings.Join(strings.Fields(value), " "))
	}
	return "\n  " + strings.Join(lines, "\n  "), nil
}

func dial(network, address string) error {
	conn, err := net.Dial(network, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Write([]byte("x"))
	return err
}

func listen(address string) error {
	l, err := net.Listen("tcp4", address)
	if err != nil {
		return err
	}
	return l.Close()
}

func socket(kind, protocol int) error {
	fd, err := unix.Socket(unix.AF_INET, kind, protocol)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// systemCalls tries some that the filter or the missing capabilities forbid,
// each with arguments that the kernel refuses where they are allowed: nothing
// may change when this runs outside of a cell, by root above all. So calls
// that no arguments can make harmless (acct) are not among
// them.
func systemCalls() (string, error) {
	null := uintptr(0)
	attempts := map[string][]uintptr{
		"sethostname":     {unix.SYS_SETHOSTNAME, null, ^uintptr(0)},
		"unshare user":    {unix.SYS_UNSHARE, unix.CLONE_NEWUSER},
		"unshare mount":   {unix.SYS_UNSHARE, unix.CLONE_NEWNS},
		"mount":           {unix.SYS_MOUNT, null, null, null, null, null},
		"umount":          {unix.SYS_UMOUNT2, null, null},
		"pivot_root":      {unix.SYS_PIVOT_ROOT, null, null},
		"setns":           {unix.SYS_SETNS, ^uintptr(0), 0},
		"keyctl":          {unix.SYS_KEYCTL, 0, ^uintptr(2), 0},
		"add_key":         {unix.SYS_ADD_KEY, null, null, null, 0, 0},
		"bpf":             {unix.SYS_BPF, ^uintptr(0), null, 0},
		"perf_event_open": {unix.SYS_PERF_EVENT_OPEN, null, 0, 0, 0, 0},
		"userfaultfd":     {unix.SYS_USERFAULTFD, ^uintptr(0)},
		"io_uring_setup":  {unix.SYS_IO_URING_SETUP, 0, null},
		"kexec_load":      {unix.SYS_KEXEC_LOAD, 0, 0, null, 0},
		"init_module":     {unix.SYS_INIT_MODULE, null, 0, null},
		"reboot":          {unix.SYS_REBOOT, 0, 0, 0, null},
		"ptrace":          {unix.SYS_PTRACE, ^uintptr(0), 0, 0, 0},
		"prlimit of 1":    {unix.SYS_PRLIMIT64, 1, unix.RLIMIT_CPU, null, null},
		"prlimit of self": {unix.SYS_PRLIMIT64, 0, unix.RLIMIT_CPU, null, null},
		"kcmp":            {unix.SYS_KCMP, 1, 1, 0, 0, 0},
		"open_by_handle":  {unix.SYS_OPEN_BY_HANDLE_AT, ^uintptr(0), null, 0},
		"chroot":          {unix.SYS_CHROOT, null},
		"clone3":          {unix.SYS_CLONE3, null, 0},
		"settimeofday":    {unix.SYS_SETTIMEOFDAY, 1, null},
		"syslog":          {unix.SYS_SYSLOG, 10, null, 0},
		"swapon":          {unix.SYS_SWAPON, null, 0},
	}
	var lines []string
	for name, a := range attempts {
		full := append(a, make([]uintptr, 7-len(a))...)
		_, _, e := unix.RawSyscall6(full[0], full[1], full[2], full[3], full[4], full[5], full[6])
		lines = append(lines, fmt.Sprintf("%s: %s", name, unix.ErrnoName(e)))
	}
	slices.Sort(lines)
	return "\n  " + strings.Join(lines, "\n  "), nil
}

// directory lists names.
func directory(path string) (string, error) {
	entries, err := os.ReadDir(path)
	if errors.Is(err, os.ErrNotExist) {
		return "none", nil
	}
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " "), err
}
