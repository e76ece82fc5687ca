package podgrade_test

import (
	"debug/buildinfo"
	"debug/elf"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// buildDir returns the directory that `make build-test` filled.
func buildDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("PODGRADE_TEST_BUILD")
	if dir == "" {
		dir = "build"
	}
	if _, err := os.Stat(filepath.Join(dir, "bin", "podgrade")); err != nil {
		t.Fatalf("nothing is built: %v; run `make build-test` first, or `make test`", err)
	}
	return dir
}

// TestProgramsStartAnywhere: the supervisor runs in images that hold nothing
// else, so it needs no loader and brings no library; and it is read into
// memory for every cell.
func TestProgramsStartAnywhere(t *testing.T) {
	dir := buildDir(t)
	for _, c := range []struct {
		name    string
		maxMiB  int64
		refused []string // prefixes of modules that may not be linked; "" is any
	}{
		{"bin/podgrade", 64, nil},
		{"libexec/podgrade/podgrade-init", 4, []string{""}},
		{"libexec/podgrade/podgrade-worker", 12, []string{"github.com/containers/"}},
	} {
		t.Run(filepath.Base(c.name), func(t *testing.T) {
			name := filepath.Join(dir, c.name)
			checkStatic(t, name)
			info, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			if info.Size() > c.maxMiB<<20 {
				t.Errorf("%s has %d bytes, the limit is %d MiB", c.name, info.Size(), c.maxMiB)
			}
			built, err := buildinfo.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, dep := range built.Deps {
				for _, prefix := range c.refused {
					if strings.HasPrefix(dep.Path, prefix) {
						t.Errorf("%s links %s %s", c.name, dep.Path, dep.Version)
					}
				}
			}
		})
	}
}

func checkStatic(t *testing.T, name string) {
	t.Helper()
	program, err := elf.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	for _, p := range program.Progs {
		if p.Type == elf.PT_INTERP {
			t.Errorf("%s needs a loader", name)
		}
	}
}
