package oci

import (
	"slices"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// Bind is one host file or directory that the cell sees.
type Bind struct {
	Source      string
	Destination string
	ReadOnly    bool
}

// Facts are what Spec needs beside the plan: where things lie on the host, and
// what the image and the host turned out to be.
type Facts struct {
	Rootfs  string // the mounted root file system
	Binds   []Bind // tool directory, workspace view, /etc files ...
	User    User
	IDs     uint32 // ids in the worker's user namespace
	Rlimits map[string]Rlimit
	// Resources are the limits that the cell's control group enforces; nil: it
	// has none of its own.
	Resources *specs.LinuxResources
}

// MaskedPaths are hidden in every cell: they show or change the host.
var MaskedPaths = []string{
	"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
	"/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats",
	"/sys/devices/virtual/powercap", "/sys/firmware", "/sys/fs/selinux",
}

// ReadonlyPaths can be read in every cell, and not written.
var ReadonlyPaths = []string{
	"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger",
}

// Spec returns the whole OCI runtime specification of a cell: the single
// source of truth for what the cell is, kept in the record.
func Spec(p Plan, f Facts) (*specs.Spec, error) {
	s := &specs.Spec{
		Version:  "1.0.2", // what crun 1.8 and runc 1.1 read; nothing here is newer
		Hostname: p.HostnameOrDefault(),
		Root:     &specs.Root{Path: f.Rootfs},
		Process: &specs.Process{
			Args:            []string{InitPath},
			Env:             []string{"GOMAXPROCS=2", "GOTRACEBACK=single"},
			Cwd:             "/",
			User:            specs.User{UID: f.User.UID, GID: f.User.GID, AdditionalGids: f.User.Groups},
			Capabilities:    capabilities(p.Capabilities, f.User.UID),
			NoNewPrivileges: true,
			Rlimits:         rlimits(f.Rlimits, Processes(p.Limits, f.Rlimits)),
		},
		Mounts: append(systemMounts(), bindMounts(f.Binds)...),
		Linux: &specs.Linux{
			Namespaces:    namespaces(),
			UIDMappings:   IDMap(f.IDs),
			GIDMappings:   IDMap(f.IDs),
			MaskedPaths:   slices.Clone(MaskedPaths),
			ReadonlyPaths: slices.Clone(ReadonlyPaths),
			Sysctl:        sysctls(f.IDs),
			Resources:     f.Resources,
		},
	}
	profile, err := seccompProfile(s)
	if err != nil {
		return nil, err
	}
	s.Linux.Seccomp = profile
	return s, nil
}

// namespaces: a cell shares none of them with anything.
func namespaces() []specs.LinuxNamespace {
	return []specs.LinuxNamespace{
		{Type: specs.PIDNamespace}, {Type: specs.NetworkNamespace}, {Type: specs.IPCNamespace},
		{Type: specs.UTSNamespace}, {Type: specs.MountNamespace}, {Type: specs.CgroupNamespace},
		{Type: specs.UserNamespace},
	}
}

// capabilities gives the bounding set, and to a root user the same as
// effective and permitted. Nothing is inheritable or ambient, as in Docker.
func capabilities(bounding []string, uid uint32) *specs.LinuxCapabilities {
	set := slices.Sorted(slices.Values(bounding))
	if set == nil {
		set = []string{}
	}
	c := &specs.LinuxCapabilities{
		Bounding: set, Effective: []string{}, Permitted: []string{},
		Inheritable: []string{}, Ambient: []string{},
	}
	if uid == 0 {
		c.Effective, c.Permitted = slices.Clone(set), slices.Clone(set)
	}
	return c
}

func systemMounts() []specs.Mount {
	return []specs.Mount{
		// hidepid: without it a command could write PID 1's oom_score_adj and others.
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev", "hidepid=2"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}},
		{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: []string{"nosuid", "noexec", "nodev", "mode=1777", "size=65536k"}},
		{Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
		{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup", Options: []string{"nosuid", "noexec", "nodev", "relatime", "ro"}},
	}
}

func bindMounts(binds []Bind) []specs.Mount {
	mounts := make([]specs.Mount, 0, len(binds))
	for _, b := range binds {
		access := "rw"
		if b.ReadOnly {
			access = "ro"
		}
		mounts = append(mounts, specs.Mount{
			Destination: b.Destination, Type: "bind", Source: b.Source,
			Options: []string{"rbind", "rprivate", "nosuid", "nodev", access},
		})
	}
	return mounts
}

// sysctls are those of rootless containers elsewhere: low ports and ping work.
// The group range must lie inside the nested id map.
func sysctls(ids uint32) map[string]string {
	last := "65535"
	if ids < MapSize {
		last = "0"
	}
	return map[string]string{
		"net.ipv4.ip_unprivileged_port_start": "0",
		"net.ipv4.ping_group_range":           "0 " + last,
	}
}
