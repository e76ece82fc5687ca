package oci_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"podgrade/oci"
)

// recorded is a real cell: root with Docker's capabilities, a workspace and a
// reference. TestACellMeasuresAsItsSpecificationSays of package isolation
// writes it.
func recorded(t testing.TB) (*specs.Spec, oci.Measured) {
	t.Helper()
	text, err := os.ReadFile("testdata/measured.json")
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		Spec     *specs.Spec
		Measured oci.Measured
	}
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return r.Spec, r.Measured
}

func TestARealCellIsWhatWasAskedFor(t *testing.T) {
	s, m := recorded(t)
	if differences := oci.Verify(s, m, oci.Sealed); len(differences) > 0 {
		t.Errorf("differences: %s", strings.Join(differences, "; "))
	}
}

// replace falsifies a text, which must have what is replaced.
func replace(t *testing.T, text *string, old, new string) {
	t.Helper()
	if !strings.Contains(*text, old) {
		t.Fatalf("the recorded cell has no %q", old)
	}
	*text = strings.Replace(*text, old, new, 1)
}

// line is the line of a text that has this in it.
func line(t *testing.T, text, part string) string {
	t.Helper()
	for l := range strings.Lines(text) {
		if strings.Contains(l, part) {
			return l
		}
	}
	t.Fatalf("the recorded cell has no line with %q", part)
	return ""
}

// Each thing that a cell could have got otherwise is noticed, alone, by name.
func TestEveryFalsehoodIsNamed(t *testing.T) {
	type lie func(t *testing.T, m *oci.Measured)
	status := func(old, new string) lie {
		return func(t *testing.T, m *oci.Measured) { replace(t, &m.Status, old, new) }
	}
	mounts := func(old, new string) lie {
		return func(t *testing.T, m *oci.Measured) { replace(t, &m.Mountinfo, old, new) }
	}
	unmounted := func(point string) lie {
		return func(t *testing.T, m *oci.Measured) {
			replace(t, &m.Mountinfo, line(t, m.Mountinfo, " "+point+" "), "")
		}
	}
	extra := func(point, fs string) lie {
		return func(t *testing.T, m *oci.Measured) {
			m.Mountinfo += "900 193 0:99 / " + point + " rw,relatime - " + fs + " none rw\n"
		}
	}
	limits := func(old, new string) lie {
		return func(t *testing.T, m *oci.Measured) { replace(t, &m.Limits, old, new) }
	}
	tests := map[string]struct {
		lie  lie
		want string // what the one difference starts with
	}{
		"effective user":     {status("Uid:\t0\t0\t0\t0", "Uid:\t0\t1\t0\t0"), "user ids: asked for 0 0 0 0, the cell has 0 1 0 0"},
		"file system user":   {status("Uid:\t0\t0\t0\t0", "Uid:\t0\t0\t0\t5"), "user ids"},
		"group":              {status("Gid:\t0\t0\t0\t0", "Gid:\t5\t5\t5\t5"), "group ids"},
		"groups":             {status("Groups:\t ", "Groups:\t27 "), "supplementary groups"},
		"no user":            {status("Uid:\t0\t0\t0\t0\n", ""), "user ids: asked for 0 0 0 0, the cell has nothing"},
		"inheritable":        {status("CapInh:\t0000000000000000", "CapInh:\t0000000000000001"), "CapInh"},
		"permitted":          {status("CapPrm:\t00000000a80425f9", "CapPrm:\t00000000a80425fb"), "CapPrm"},
		"effective":          {status("CapEff:\t00000000a80425f9", "CapEff:\t000001ffffffffff"), "CapEff"},
		"bounding":           {status("CapBnd:\t00000000a80425f9", "CapBnd:\t00000000a80425fd"), "CapBnd"},
		"fewer":              {status("CapBnd:\t00000000a80425f9", "CapBnd:\t0000000000000000"), "CapBnd"},
		"ambient":            {status("CapAmb:\t0000000000000000", "CapAmb:\t0000000000000400"), "CapAmb"},
		"no capability line": {status("CapAmb:\t0000000000000000\n", ""), "CapAmb"},
		"new privileges":     {status("NoNewPrivs:\t1", "NoNewPrivs:\t0"), "no_new_privs"},
		"no seccomp":         {status("Seccomp:\t2", "Seccomp:\t0"), "seccomp mode"},
		"strict seccomp":     {status("Seccomp:\t2", "Seccomp:\t1"), "seccomp mode"},
		"another filter":     {func(_ *testing.T, m *oci.Measured) { m.Open = []string{"keyctl"} }, "system call keyctl: asked for its refusal"},
		"uid map":            {func(_ *testing.T, m *oci.Measured) { m.UIDMap = "0 0 4294967295\n" }, "uid map"},
		"gid map":            {func(_ *testing.T, m *oci.Measured) { m.GIDMap = "0 0 1\n" }, "gid map"},
		"interface":          {func(_ *testing.T, m *oci.Measured) { m.Interfaces = []string{"eth0", "lo"} }, "network interfaces: asked for lo, the cell has eth0 lo"},
		"no interface":       {func(_ *testing.T, m *oci.Measured) { m.Interfaces = nil }, "network interfaces"},
		"no hidepid":         {mounts("proc proc rw,hidepid=invisible", "proc proc rw"), "mount /proc: asked for hidepid=2"},
		"exec in /proc":      {mounts(" /proc rw,nosuid,nodev,noexec,", " /proc rw,nosuid,nodev,"), "mount /proc: asked for noexec"},
		"writable /sys":      {mounts(" /sys ro,", " /sys rw,"), "mount /sys: asked for ro"},
		"suid workspace":     {mounts(" /work/workspace rw,nosuid,", " /work/workspace rw,"), "mount /work/workspace: asked for nosuid"},
		"devices":            {mounts(" /work/workspace rw,nosuid,nodev,", " /work/workspace rw,nosuid,"), "mount /work/workspace: asked for nodev"},
		"writable tools":     {mounts(" /.podgrade ro,", " /.podgrade rw,"), "mount /.podgrade: asked for ro"},
		"writable reference": {mounts(" /work/references ro,", " /work/references rw,"), "mount /work/references: asked for ro"},
		"no workspace":       {unmounted("/work/workspace"), "mount /work/workspace: asked for bind, the cell has no mount there"},
		"no /dev/shm":        {unmounted("/dev/shm"), "mount /dev/shm"},
		"another kind":       {mounts("- mqueue mqueue", "- tmpfs mqueue"), "mount /dev/mqueue: asked for mqueue, the cell has tmpfs"},
		"unmasked":           {func(_ *testing.T, m *oci.Measured) { m.Covers["/proc/keys"] = oci.CoverNone }, "masked path /proc/keys"},
		"not looked at":      {func(_ *testing.T, m *oci.Measured) { delete(m.Covers, "/proc/kcore") }, "masked path /proc/kcore"},
		"masked by more":     {mounts("/proc/acpi ro,relatime - tmpfs", "/proc/acpi ro,relatime - ext4"), "masked path /proc/acpi"},
		"writable sys":       {mounts(" /proc/sys ro,", " /proc/sys rw,"), "read-only path /proc/sys: asked for ro"},
		"uncovered sys":      {func(_ *testing.T, m *oci.Measured) { m.Covers["/proc/sys"] = oci.CoverNone }, "read-only path /proc/sys"},
		"another workspace":  {func(_ *testing.T, m *oci.Measured) { m.Binds["/work/workspace"] = false }, "mount /work/workspace: asked for what podgrade prepared"},
		"another tool":       {func(_ *testing.T, m *oci.Measured) { delete(m.Binds, "/.podgrade") }, "mount /.podgrade"},
		"a mount more":       {extra("/host", "ext4"), "mount: nothing was asked for at /host, the cell has a ext4 there"},
		"a socket":           {extra(`/run/a\040b`, "tmpfs"), "mount: nothing was asked for at /run/a b"},
		"a mount below":      {extra("/work/workspace/sub", "tmpfs"), "mount: nothing was asked for at /work/workspace/sub"},
		"core files":         {limits("Max core file size        0                    0 ", "Max core file size        unlimited            unlimited"), "RLIMIT_CORE: asked for 0/0"},
		"processes":          {limits("Max processes             4160                 4160", "Max processes             4160                 9999"), "RLIMIT_NPROC: asked for 4160/4160, the cell has 4160/9999"},
		"open files":         {limits("Max open files            20000 ", "Max open files            200 "), "RLIMIT_NOFILE"},
		"no limits":          {limits("Max processes ", "Min processes "), "RLIMIT_NPROC"},
	}
	for _, ns := range oci.NamespaceFiles() {
		tests["shared "+ns] = struct {
			lie  lie
			want string
		}{func(_ *testing.T, m *oci.Measured) { m.Namespaces[ns] = m.Outside[ns] }, ns + " namespace: asked for its own, the cell has the worker's"}
		tests["unread "+ns] = struct {
			lie  lie
			want string
		}{func(_ *testing.T, m *oci.Measured) { delete(m.Namespaces, ns) }, ns + " namespace"}
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s, m := recorded(t)
			test.lie(t, &m)
			differences := oci.Verify(s, m, oci.Sealed)
			if len(differences) != 1 || !strings.HasPrefix(differences[0], test.want) {
				t.Errorf("differences %q, want one that starts with %q", differences, test.want)
			}
		})
	}
}

// A specification that asks for less than a cell always has is not enough.
func TestASpecificationThatAsksForTooLittleIsADifference(t *testing.T) {
	for want, change := range map[string]func(*specs.Spec){
		"seccomp: ":             func(s *specs.Spec) { s.Linux.Seccomp = nil },
		"net namespace: ":       func(s *specs.Spec) { s.Linux.Namespaces = slices.Delete(s.Linux.Namespaces, 1, 2) },
		"CapBnd: ":              func(s *specs.Spec) { s.Process.Capabilities.Bounding = []string{"CAP_NOTHING"} },
		"pid namespace: ":       func(s *specs.Spec) { s.Linux.Namespaces[0].Path = "/proc/1/ns/pid" },
		"supplementary groups:": func(s *specs.Spec) { s.Process.User.AdditionalGids = []uint32{0, 5} },
	} {
		s, m := recorded(t)
		change(s)
		if differences := oci.Verify(s, m, oci.Sealed); len(differences) != 1 || !strings.HasPrefix(differences[0], want) {
			t.Errorf("differences %q, want one of %q", differences, want)
		}
	}
	s, m := recorded(t)
	m.Interfaces = []string{"eth0", "lo"}
	if differences := oci.Verify(s, m, oci.Egress); len(differences) > 0 {
		t.Errorf("with a network granted: %q", differences)
	}
}

func FuzzVerify(f *testing.F) {
	s, m := recorded(f)
	f.Add(m.Status, m.UIDMap, m.Mountinfo, m.Limits)
	f.Add("Uid:\nCapInh: zz\nSeccomp", "0 0", `1 2 3:4 / /\040\ rw - x y`, "Max processes \nMax open files x")
	f.Add("", "", " - \n - - - - - - - -", "")
	f.Fuzz(func(t *testing.T, status, idMap, mountinfo, limits string) {
		said := m
		said.Status, said.UIDMap, said.GIDMap, said.Mountinfo, said.Limits = status, idMap, idMap, mountinfo, limits
		for _, d := range oci.Verify(s, said, oci.Sealed) {
			if d == "" {
				t.Error("a difference without words")
			}
		}
	})
}
