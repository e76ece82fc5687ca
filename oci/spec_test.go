package oci_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"podgrade/oci"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares with testdata/name, or writes it.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got; write it anew with -update):\n%s", file, diff)
	}
}

// The golden files are the whole of what a cell may be, but for the system
// calls, which have a test of their own.
func TestSpecificationIsTheGoldenOne(t *testing.T) {
	for name, test := range map[string]struct {
		plan oci.Plan
		user oci.User
	}{
		"spec-sealed-root.json": {oci.Plan{Phase: oci.Grade, Network: oci.Sealed}, oci.User{}},
		"spec-docker-1000.json": {
			oci.Plan{Phase: oci.Execute, Network: oci.Sealed, Capabilities: oci.DockerCapabilities(), Hostname: "row", Limits: oci.Limits{PIDs: 100, MemoryMB: 64}},
			oci.User{Name: "grader", UID: 1000, GID: 1000, Groups: []uint32{27, 44}},
		},
	} {
		s, err := oci.Spec(test.plan, oci.Facts{
			Rootfs: "/scratch/root",
			Binds: []oci.Bind{
				{Source: "/scratch/tool", Destination: oci.ToolPath, ReadOnly: true},
				{Source: "/scratch/view", Destination: oci.WorkspacePath},
			},
			User: test.user, IDs: 65536,
			Rlimits: map[string]oci.Rlimit{"RLIMIT_NOFILE": {Soft: 1024, Hard: 20000}},
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Linux.Seccomp = nil
		text, err := json.MarshalIndent(s, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name, append(text, '\n'))
	}
}

func profile(t *testing.T, capabilities []string) *specs.LinuxSeccomp {
	t.Helper()
	s, err := oci.Spec(oci.Plan{Capabilities: capabilities}, oci.Facts{IDs: 65536})
	if err != nil {
		t.Fatal(err)
	}
	return s.Linux.Seccomp
}

// allowed are the rules that allow a system call.
func allowed(p *specs.LinuxSeccomp, name string) []specs.LinuxSyscall {
	var rules []specs.LinuxSyscall
	for _, rule := range p.Syscalls {
		if rule.Action == specs.ActAllow && slices.Contains(rule.Names, name) {
			rules = append(rules, rule)
		}
	}
	return rules
}

func TestSeccompProfile(t *testing.T) {
	for name, capabilities := range map[string][]string{"sealed": nil, "docker": oci.DockerCapabilities()} {
		p := profile(t, capabilities)
		if p.DefaultAction == specs.ActAllow {
			t.Errorf("%s: what no rule names is allowed", name)
		}
		if len(p.Architectures) != 1 || runtime.GOARCH == "amd64" && p.Architectures[0] != specs.ArchX86_64 {
			t.Errorf("%s: the profile is for %v, and each costs 30 ms a cell", name, p.Architectures)
		}
		own := specs.LinuxSeccompArg{Index: 0, Value: 0xffffffff, ValueTwo: 0, Op: specs.OpMaskedEqual}
		if rules := allowed(p, "prlimit64"); len(rules) != 1 || len(rules[0].Names) != 1 || len(rules[0].Args) != 1 || rules[0].Args[0] != own {
			t.Errorf("%s: prlimit64 is allowed by %+v, want for pid 0 alone", name, rules)
		}
		for _, call := range []string{"mount", "umount2", "setns", "bpf", "perf_event_open", "init_module", "kexec_load", "reboot", "open_by_handle_at", "keyctl", "userfaultfd", "io_uring_setup"} {
			if rules := allowed(p, call); len(rules) > 0 {
				t.Errorf("%s: %s is allowed by %+v", name, call, rules)
			}
		}
		for _, call := range []string{"read", "openat", "execve", "clone", "sched_setaffinity", "setrlimit", "kill", "exit_group"} {
			if len(allowed(p, call)) == 0 {
				t.Errorf("%s: %s is not allowed", name, call)
			}
		}
		if chroot := len(allowed(p, "chroot")) > 0; chroot != (name == "docker") {
			t.Errorf("%s: chroot allowed: %v", name, chroot)
		}
	}
}

// Nothing of one specification is shared with the next.
func TestSpecificationsAreIndependent(t *testing.T) {
	capabilities := oci.DockerCapabilities()
	one, two := profile(t, capabilities), profile(t, capabilities)
	one.Syscalls[0].Names[0] = "changed"
	if two.Syscalls[0].Names[0] == "changed" || !slices.Equal(capabilities, oci.DockerCapabilities()) {
		t.Error("a change of one shows in another")
	}
	s, err := oci.Spec(oci.Plan{}, oci.Facts{})
	if err != nil {
		t.Fatal(err)
	}
	s.Linux.MaskedPaths[0] = "changed"
	if oci.MaskedPaths[0] == "changed" {
		t.Error("the list of masked paths itself was given out")
	}
}

func TestProcesses(t *testing.T) {
	for _, test := range []struct {
		limits oci.Limits
		host   map[string]oci.Rlimit
		want   uint64
	}{
		{oci.Limits{}, nil, 4096},
		{oci.Limits{PIDs: 100}, nil, 100},
		{oci.Limits{PIDs: 1 << 40}, nil, 1 << 40},
		{oci.Limits{}, map[string]oci.Rlimit{"RLIMIT_NPROC": {Hard: 1000}}, 936},
		{oci.Limits{PIDs: 100}, map[string]oci.Rlimit{"RLIMIT_NPROC": {Hard: 1000}}, 100},
		{oci.Limits{}, map[string]oci.Rlimit{"RLIMIT_NPROC": {Hard: oci.Unlimited}}, 4096},
		{oci.Limits{}, map[string]oci.Rlimit{"RLIMIT_NPROC": {Hard: 64}}, 4096},
	} {
		if got := oci.Processes(test.limits, test.host); got != test.want {
			t.Errorf("%+v under %v: %d processes, want %d", test.limits, test.host, got, test.want)
		}
	}
}

// A limit above the caller's hard one cannot be set, so none is asked for.
func TestRlimitsAreClamped(t *testing.T) {
	for _, host := range []map[string]oci.Rlimit{
		nil,
		{"RLIMIT_NOFILE": {Soft: 1024, Hard: 4096}, "RLIMIT_NPROC": {Soft: 10, Hard: 200}, "RLIMIT_CORE": {Soft: 0, Hard: 0}},
		{"RLIMIT_NOFILE": {Soft: 0, Hard: 0}},
		{"RLIMIT_NOFILE": {Soft: oci.Unlimited, Hard: oci.Unlimited}, "RLIMIT_NPROC": {Soft: oci.Unlimited, Hard: oci.Unlimited}},
	} {
		s, err := oci.Spec(oci.Plan{}, oci.Facts{Rlimits: host})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range s.Process.Rlimits {
			if have, ok := host[l.Type]; ok && l.Hard > have.Hard || l.Soft > l.Hard {
				t.Errorf("%s %d/%d under %v", l.Type, l.Soft, l.Hard, host)
			}
		}
	}
}

func TestCapabilityMask(t *testing.T) {
	for _, test := range []struct {
		names []string
		want  uint64
	}{
		{nil, 0}, {[]string{"CAP_CHOWN"}, 1}, {[]string{"CAP_SYS_ADMIN"}, 1 << 21}, {[]string{"CAP_CHECKPOINT_RESTORE"}, 1 << 40},
		{oci.DockerCapabilities(), 0xa80425f9}, {[]string{"CAP_CHOWN", "CAP_CHOWN"}, 1},
	} {
		if got, err := oci.CapabilityMask(test.names); err != nil || got != test.want {
			t.Errorf("%v is %x, %v; want %x", test.names, got, err, test.want)
		}
	}
	for _, name := range []string{"", "CHOWN", "cap_chown", "CAP_NOTHING"} {
		if mask, err := oci.CapabilityMask([]string{name}); err == nil || !strings.Contains(err.Error(), "CAP_CHOWN") {
			t.Errorf("%q is %x, %v", name, mask, err)
		}
	}
}

func TestPins(t *testing.T) {
	full := oci.Pin{Reference: "a:1", ID: "11", Digest: "sha256:22", Platform: "linux/amd64"}
	for _, test := range []struct {
		name string
		a, b oci.Pin
		same bool
	}{
		{"itself", full, full, true},
		{"another name", full, oci.Pin{Reference: "b:2", ID: "11", Digest: "sha256:22", Platform: "linux/amd64"}, true},
		{"the id decides", full, oci.Pin{ID: "11", Digest: "sha256:99", Platform: "linux/arm64"}, true},
		{"another id", full, oci.Pin{Reference: "a:1", ID: "12", Digest: "sha256:22", Platform: "linux/amd64"}, false},
		{"digest and platform", full, oci.Pin{Digest: "sha256:22", Platform: "linux/amd64"}, true},
		{"another platform", full, oci.Pin{Digest: "sha256:22", Platform: "linux/arm64"}, false},
		{"another digest", full, oci.Pin{Digest: "sha256:23", Platform: "linux/amd64"}, false},
		{"no digest", full, oci.Pin{Reference: "a:1", Platform: "linux/amd64"}, false},
		{"nothing", oci.Pin{}, oci.Pin{}, false},
	} {
		if test.a.Same(test.b) != test.same || test.b.Same(test.a) != test.same {
			t.Errorf("%s: %v", test.name, !test.same)
		}
	}
	for want, p := range map[string]oci.Pin{
		"a:1 (id 11, digest sha256:22, linux/amd64)": full,
		"a:1 (id 123456789012, linux/amd64)":         {Reference: "a:1", ID: "1234567890123456", Platform: "linux/amd64"},
		"a:1 (digest sha256:22, linux/amd64)":        {Reference: "a:1", Digest: "sha256:22", Platform: "linux/amd64"},
		"a:1 (not pinned)":                           {Reference: "a:1"},
	} {
		if p.String() != want || p.Known() != (p.ID+p.Digest != "") {
			t.Errorf("%+v is %q, known %v", p, p, p.Known())
		}
	}
}
