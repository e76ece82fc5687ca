package podgrade_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestGoModSaysWhatIsOurs: a module that our code imports is required without
// "// indirect", and every other one with it, so that a reader sees what was
// chosen. `go mod tidy`, which would see to it, would change versions too.
func TestGoModSaysWhatIsOurs(t *testing.T) {
	text, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	indirect := map[string]bool{}
	for _, line := range regexp.MustCompile(`(?m)^\t(\S+) v\S+(.*)$`).FindAllStringSubmatch(string(text), -1) {
		indirect[line[1]] = strings.Contains(line[2], "// indirect")
	}
	ours := map[string]string{}
	for file, name := range imports(t) {
		if name, path := moduleOf(indirect, name); name != "" {
			ours[name] = file + " imports " + path
		}
	}
	if len(indirect) < 100 || len(ours) < 15 {
		t.Fatalf("%d modules, %d of them ours", len(indirect), len(ours))
	}
	for name, marked := range indirect {
		if where, is := ours[name]; is == marked {
			t.Errorf("%s: marked indirect: %v; %s", name, marked, where)
		}
	}
}

// moduleOf is the module that a package lies in; "" when it is of the standard
// library or ours.
func moduleOf(modules map[string]bool, pkg string) (module, path string) {
	for name := pkg; name != "."; name = filepath.Dir(name) {
		if _, known := modules[name]; known {
			return name, pkg
		}
	}
	return "", pkg
}

// imports yields the imports of every Go file, tests and all, with the file.
func imports(t *testing.T) func(yield func(file, name string) bool) {
	return func(yield func(file, name string) bool) {
		err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
			switch base := filepath.Base(name); {
			case err != nil:
				return err
			case entry.IsDir() && name != "." && (strings.HasPrefix(base, ".") || base == "testdata" || base == "build"):
				return fs.SkipDir
			case entry.IsDir() || !strings.HasSuffix(base, ".go"):
				return nil
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
			if err != nil {
				return err
			}
			for _, spec := range file.Imports {
				if !yield(name, unquote(spec.Path)) {
					return fs.SkipAll
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestTheGuideNamesWhatThereIs: HACKING.md leads a reader from file to file, and
// names every package.
func TestTheGuideNamesWhatThereIs(t *testing.T) {
	guide, err := os.ReadFile("HACKING.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([a-z_/*-]+\\.go)`").FindAllStringSubmatch(string(guide), -1)
	if len(named) < 25 {
		t.Errorf("only %d files are named", len(named))
	}
	for _, name := range named {
		here, _ := filepath.Glob(name[1])
		there, _ := filepath.Glob(filepath.Join("regrade", name[1])) // its files are named without it
		if len(here)+len(there) == 0 {
			t.Errorf("%s is named, and is not there", name[1])
		}
	}
	for pkg := range packages(sources(t)) {
		if strings.HasPrefix(pkg, "tasks/examples") || strings.HasSuffix(pkg, "/testimage") || pkg == "" {
			continue
		}
		if !strings.Contains(string(guide), pkg+" ") && !strings.Contains(string(guide), filepath.Base(pkg)+" is what") {
			t.Errorf("the house has no line for %s", pkg)
		}
	}
}
