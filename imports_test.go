package podgrade_test

import (
	"slices"
	"strings"
	"testing"
)

// layers is the order of the house, lowest first: a package imports only
// packages of lower layers, or parts of its own tree. A name ending in "/"
// stands for all packages below it.
var layers = [][]string{
	{"oci", "tasks"},
	{"tasks/", "isolation", "isolation/", "policy"},
	{"regrade", "regrade/"},
	{"cmd/", "tasks/examples/"},
}

// layerOf returns the index of a package's layer: that of the longest entry
// that matches; -1 when it has none.
func layerOf(pkg string) int {
	best, length := -1, -1
	for i, layer := range layers {
		for _, entry := range layer {
			matches := pkg == entry || strings.HasSuffix(entry, "/") && strings.HasPrefix(pkg, entry)
			if matches && len(entry) > length {
				best, length = i, len(entry)
			}
		}
	}
	return best
}

// mayImport tells whether from may import to. Within one layer only packages
// of the same tree know each other, so that tasks/criteria cannot see
// isolation and every criterion can be tested without a container.
func mayImport(from, to string) bool {
	a, b := layerOf(from), layerOf(to)
	if a == -1 || b == -1 || a < b {
		return false
	}
	return a > b || treeOf(from) == treeOf(to)
}

// treeOf names what a package is part of: the first element of its path, and
// below tasks and cmd, whose parts are independent of each other, the second.
func treeOf(pkg string) string {
	parts := strings.Split(pkg, "/")
	if n := len(parts); n > 1 && (parts[0] == "tasks" || parts[0] == "cmd") {
		return parts[0] + "/" + parts[1]
	}
	return parts[0]
}

func TestImportsPointDown(t *testing.T) {
	for _, s := range sources(t) {
		if layerOf(s.pkg) == -1 {
			t.Errorf("%s: package %q has no place in the order of the house; give it one in layers", s.path, s.pkg)
			continue
		}
		for _, name := range s.imports {
			to, ours := own(name)
			if ours && !mayImport(s.pkg, to) {
				t.Errorf("%s imports %s: imports point down only, see HACKING.md", s.path, name)
			}
		}
	}
}

// TestLayersRefuseWhatPointsUp makes sure that the rule above bites.
func TestLayersRefuseWhatPointsUp(t *testing.T) {
	for _, c := range []struct {
		from, to string
		want     bool
	}{
		{"oci", "tasks", false},
		{"oci", "isolation", false},
		{"tasks", "tasks/criteria", false},
		{"tasks/criteria", "isolation", false},
		{"tasks/criteria", "isolation/protocol", false},
		{"tasks/criteria", "tasks/record", false},
		{"tasks/criteria", "tasks/criteria/python", true},
		{"tasks/criteria", "tasks", true},
		{"tasks/record", "oci", true},
		{"policy", "isolation", false},
		{"policy", "tasks", true},
		{"policy", "tasks/record", false},
		{"policy", "regrade", false},
		{"isolation", "isolation/worker", true},
		{"isolation", "tasks/criteria", false},
		{"isolation/worker", "oci", true},
		{"isolation/supervisor", "isolation/protocol", true},
		{"regrade", "policy", true},
		{"regrade", "cmd/podgrade", false},
		{"cmd/podgrade", "regrade", true},
		{"cmd/podgrade", "cmd/podgrade-init", false},
		{"elsewhere", "oci", false},
	} {
		if got := mayImport(c.from, c.to); got != c.want {
			t.Errorf("mayImport(%q, %q) is %v, want %v", c.from, c.to, got, c.want)
		}
	}
}

// TestOneProgramLinksPodman: what links Podman's libraries takes 40 ms to come
// to its main, so only the program that asks Podman's service does.
func TestOneProgramLinksPodman(t *testing.T) {
	const calls = "isolation/libpod/calls"
	for _, s := range sources(t) {
		for _, name := range s.imports {
			if strings.HasPrefix(name, "github.com/containers/") && s.pkg != calls {
				t.Errorf("%s imports %s: only package %s may", s.path, name, calls)
			}
			if to, _ := own(name); to == calls && s.pkg != "cmd/podgrade-libpod" {
				t.Errorf("%s imports %s: only podgrade-libpod may", s.path, name)
			}
		}
	}
}

// TestOnlyEnginesStartProcesses: of all that podgrade links, no other code can
// start Podman, crun or runc, or a command of a record.
func TestOnlyEnginesStartProcesses(t *testing.T) {
	byPackage := packages(sources(t))
	linked, _ := reach(byPackage, "cmd/podgrade")
	for pkg := range linked {
		if strings.HasPrefix(pkg+"/", "isolation/") {
			continue
		}
		for _, s := range byPackage[pkg] {
			if slices.Contains(s.imports, "os/exec") {
				t.Errorf("%s imports os/exec: only engines start processes", s.path)
			}
		}
	}
	if !linked["isolation"] || !linked["policy"] {
		t.Errorf("podgrade links only %v", linked)
	}
}

// TestSmallProgramsStaySmall follows the imports of the two programs that are
// started for every run and every cell.
func TestSmallProgramsStaySmall(t *testing.T) {
	byPackage := packages(sources(t))
	for _, c := range []struct {
		program string
		allowed []string // modules beyond the standard library
	}{
		{"cmd/podgrade-init", nil},
		{"cmd/podgrade-worker", []string{"golang.org/x/sys", "github.com/opencontainers/runtime-spec", "github.com/moby/profiles/seccomp"}},
	} {
		if len(byPackage[c.program]) == 0 {
			t.Errorf("%s has no source", c.program)
		}
		_, others := reach(byPackage, c.program)
		for name, importer := range others {
			allowed := slices.ContainsFunc(c.allowed, func(m string) bool {
				return name == m || strings.HasPrefix(name, m+"/")
			})
			if !standard(name) && !allowed {
				t.Errorf("%s links %s (imported by %s)", c.program, name, importer)
			}
		}
	}
}

func packages(all []source) map[string][]source {
	byPackage := map[string][]source{}
	for _, s := range all {
		byPackage[s.pkg] = append(byPackage[s.pkg], s)
	}
	return byPackage
}

// reach returns the packages of ours that a package links, itself included,
// and the imports of other modules that it reaches through them, each with a
// file that has it.
func reach(byPackage map[string][]source, from string) (linked map[string]bool, others map[string]string) {
	linked, others = map[string]bool{from: true}, map[string]string{}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		for _, s := range byPackage[queue[0]] {
			for _, name := range s.imports {
				pkg, ours := own(name)
				switch {
				case !ours:
					others[name] = s.path
				case !linked[pkg]:
					linked[pkg] = true
					queue = append(queue, pkg)
				}
			}
		}
	}
	return linked, others
}
