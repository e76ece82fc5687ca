package oci

import (
	"fmt"
	"slices"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// mount is one line of mountinfo.
type mount struct {
	point   string
	options []string // of the mount
	fs      string
	super   []string // of the file system
}

// parseMountinfo returns the mounts by mount point; a later mount hides an
// earlier one at the same point.
func parseMountinfo(text string) map[string]mount {
	mounts := map[string]mount{}
	for line := range strings.Lines(text) {
		left, right, ok := strings.Cut(strings.TrimSpace(line), " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 6 || len(r) < 3 {
			continue
		}
		m := mount{point: unescapeMount(l[4]), options: strings.Split(l[5], ","), fs: r[0], super: strings.Split(r[2], ",")}
		mounts[m.point] = m
	}
	return mounts
}

var mountEscapes = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

func unescapeMount(s string) string { return mountEscapes.Replace(s) }

// devices are what a runtime puts into /dev: in a user namespace it cannot
// make nodes, so each is a bind of the host's.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/console"}

// mounts: everything asked for is there with at least the restrictions asked
// for, and nothing else is mounted.
func (v *verifier) mounts() {
	have := parseMountinfo(v.m.Mountinfo)
	expected := map[string]bool{"/": true}
	for _, d := range devices {
		expected[d] = true
	}
	for _, want := range v.spec.Mounts {
		expected[want.Destination] = true
		v.mount(want, have)
	}
	if !v.spec.Root.Readonly {
		v.usable("/", nil, have["/"])
	}
	v.masked(have, expected)
	v.readonly(have, expected)
	for point := range have {
		if !expected[point] {
			v.differences = append(v.differences, fmt.Sprintf("mount: nothing was asked for at %s, the cell has a %s there", point, have[point].fs))
		}
	}
	slices.Sort(v.differences)
}

func (v *verifier) mount(want specs.Mount, have map[string]mount) {
	m, ok := have[want.Destination]
	if !ok {
		v.differ("mount "+want.Destination, want.Type, "no mount there")
		return
	}
	if want.Type == "bind" {
		if !v.m.Binds[want.Destination] {
			v.differ("mount "+want.Destination, "what podgrade prepared", "something else there")
		}
	} else if fs := fileSystem(want.Type); m.fs != fs {
		v.differ("mount "+want.Destination, fs, m.fs)
	}
	for _, option := range []string{"nosuid", "nodev", "noexec", "ro"} {
		if slices.Contains(want.Options, option) && !slices.Contains(m.options, option) {
			v.differ("mount "+want.Destination, option, strings.Join(m.options, ","))
		}
	}
	v.usable(want.Destination, want.Options, m)
	if slices.Contains(want.Options, "hidepid=2") && !slices.Contains(m.super, "hidepid=invisible") && !slices.Contains(m.super, "hidepid=2") {
		v.differ("mount "+want.Destination, "hidepid=2", strings.Join(m.super, ","))
	}
}

// usable: what a task may count on is not taken away. A criterion that cannot write,
// or start what it wrote, would fail as if its row had.
func (v *verifier) usable(at string, asked []string, m mount) {
	for option, usual := range map[string]string{"ro": "rw", "noexec": "exec"} {
		if slices.Contains(m.options, option) && !slices.Contains(asked, option) {
			v.differ("mount "+at, usual, strings.Join(m.options, ","))
		}
	}
}

// fileSystem is the kernel's name for a mount type of a specification.
func fileSystem(kind string) string {
	if kind == "cgroup" {
		return "cgroup2"
	}
	return kind
}

// masked paths are covered by an empty read-only tmpfs or by /dev/null.
func (v *verifier) masked(have map[string]mount, expected map[string]bool) {
	for _, path := range v.spec.Linux.MaskedPaths {
		expected[path] = true
		if !v.covered("masked path "+path, path) {
			continue
		}
		if m := have[path]; m.fs != "devtmpfs" && m.fs != "tmpfs" {
			v.differ("masked path "+path, "an empty mount", "a "+m.fs+" there")
		}
	}
}

func (v *verifier) readonly(have map[string]mount, expected map[string]bool) {
	for _, path := range v.spec.Linux.ReadonlyPaths {
		expected[path] = true
		if !v.covered("read-only path "+path, path) {
			continue
		}
		if m := have[path]; !slices.Contains(m.options, "ro") {
			v.differ("read-only path "+path, "ro", strings.Join(m.options, ","))
		}
	}
}

// covered tells whether there is a mount to look at.
func (v *verifier) covered(what, path string) bool {
	switch v.m.Covers[path] {
	case CoverAbsent:
		return false
	case CoverMount:
		return true
	}
	v.differ(what, "a mount over it", "it open")
	return false
}
