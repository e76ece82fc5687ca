package main

import (
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

type lie func(*specs.Spec) error

// lets is what the name of a lie begins with that opens one system call.
const lets = "seccomp-lets-"

// find returns a lie by its name, nil when there is none.
func find(name string) lie {
	if call, ok := strings.CutPrefix(name, lets); ok {
		return func(s *specs.Spec) error { return let(s, call) }
	}
	return lies[name]
}

// lies are what can be told, by name.
var lies = map[string]lie{
	"uid":     func(s *specs.Spec) error { s.Process.User.UID = 7; return nil },
	"gid":     func(s *specs.Spec) error { s.Process.User.GID = 7; return nil },
	"group":   func(s *specs.Spec) error { s.Process.User.AdditionalGids = []uint32{27}; return nil },
	"uid-map": func(s *specs.Spec) error { return narrower(s.Linux.UIDMappings) },
	"gid-map": func(s *specs.Spec) error {
		delete(s.Linux.Sysctl, "net.ipv4.ping_group_range") // it names the last group
		return narrower(s.Linux.GIDMappings)
	},
	"wide-map": func(s *specs.Spec) error {
		s.Linux.UIDMappings[len(s.Linux.UIDMappings)-1].Size++
		return nil
	},

	"bounding": func(s *specs.Spec) error {
		s.Process.Capabilities.Bounding = append(s.Process.Capabilities.Bounding, "CAP_SYS_ADMIN")
		return nil
	},
	"capability": func(s *specs.Spec) error {
		c := s.Process.Capabilities
		for _, set := range []*[]string{&c.Bounding, &c.Permitted, &c.Effective} {
			*set = append(*set, "CAP_SYS_ADMIN")
		}
		return nil
	},
	"permitted": func(s *specs.Spec) error {
		s.Process.Capabilities.Permitted, s.Process.Capabilities.Effective = []string{}, []string{}
		return nil
	},
	"inheritable": func(s *specs.Spec) error {
		s.Process.Capabilities.Inheritable = []string{"CAP_CHOWN"}
		return nil
	},
	"ambient": func(s *specs.Spec) error {
		s.Process.Capabilities.Inheritable = []string{"CAP_CHOWN"}
		s.Process.Capabilities.Ambient = []string{"CAP_CHOWN"}
		return nil
	},
	"new-privileges": func(s *specs.Spec) error { s.Process.NoNewPrivileges = false; return nil },
	"no-seccomp":     func(s *specs.Spec) error { return filter(s, nil) },
	"permissive-seccomp": func(s *specs.Spec) error {
		return filter(s, &specs.LinuxSeccomp{DefaultAction: specs.ActAllow, Syscalls: []specs.LinuxSyscall{{Names: []string{"vhangup"}, Action: specs.ActErrno}}})
	},

	"a-mount": func(s *specs.Spec) error {
		return mounted(s, specs.Mount{Destination: "/extra", Type: "tmpfs", Source: "tmpfs"})
	},
	"host-mount": func(s *specs.Spec) error {
		return mounted(s, specs.Mount{Destination: "/mnt", Type: "bind", Source: "/etc", Options: []string{"rbind"}})
	},
	"workspace": otherWorkspace,
	"writable":  func(s *specs.Spec) error { return without(s, "/sys/fs/cgroup", "ro") },
	"programs":  func(s *specs.Spec) error { return without(s, "/dev/shm", "noexec") },
	"devices":   func(s *specs.Spec) error { return without(s, "/dev/shm", "nodev") },
	"set-uid":   func(s *specs.Spec) error { return without(s, "/dev/shm", "nosuid") },
	"kind": func(s *specs.Spec) error {
		return mountOf(s, "/dev/mqueue", func(m *specs.Mount) { m.Type, m.Source = "tmpfs", "tmpfs" })
	},
	"no-mount": func(s *specs.Spec) error { return unmounted(s, "/dev/mqueue") },
	"hidepid":  func(s *specs.Spec) error { return without(s, "/proc", "hidepid=2") },
	"no-mask":  func(s *specs.Spec) error { s.Linux.MaskedPaths = drop(s.Linux.MaskedPaths, "/proc/keys"); return nil },
	"no-readonly": func(s *specs.Spec) error {
		s.Linux.ReadonlyPaths = drop(s.Linux.ReadonlyPaths, "/proc/sys")
		return nil
	},
	"other-mask": func(s *specs.Spec) error {
		s.Linux.MaskedPaths = drop(s.Linux.MaskedPaths, "/proc/keys")
		return hooked(s, "other-mask")
	},
	"writable-cover": func(s *specs.Spec) error {
		s.Linux.ReadonlyPaths = drop(s.Linux.ReadonlyPaths, "/proc/sys")
		return hooked(s, "writable-cover")
	},
	"root": otherRoot,
	"read-only-root": func(s *specs.Spec) error {
		s.Root.Readonly = true
		return nil
	},
	"read-only-workspace": func(s *specs.Spec) error { return with(s, "/work/workspace", "ro") },
	"no-programs":         func(s *specs.Spec) error { return hooked(s, "no-programs") },

	"core":      func(s *specs.Spec) error { return rlimit(s, "RLIMIT_CORE", specs.POSIXRlimit{Soft: 0, Hard: 4096}) },
	"processes": func(s *specs.Spec) error { return rlimit(s, "RLIMIT_NPROC", specs.POSIXRlimit{Soft: 9000, Hard: 9000}) },
	"files":     func(s *specs.Spec) error { return rlimit(s, "RLIMIT_NOFILE", specs.POSIXRlimit{Soft: 99, Hard: 99}) },

	"interface": func(s *specs.Spec) error { return hooked(s, "interface") },
	"share-net": func(s *specs.Spec) error { s.Linux.Sysctl = nil; return share(s, specs.NetworkNamespace) },
	"share-ipc": func(s *specs.Spec) error {
		if err := unmounted(s, "/dev/mqueue"); err != nil { // the mount needs a namespace of its own
			return err
		}
		if err := share(s, specs.IPCNamespace); err != nil {
			return err
		}
		return hooked(s, "queues")
	},
	"neighbour-net":    func(s *specs.Spec) error { s.Linux.Sysctl = nil; return join(s, specs.NetworkNamespace, "net") },
	"neighbour-ipc":    func(s *specs.Spec) error { return join(s, specs.IPCNamespace, "ipc") },
	"neighbour-uts":    func(s *specs.Spec) error { s.Hostname = ""; return join(s, specs.UTSNamespace, "uts") },
	"neighbour-cgroup": func(s *specs.Spec) error { return join(s, specs.CgroupNamespace, "cgroup") },
	"neighbour-pid":    func(s *specs.Spec) error { return join(s, specs.PIDNamespace, "pid") },
	"neighbour-mounts": func(s *specs.Spec) error { return join(s, specs.MountNamespace, "mnt") },
	"neighbour-user": func(s *specs.Spec) error {
		s.Linux.UIDMappings, s.Linux.GIDMappings = nil, nil
		return join(s, specs.UserNamespace, "user")
	},
	"share-uts":    func(s *specs.Spec) error { s.Hostname = ""; return share(s, specs.UTSNamespace) },
	"share-cgroup": func(s *specs.Spec) error { return share(s, specs.CgroupNamespace) },
	"share-pid":    func(s *specs.Spec) error { return share(s, specs.PIDNamespace) },
	"share-mounts": func(s *specs.Spec) error { return share(s, specs.MountNamespace) },
	"share-user": func(s *specs.Spec) error {
		s.Linux.UIDMappings, s.Linux.GIDMappings = nil, nil
		return share(s, specs.UserNamespace)
	},
}
