package hostfacts

import (
	"slices"
	"strings"
)

// family is a kind of distribution: those that share a package manager.
type family string

const (
	debian family = "debian"
	redHat family = "redhat"
	suse   family = "suse"
	arch   family = "arch"
	alpine family = "alpine"
	other  family = ""
)

func familyOf(s System) family {
	names := append([]string{s.ID}, s.Like...)
	for _, known := range []struct {
		family family
		ids    []string
	}{
		{debian, []string{"debian", "ubuntu"}},
		{redHat, []string{"fedora", "rhel", "centos", "rocky", "almalinux"}},
		{suse, []string{"suse", "opensuse", "sles"}},
		{arch, []string{"arch"}},
		{alpine, []string{"alpine"}},
	} {
		if slices.ContainsFunc(names, func(n string) bool { return slices.Contains(known.ids, n) }) {
			return known.family
		}
	}
	return other
}

var installers = map[family]string{
	debian: "sudo apt-get install ",
	redHat: "sudo dnf install ",
	suse:   "sudo zypper install ",
	arch:   "sudo pacman -S ",
	alpine: "sudo apk add ",
}

// packages names what holds a program, where it is not the program's name.
var packages = map[family]map[string]string{
	debian: {"newuidmap": "uidmap", "getsubids": "uidmap", "pasta": "passt"},
	redHat: {"newuidmap": "shadow-utils", "getsubids": "shadow-utils-subid", "pasta": "passt"},
	suse:   {"newuidmap": "shadow", "getsubids": "shadow", "pasta": "passt"},
	arch:   {"newuidmap": "shadow", "getsubids": "shadow", "pasta": "passt"},
	alpine: {"newuidmap": "shadow-uidmap", "getsubids": "shadow-subids", "pasta": "passt"},
	other:  {"newuidmap": "shadow-utils (or uidmap)", "pasta": "passt"},
}

// install is the command that installs programs on this distribution.
func install(s System, programs ...string) string {
	kind := familyOf(s)
	var names []string
	for _, program := range programs {
		if name := packages[kind][program]; name != "" {
			program = name
		}
		names = append(names, program)
	}
	if kind == other {
		return "install " + strings.Join(names, " ") + " with the package manager of this distribution"
	}
	return installers[kind] + strings.Join(names, " ")
}

// sysctlFile is read after the files by which user namespaces are switched off on
// RHEL, 99-user_max_user_namespaces.conf of the STIG and user_max_user_namespaces.conf
// of ComplianceAsCode: the last file counts (sysctl.d(5)).
const sysctlFile = "/etc/sysctl.d/zz-rootless.conf"

// sysctl sets a setting now and at every start of the machine. The file may hold
// what an earlier remedy set. In a container /proc/sys is the host's, and read-only.
func sysctl(s System, setting string) []string {
	if s.Container != "" {
		return []string{"ask whoever runs the outer container to set " + quote(setting) + " on its host"}
	}
	return []string{
		"echo " + quote(setting) + " | sudo tee -a " + sysctlFile,
		"sudo sysctl -p " + sysctlFile + " # not --system, which reads /etc/sysctl.conf after it: a line of that file must go",
	}
}

// quote makes a fact safe to stand in a command line: facts of another host
// are not ours, and people copy what a remedy says.
func quote(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._/@:+=-", r)
	}
	if s != "" && s[0] != '-' && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
