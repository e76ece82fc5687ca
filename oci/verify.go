package oci

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// Measured is what the worker read from outside about a started cell, as the
// kernel gives it. It is compared with the specification before the first
// command runs, because a runtime may be told one thing and do another.
type Measured struct {
	Status     string            `json:"status"`     // /proc/<pid>/status
	UIDMap     string            `json:"uid_map"`    // /proc/<pid>/uid_map
	GIDMap     string            `json:"gid_map"`    // /proc/<pid>/gid_map
	Mountinfo  string            `json:"mountinfo"`  // /proc/<pid>/mountinfo
	Limits     string            `json:"limits"`     // /proc/<pid>/limits
	Namespaces map[string]string `json:"namespaces"` // name -> link, of the cell
	Outside    map[string]string `json:"outside"`    // name -> link, of the worker
	Neighbours []string          `json:"neighbours"` // names of those that another living cell is in, too
	Interfaces []string          `json:"interfaces"` // network interfaces of the cell
	// Root: the cell's root file system is the one that we mounted, or that Podman
	// mounted for its container.
	Root bool `json:"root"`
	// Binds tells for each bind of the specification whether what is mounted
	// there is the very file or directory that we prepared.
	Binds map[string]bool `json:"binds"`
	// Covers tells for each masked and read-only path what is there.
	Covers map[string]Cover `json:"covers"`
	// Open are system calls that the cell's filter must refuse and that our
	// supervisor, which tried them inside, could make.
	Open []string `json:"open"`
}

// Cover is what lies at a path that should be hidden or protected.
type Cover string

// The covers.
const (
	CoverAbsent Cover = "absent" // the kernel has no such path
	CoverMount  Cover = "mount"  // something is mounted over it
	CoverNone   Cover = "none"   // it lies open
)

// Verify compares a started cell with its specification and returns every
// difference, in words, none when the cell is what was asked for. network says
// which interfaces the cell has: lo alone, or EgressInterface as well.
func Verify(s *specs.Spec, m Measured, network Network) []string {
	v := verifier{spec: s, m: m, status: parseStatus(m.Status)}
	v.credentials()
	v.capabilities()
	v.seccomp()
	v.idMaps()
	v.namespaces()
	if !m.Root {
		v.differ("root file system", "the image that was mounted", "something else")
	}
	v.mounts()
	v.limits()
	interfaces := []string{"lo"}
	if network == Egress {
		interfaces = append(interfaces, EgressInterface)
	}
	v.equal("network interfaces", strings.Join(interfaces, " "), strings.Join(m.Interfaces, " "))
	return v.differences
}

type verifier struct {
	spec        *specs.Spec
	m           Measured
	status      map[string]string
	differences []string
}

func (v *verifier) differ(what, want, have string) {
	if have == "" {
		have = "nothing"
	}
	v.differences = append(v.differences, fmt.Sprintf("%s: asked for %s, the cell has %s", what, want, have))
}

func (v *verifier) equal(what, want, have string) {
	if want != have {
		v.differ(what, want, have)
	}
}

func parseStatus(status string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(status) {
		if name, value, ok := strings.Cut(line, ":"); ok {
			fields[name] = strings.Join(strings.Fields(value), " ")
		}
	}
	return fields
}

// credentials: all four ids (real, effective, saved, file system) are the
// image's user, as seen from the worker, whose ids are the cell's own.
func (v *verifier) credentials() {
	u := v.spec.Process.User
	four := func(id uint32) string { return strings.TrimSuffix(strings.Repeat(fmt.Sprintf("%d ", id), 4), " ") }
	v.equal("user ids", four(u.UID), v.status["Uid"])
	v.equal("group ids", four(u.GID), v.status["Gid"])
	want := slices.Clone(u.AdditionalGids)
	have := numbers(v.status["Groups"])
	// Runtimes may list the primary group among the supplementary ones.
	have = slices.DeleteFunc(have, func(g uint32) bool { return g == u.GID && !slices.Contains(want, g) })
	slices.Sort(want)
	slices.Sort(have)
	if !slices.Equal(want, have) {
		v.differ("supplementary groups", fmt.Sprint(want), fmt.Sprint(have))
	}
}

func numbers(s string) []uint32 {
	var ids []uint32
	for f := range strings.FieldsSeq(s) {
		if id, err := strconv.ParseUint(f, 10, 32); err == nil {
			ids = append(ids, uint32(id))
		}
	}
	return ids
}

func (v *verifier) capabilities() {
	c := v.spec.Process.Capabilities
	for _, set := range []struct {
		field string
		want  []string
	}{
		{"CapInh", c.Inheritable}, {"CapPrm", c.Permitted}, {"CapEff", c.Effective},
		{"CapBnd", c.Bounding}, {"CapAmb", c.Ambient},
	} {
		want, err := CapabilityMask(set.want)
		if err != nil {
			v.differ(set.field, "a known set", err.Error())
			continue
		}
		have, err := strconv.ParseUint(v.status[set.field], 16, 64)
		if err != nil || have != want {
			v.differ(set.field, fmt.Sprintf("%016x", want), v.status[set.field])
		}
	}
	want := "0"
	if v.spec.Process.NoNewPrivileges {
		want = "1"
	}
	v.equal("no_new_privs", want, v.status["NoNewPrivs"])
}

// seccomp: mode 2 is a filter. What the filter does cannot be read back from
// outside; that it is ours is seen by calls that no other one refuses.
func (v *verifier) seccomp() {
	if v.spec.Linux.Seccomp == nil {
		v.differ("seccomp", "a filter", "no profile in its specification")
		return
	}
	v.equal("seccomp mode", "2", v.status["Seccomp"])
	for _, call := range v.m.Open {
		v.differ("system call "+call, "its refusal", "it open")
	}
}

func (v *verifier) idMaps() {
	v.equal("uid map", mapText(v.spec.Linux.UIDMappings), mapFields(v.m.UIDMap))
	v.equal("gid map", mapText(v.spec.Linux.GIDMappings), mapFields(v.m.GIDMap))
}

func mapText(m []specs.LinuxIDMapping) string {
	var lines []string
	for _, x := range m {
		lines = append(lines, fmt.Sprintf("%d %d %d", x.ContainerID, x.HostID, x.Size))
	}
	return strings.Join(lines, ", ")
}

func mapFields(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, ", ")
}

// namespaceFiles maps the specification's names to those in /proc/<pid>/ns.
var namespaceFiles = map[specs.LinuxNamespaceType]string{
	specs.PIDNamespace: "pid", specs.NetworkNamespace: "net", specs.IPCNamespace: "ipc",
	specs.UTSNamespace: "uts", specs.MountNamespace: "mnt", specs.CgroupNamespace: "cgroup",
	specs.UserNamespace: "user",
}

// NamespaceFiles are the names in /proc/<pid>/ns that are measured.
func NamespaceFiles() []string {
	var names []string
	for _, n := range namespaceFiles {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

func (v *verifier) namespaces() {
	asked := map[string]bool{}
	for _, n := range v.spec.Linux.Namespaces {
		if n.Path == "" {
			asked[namespaceFiles[n.Type]] = true
		}
	}
	for _, name := range NamespaceFiles() {
		cell, outside := v.m.Namespaces[name], v.m.Outside[name]
		switch {
		case !asked[name]:
			v.differ(name+" namespace", "its own", "none in its specification")
		case cell == "" || outside == "":
			v.differ(name+" namespace", "its own", "one that could not be read")
		case cell == outside:
			v.differ(name+" namespace", "its own", "the worker's")
		case slices.Contains(v.m.Neighbours, name):
			v.differ(name+" namespace", "its own", "that of another cell")
		}
	}
}

func (v *verifier) limits() {
	have := parseLimits(v.m.Limits)
	for _, want := range v.spec.Process.Rlimits {
		if h, ok := have[want.Type]; !ok || h.Soft != want.Soft || h.Hard != want.Hard {
			v.differ(want.Type, fmt.Sprintf("%d/%d", want.Soft, want.Hard), fmt.Sprintf("%d/%d", h.Soft, h.Hard))
		}
	}
}

// limitNames are the lines of /proc/<pid>/limits that a specification sets.
var limitNames = map[string]string{
	"Max core file size": "RLIMIT_CORE", "Max open files": "RLIMIT_NOFILE", "Max processes": "RLIMIT_NPROC",
	"Max data size": "RLIMIT_DATA", "Max address space": "RLIMIT_AS", "Max file size": "RLIMIT_FSIZE",
	"Max cpu time": "RLIMIT_CPU", "Max stack size": "RLIMIT_STACK",
}

func parseLimits(text string) map[string]Rlimit {
	limits := map[string]Rlimit{}
	for line := range strings.Lines(text) {
		for name, resource := range limitNames {
			fields := strings.Fields(strings.TrimPrefix(line, name))
			if strings.HasPrefix(line, name+" ") && len(fields) >= 2 {
				limits[resource] = Rlimit{Soft: limitValue(fields[0]), Hard: limitValue(fields[1])}
			}
		}
	}
	return limits
}

func limitValue(s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return Unlimited
	}
	return n
}
