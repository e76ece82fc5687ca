package oci

import (
	"fmt"
	"slices"
	"strings"
)

// capabilityNames in the kernel's order: the index is the bit.
var capabilityNames = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL",
	"CAP_SETGID", "CAP_SETUID", "CAP_SETPCAP", "CAP_LINUX_IMMUTABLE", "CAP_NET_BIND_SERVICE",
	"CAP_NET_BROADCAST", "CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_IPC_LOCK", "CAP_IPC_OWNER",
	"CAP_SYS_MODULE", "CAP_SYS_RAWIO", "CAP_SYS_CHROOT", "CAP_SYS_PTRACE", "CAP_SYS_PACCT",
	"CAP_SYS_ADMIN", "CAP_SYS_BOOT", "CAP_SYS_NICE", "CAP_SYS_RESOURCE", "CAP_SYS_TIME",
	"CAP_SYS_TTY_CONFIG", "CAP_MKNOD", "CAP_LEASE", "CAP_AUDIT_WRITE", "CAP_AUDIT_CONTROL",
	"CAP_SETFCAP", "CAP_MAC_OVERRIDE", "CAP_MAC_ADMIN", "CAP_SYSLOG", "CAP_WAKE_ALARM",
	"CAP_BLOCK_SUSPEND", "CAP_AUDIT_READ", "CAP_PERFMON", "CAP_BPF", "CAP_CHECKPOINT_RESTORE",
}

// DockerCapabilities is the bounding set of a `driver: docker` row: Docker's
// default set without CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH, which upstream
// drops (spec/regrade.md 3.2). Without the others honest tar, cp -a, apt-get
// and su fail.
func DockerCapabilities() []string {
	return []string{
		"CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_MKNOD",
		"CAP_NET_BIND_SERVICE", "CAP_NET_RAW", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP",
		"CAP_SETUID", "CAP_SYS_CHROOT",
	}
}

// CapabilityMask is the kernel's bit mask of a set of names.
func CapabilityMask(names []string) (uint64, error) {
	var mask uint64
	for _, name := range names {
		bit := slices.Index(capabilityNames, name)
		if bit < 0 {
			return 0, fmt.Errorf("capability %q is unknown: the names are %s", name, strings.Join(capabilityNames, ", "))
		}
		mask |= 1 << bit
	}
	return mask, nil
}
