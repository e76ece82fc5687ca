package isolation_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"podgrade/isolation"
	"podgrade/isolation/testimages"
	"podgrade/oci"
)

// dump runs the cell dump in a cell: build/test/celldump, given in the
// workspace.
func dump(t *testing.T, engine string, i isolation.Image, change func(*isolation.Order)) string {
	t.Helper()
	program, err := os.ReadFile(filepath.Join(buildDir(), "test", "celldump"))
	if err != nil {
		t.Fatal(err)
	}
	c := onEngine(t, engine, i, func(o *isolation.Order) {
		if err := os.WriteFile(filepath.Join(o.Workspace, "celldump"), program, 0o755); err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(o)
		}
	})
	got := run(t, c, time.Minute*patience(), c.Places().Workspace+"/celldump")
	if got.Code != 0 {
		t.Fatalf("the dump ended with %d: %s", got.Code, got.out)
	}
	return got.out
}

// TestBothEnginesGiveTheSameSurroundings: the same plan, made by either
// engine, prints the same text.
func TestBothEnginesGiveTheSameSurroundings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		image  func() isolation.Image
		change func(*isolation.Order)
	}{
		{"sealed, root", func() isolation.Image { return as(t, "") }, nil},
		{"sealed, 1000", func() isolation.Image { return as(t, "1000") }, nil},
		{"docker, root", func() isolation.Image { return as(t, "") }, withDockerCapabilities},
		{"docker, 1000", func() isolation.Image { return as(t, "1000") }, withDockerCapabilities},
		{"sealed, 65532", func() isolation.Image { return as(t, "65532") }, nil},
		{"sealed, a named user", func() isolation.Image { return as(t, testimages.GraderName) }, nil},
		{"sealed, a user and another group", func() isolation.Image { return as(t, "1000:65532") }, nil},
		{"sealed, Debian", func() isolation.Image { return image(t, testimages.Debian()) }, nil},
		{"docker, Debian", func() isolation.Image { return image(t, testimages.Debian()) }, withDockerCapabilities},
		{"sealed, an image without anything", func() isolation.Image { return image(t, testimages.Empty()) }, nil},
		{"with limits", func() isolation.Image { return as(t, "") }, func(o *isolation.Order) {
			o.Plan.Limits = oci.Limits{MemoryMB: 512, PIDs: 100, CPUs: 1}
		}},
		{"with a host name, a task directory and a reference", func() isolation.Image { return as(t, "") }, func(o *isolation.Order) {
			o.Plan.Hostname, o.TaskDir, o.Reference = "elsewhere", t.TempDir(), t.TempDir()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := c.image()
			bundle, podman := dump(t, isolation.EngineBundle, i, c.change), dump(t, isolation.EnginePodman, i, c.change)
			if diff := cmp.Diff(strings.Split(bundle, "\n"), strings.Split(podman, "\n")); diff != "" {
				t.Errorf("bundle (-) and podman (+) differ:\n%s", diff)
			}
			if facts := strings.Count(bundle, ": "); facts < 40 {
				t.Errorf("the dump has %d facts only:\n%s", facts, bundle)
			}
		})
	}
}

// TestTheDumpShowsWhatDiffers: a dump that saw nothing would be equal too.
func TestTheDumpShowsWhatDiffers(t *testing.T) {
	t.Parallel()
	sealed := dump(t, isolation.EngineBundle, as(t, ""), nil)
	for fact, other := range map[string]string{
		"capabilities: ":    dump(t, isolation.EnginePodman, as(t, ""), withDockerCapabilities),
		"user and groups: ": dump(t, isolation.EnginePodman, as(t, "1000"), nil),
		"host name: ": dump(t, isolation.EnginePodman, as(t, ""), func(o *isolation.Order) {
			o.Plan.Hostname = "elsewhere"
		}),
	} {
		if line(t, sealed, fact) == line(t, other, fact) {
			t.Errorf("the dump shows no difference in %q", fact)
		}
	}
}

// line is the line of a dump that starts with a fact's name.
func line(t *testing.T, dump, fact string) string {
	t.Helper()
	for l := range strings.Lines(dump) {
		if strings.HasPrefix(l, fact) {
			return l
		}
	}
	t.Fatalf("the dump has no fact %q", fact)
	return ""
}
