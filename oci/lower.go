package oci

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// SpecAnnotation names, in a container of Podman, the file that holds the
// specification of the cell that the container is. Podman's hook looks for it.
const SpecAnnotation = "podgrade.spec"

// GroupAnnotation names, in a container of Podman, the control group that the
// runtime is to enter, whose limits are set already.
const GroupAnnotation = "podgrade.group"

// Container is a container as Podman's service is asked for it: the part of
// libpod's container creation request that a cell needs, under the same JSON
// names. It is data only, so that the lowering can be tested without Podman.
type Container struct {
	Name        string            `json:"name"`
	Image       string            `json:"image"` // id: Podman never looks for a name
	Runtime     string            `json:"oci_runtime"`
	Entrypoint  []string          `json:"entrypoint"`
	Command     []string          `json:"command"`
	Stdin       bool              `json:"stdin"`
	Terminal    bool              `json:"terminal"`
	Env         map[string]string `json:"env"`
	UnsetEnvAll bool              `json:"unsetenvall"` // nothing of the image's
	EnvHost     bool              `json:"env_host"`
	HTTPProxy   bool              `json:"httpproxy"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	Log         ContainerLog      `json:"log_configuration"`
	Systemd     string            `json:"systemd"`
	SdNotify    string            `json:"sdnotifyMode"`

	User     string   `json:"user"`
	Groups   []string `json:"groups"`
	Passwd   bool     `json:"manage_password"` // may Podman write users into the image's files?
	Hostname string   `json:"hostname"`
	Umask    string   `json:"umask"`
	WorkDir  string   `json:"work_dir"`

	CapAdd          []string `json:"cap_add"`
	CapDrop         []string `json:"cap_drop"`
	NoNewPrivileges bool     `json:"no_new_privileges"`
	SeccompProfile  string   `json:"seccomp_profile_path"`
	ProcOptions     []string `json:"procfs_opts"`
	Mask            []string `json:"mask"`
	Unmask          []string `json:"unmask"`

	PIDNS    ContainerNamespace `json:"pidns"`
	UTSNS    ContainerNamespace `json:"utsns"`
	IPCNS    ContainerNamespace `json:"ipcns"`
	CgroupNS ContainerNamespace `json:"cgroupns"`
	NetNS    ContainerNamespace `json:"netns"`
	UserNS   ContainerNamespace `json:"userns"`
	IDMaps   ContainerIDMaps    `json:"idmappings"`

	Mounts          []specs.Mount       `json:"mounts"`
	ImageVolumeMode string              `json:"image_volume_mode"`
	ShmSize         int64               `json:"shm_size"` // bytes
	Volatile        bool                `json:"volatile"`
	Rlimits         []specs.POSIXRlimit `json:"r_limits"`
	Sysctl          map[string]string   `json:"sysctl"`
	ImageHosts      bool                `json:"use_image_hosts"` // Podman writes no /etc/hosts
	ImageResolvConf bool                `json:"use_image_resolve_conf"`
}

// ContainerLog is where Podman keeps what a container prints.
type ContainerLog struct {
	Driver string `json:"driver"`
}

// ContainerNamespace says where a namespace of a container comes from.
type ContainerNamespace struct {
	Mode string `json:"nsmode"`
}

// ContainerIDMaps are the id maps of a container's storage and processes.
type ContainerIDMaps struct {
	UIDMap []ContainerIDMap
	GIDMap []ContainerIDMap
}

// ContainerIDMap is one piece of an id map.
type ContainerIDMap struct {
	ContainerID uint32 `json:"container_id"`
	HostID      uint32 `json:"host_id"`
	Size        uint32 `json:"size"`
}

// ContainerFacts are what Lower needs beside the specification.
type ContainerFacts struct {
	Name           string
	Image          string            // id
	Runtime        string            // name of the OCI runtime
	Labels         map[string]string // whose the container is
	SpecFile       string            // of the whole specification
	SeccompProfile string            // file with the specification's profile
	Group          string            // control group that it enters, as runtimes name one; "": none of its own
}

// shmSize is that of /dev/shm in every cell, in bytes.
const shmSize = 64 << 20

// podmanMasks are paths that Podman hides beyond MaskedPaths.
var podmanMasks = []string{"/sys/dev/block"}

// Lower translates a specification into what Podman is asked for, as far as
// Podman has words for it. What it has none for, and what it adds unasked,
// Adjust sets right.
func Lower(s *specs.Spec, f ContainerFacts) Container {
	private := ContainerNamespace{Mode: "private"}
	annotations := map[string]string{SpecAnnotation: f.SpecFile}
	if f.Group != "" {
		annotations[GroupAnnotation] = f.Group
	}
	return Container{
		Name: f.Name, Image: f.Image, Runtime: f.Runtime, Labels: f.Labels,
		Annotations: annotations,
		Entrypoint:  []string{}, Command: slices.Clone(s.Process.Args),
		Stdin: true, Env: variables(s.Process.Env), UnsetEnvAll: true,
		Log:     ContainerLog{Driver: "none"}, // or every byte of every command is written twice
		Systemd: "false", SdNotify: "ignore",

		User:     fmt.Sprintf("%d:%d", s.Process.User.UID, s.Process.User.GID),
		Groups:   decimals(s.Process.User.AdditionalGids),
		Hostname: s.Hostname, Umask: "0022", WorkDir: s.Process.Cwd,

		CapAdd: slices.Clone(s.Process.Capabilities.Bounding), CapDrop: []string{"all"},
		NoNewPrivileges: s.Process.NoNewPrivileges, SeccompProfile: f.SeccompProfile,
		ProcOptions: procOptions(s.Mounts), Mask: slices.Clone(s.Linux.MaskedPaths), Unmask: slices.Clone(podmanMasks),

		PIDNS: private, UTSNS: private, IPCNS: private, CgroupNS: private, UserNS: private,
		NetNS:  ContainerNamespace{Mode: "none"},
		IDMaps: ContainerIDMaps{UIDMap: containerMap(s.Linux.UIDMappings), GIDMap: containerMap(s.Linux.GIDMappings)},

		Mounts: onlyBinds(s.Mounts), ImageVolumeMode: "ignore", // plain directories
		ShmSize:  shmSize,
		Volatile: true, // the container never outlives the machine
		Rlimits:  podmanRlimits(s.Process.Rlimits), Sysctl: s.Linux.Sysctl,
		ImageHosts: true, ImageResolvConf: true, // ours are bound
	}
}

func variables(env []string) map[string]string {
	set := map[string]string{}
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		set[name] = value
	}
	return set
}

func decimals(ids []uint32) []string {
	texts := []string{}
	for _, id := range ids {
		texts = append(texts, fmt.Sprint(id))
	}
	return texts
}

func procOptions(mounts []specs.Mount) []string {
	for _, m := range mounts {
		if m.Destination == "/proc" {
			return slices.Clone(m.Options)
		}
	}
	return nil
}

func onlyBinds(mounts []specs.Mount) []specs.Mount {
	var binds []specs.Mount
	for _, m := range mounts {
		if m.Type == "bind" {
			binds = append(binds, m)
		}
	}
	return binds
}

func containerMap(m []specs.LinuxIDMapping) []ContainerIDMap {
	var pieces []ContainerIDMap
	for _, x := range m {
		pieces = append(pieces, ContainerIDMap{ContainerID: x.ContainerID, HostID: x.HostID, Size: x.Size})
	}
	return pieces
}

// podmanRlimits names the limits as Podman's request does: "nofile".
func podmanRlimits(limits []specs.POSIXRlimit) []specs.POSIXRlimit {
	var named []specs.POSIXRlimit
	for _, l := range limits {
		l.Type = strings.ToLower(strings.TrimPrefix(l.Type, "RLIMIT_"))
		named = append(named, l)
	}
	return named
}

// Adjust returns what the OCI runtime is to make of a container of Podman: the
// cell's specification, with what only Podman knows of that container. Podman
// asks for it by its hook of the stage "precreate". So a cell is the same
// whichever engine made it: its mounts, its capabilities where its user is not
// root, and its masked paths are those of the specification, not Podman's.
func Adjust(generated, wanted *specs.Spec) (*specs.Spec, error) {
	if generated.Root == nil || generated.Process == nil || generated.Linux == nil {
		return nil, errors.New("adjust the container of Podman: its configuration has no root, process or Linux part")
	}
	if wanted.Process == nil || wanted.Linux == nil {
		return nil, errors.New("adjust the container of Podman: the cell's specification has no process or no Linux part")
	}
	adjusted := *wanted
	adjusted.Version = generated.Version
	adjusted.Root = generated.Root
	adjusted.Hooks = generated.Hooks
	adjusted.Annotations = generated.Annotations
	process, linux := *wanted.Process, *wanted.Linux
	process.SelinuxLabel = generated.Process.SelinuxLabel
	process.ApparmorProfile = generated.Process.ApparmorProfile
	linux.MountLabel = generated.Linux.MountLabel
	linux.CgroupsPath = generated.Linux.CgroupsPath
	linux.Resources = generated.Linux.Resources
	if group := generated.Annotations[GroupAnnotation]; group != "" {
		// It has the limits already, and Podman would add its own.
		linux.CgroupsPath, linux.Resources = group, nil
	}
	adjusted.Process, adjusted.Linux = &process, &linux
	return &adjusted, nil
}
