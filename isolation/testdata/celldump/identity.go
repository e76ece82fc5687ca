package main

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// identityFacts are who a process is.
var identityFacts = []fact{
	{"user and groups", func() (string, error) { return status("Uid", "Gid", "Groups") }},
	{"user map", func() (string, error) { return oneLine("/proc/self/uid_map") }},
	{"group map", func() (string, error) { return oneLine("/proc/self/gid_map") }},
	{"setgroups", func() (string, error) { return content("/proc/self/setgroups") }},
	{"capabilities", func() (string, error) { return status("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb") }},
	{"processes that can be seen", visible},
	{"supervisor can be seen", func() (string, error) { return try(access("/proc/1/status")) }},
	{"host name", os.Hostname},
	{"domain name", func() (string, error) {
		var name unix.Utsname
		err := unix.Uname(&name)
		return unix.ByteSliceToString(name.Domainname[:]), err
	}},
	{"namespaces that are the kernel's first", firstNamespaces},
	{"control group", func() (string, error) { return content("/proc/self/cgroup") }},
}

// firstNamespaces names those namespaces of this process that bear the number
// which the kernel gives to its first of the kind. The network and mount
// namespaces have no such number.
func firstNamespaces() (string, error) {
	found := []string{}
	for name, first := range map[string]uint32{
		"uts": 0xEFFFFFFE, "ipc": 0xEFFFFFFF, "pid": 0xEFFFFFFC, "user": 0xEFFFFFFD, "cgroup": 0xEFFFFFFB,
	} {
		link, err := os.Readlink("/proc/self/ns/" + name)
		if err != nil {
			return "", err
		}
		if link == fmt.Sprintf("%s:[%d]", name, first) {
			found = append(found, name)
		}
	}
	return fmt.Sprint(found), nil
}

// visible counts the processes that /proc shows: this one alone, when those of
// the supervisor are hidden.
func visible() (string, error) {
	entries, err := os.ReadDir("/proc")
	n := 0
	for _, e := range entries {
		if strings.Trim(e.Name(), "0123456789") == "" {
			n++
		}
	}
	return fmt.Sprint(n), err
}

func oneLine(path string) (string, error) {
	text, err := content(path)
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, ", "), err
}

// try says how an attempt ended: its outcome is the fact.
func try(err error) (string, error) {
	if err == nil {
		return "yes", nil
	}
	return "no: " + err.Error(), nil
}

func access(path string) error {
	_, err := os.ReadFile(path)
	return err
}
