package main

import (
	"go/build"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestStandardLibraryOnly: PID 1 of a cell is made of the standard library and
// two packages of ours; every build of it is small and static.
func TestStandardLibraryOnly(t *testing.T) {
	allowed := []string{"podgrade/cmd/podgrade-init", "podgrade/isolation/supervisor", "podgrade/isolation/protocol"}
	refused := []string{"net", "net/http", "os/exec", "os/user", "C", "plugin"}
	for _, arch := range []string{"amd64", "arm64"} {
		ctx := build.Default
		ctx.GOOS, ctx.GOARCH, ctx.CgoEnabled = "linux", arch, false
		seen := map[string]bool{}
		for todo := []string{"podgrade/cmd/podgrade-init"}; len(todo) > 0; {
			pkg := todo[0]
			todo = todo[1:]
			if seen[pkg] {
				continue
			}
			seen[pkg] = true
			found, err := ctx.ImportDir(filepath.Join("..", "..", strings.TrimPrefix(pkg, "podgrade/")), 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range found.Imports {
				first, _, _ := strings.Cut(name, "/")
				switch {
				case slices.Contains(allowed, name):
					todo = append(todo, name)
				case first == "podgrade", strings.Contains(first, "."), slices.Contains(refused, name):
					t.Errorf("%s imports %s", pkg, name)
				}
			}
		}
		if len(seen) != len(allowed) {
			t.Errorf("found %d packages, want %d", len(seen), len(allowed))
		}
	}
}
