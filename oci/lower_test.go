package oci_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"podgrade/oci"
)

var updateLowered = flag.Bool("update-lowered", false, "write the golden files of lowered specifications anew")

func loweredSpec(t *testing.T, capabilities []string, user oci.User) *specs.Spec {
	t.Helper()
	s, err := oci.Spec(oci.Plan{Phase: oci.Grade, Network: oci.Sealed, Capabilities: capabilities}, oci.Facts{
		Rootfs: "/scratch/root",
		Binds: []oci.Bind{
			{Source: "/scratch/tool", Destination: oci.ToolPath, ReadOnly: true},
			{Source: "/scratch/view", Destination: oci.WorkspacePath},
		},
		User: user, IDs: 65536,
		Rlimits: map[string]oci.Rlimit{"RLIMIT_NOFILE": {Soft: 1024, Hard: 20000}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestLoweredSpecificationIsTheGoldenOne shows all that Podman is asked for.
func TestLoweredSpecificationIsTheGoldenOne(t *testing.T) {
	for name, s := range map[string]*specs.Spec{
		"sealed-root": loweredSpec(t, nil, oci.User{}),
		"docker-1000": loweredSpec(t, oci.DockerCapabilities(), oci.User{Name: "grader", UID: 1000, GID: 1000, Groups: []uint32{27, 44}}),
	} {
		got, err := json.MarshalIndent(oci.Lower(s, oci.ContainerFacts{
			Name: "podgrade-run-x-cell-1-1", Image: "0123abcd", Runtime: "crun", Labels: map[string]string{"owner": "me"},
			SpecFile: "/scratch/config.json", SeccompProfile: "/scratch/seccomp.json",
		}), "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join("testdata", "lowered-"+name+".json")
		if *updateLowered {
			if err := os.MkdirAll("testdata", 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, append(got, '\n'), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.Split(strings.TrimSpace(string(want)), "\n"), strings.Split(string(got), "\n")); diff != "" {
			t.Errorf("%s differs from %s (write it anew with -update-lowered):\n%s", name, file, diff)
		}
	}
}

// generated is a configuration as Podman makes one: with much that was not
// asked for.
func generated() *specs.Spec {
	return &specs.Spec{
		Version:     "1.0.2-dev",
		Root:        &specs.Root{Path: "/store/merged"},
		Hostname:    "other",
		Annotations: map[string]string{oci.SpecAnnotation: "/scratch/config.json", "io.podman": "x"},
		Hooks:       &specs.Hooks{Poststop: []specs.Hook{{Path: "/clean-up"}}},
		Mounts:      []specs.Mount{{Destination: "/run/.containerenv", Type: "bind", Source: "/store/x"}},
		Process: &specs.Process{
			Args: []string{"/bin/false"}, SelinuxLabel: "container_t", ApparmorProfile: "containers-default",
			Capabilities: &specs.LinuxCapabilities{Effective: []string{"CAP_SYS_ADMIN"}},
			User:         specs.User{UID: 7},
		},
		Linux: &specs.Linux{
			MountLabel: "container_file_t", CgroupsPath: "/libpod/x",
			Resources:  &specs.LinuxResources{Pids: &specs.LinuxPids{Limit: 9}},
			Namespaces: []specs.LinuxNamespace{{Type: specs.PIDNamespace}},
		},
	}
}

// TestAdjustKeepsOfPodmanWhatOnlyPodmanKnows: and nothing else, not even of
// fields that are not known today.
func TestAdjustKeepsOfPodmanWhatOnlyPodmanKnows(t *testing.T) {
	wanted := loweredSpec(t, nil, oci.User{UID: 1000, GID: 1000})
	before := loweredSpec(t, nil, oci.User{UID: 1000, GID: 1000})
	podman := generated()
	got, err := oci.Adjust(podman, wanted)
	if err != nil {
		t.Fatal(err)
	}
	want := *before
	process, linux := *before.Process, *before.Linux
	want.Version, want.Root, want.Hooks, want.Annotations = podman.Version, podman.Root, podman.Hooks, podman.Annotations
	process.SelinuxLabel, process.ApparmorProfile = "container_t", "containers-default"
	linux.MountLabel, linux.CgroupsPath, linux.Resources = "container_file_t", "/libpod/x", podman.Linux.Resources
	want.Process, want.Linux = &process, &linux
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Errorf("asked for (-) and adjusted (+) differ:\n%s", diff)
	}
	if !reflect.DeepEqual(wanted, before) {
		t.Error("the specification itself was changed")
	}
}

// TestAdjustEntersTheGroupOfTheCell: Podman's own limits of a container, as that
// of processes which it always sets, would replace those of the group.
func TestAdjustEntersTheGroupOfTheCell(t *testing.T) {
	wanted := loweredSpec(t, nil, oci.User{})
	container := oci.Lower(wanted, oci.ContainerFacts{SpecFile: "/scratch/config.json", Group: "/a/cell"})
	podman := generated()
	podman.Annotations = container.Annotations
	got, err := oci.Adjust(podman, wanted)
	if err != nil {
		t.Fatal(err)
	}
	if got.Linux.CgroupsPath != "/a/cell" || got.Linux.Resources != nil {
		t.Errorf("the group is %q, with the resources %+v", got.Linux.CgroupsPath, got.Linux.Resources)
	}
	if _, there := oci.Lower(wanted, oci.ContainerFacts{}).Annotations[oci.GroupAnnotation]; there {
		t.Error("a cell without a group names one")
	}
}

func TestAdjustRefusesWhatIsNoContainer(t *testing.T) {
	wanted := loweredSpec(t, nil, oci.User{})
	for name, c := range map[string]struct{ generated, wanted *specs.Spec }{
		"no root":            {&specs.Spec{Process: &specs.Process{}, Linux: &specs.Linux{}}, wanted},
		"no process":         {&specs.Spec{Root: &specs.Root{}, Linux: &specs.Linux{}}, wanted},
		"no Linux part":      {&specs.Spec{Root: &specs.Root{}, Process: &specs.Process{}}, wanted},
		"nothing was wanted": {generated(), &specs.Spec{}},
	} {
		if got, err := oci.Adjust(c.generated, c.wanted); err == nil || got != nil {
			t.Errorf("%s: no error", name)
		}
	}
}
