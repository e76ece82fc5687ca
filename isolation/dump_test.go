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
	got := run(t, c, time.Minute, c.Places().Workspace+"/celldump")
	if got.Code != 0 {
		t.Fatalf("the dump ended with %d: %s", got.Code, got.out)
	}
	return got.out
}

// TestBothEnginesGiveTheSameSurroundings: the same plan, made by either
// engine, prints the same text.
func TestBothEnginesGiveTheSameSurroundings(t *testing.T) {
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
		{"sealed, Debian", func() isolation.Image { return image(t, testimages.Debian()) }, nil},
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
