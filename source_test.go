// Package podgrade_test holds the tests of the module as a whole: which
// package may import which, and that a word of the format has one definition.
// They read the source; nothing is built or run.
package podgrade_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "podgrade"

// source is one Go file that is part of the product: no test, no test data.
type source struct {
	path    string // slash-separated, from the root of the module
	pkg     string // directory of path, "" for the root
	imports []string
	tree    *ast.File
	set     *token.FileSet
}

// sources reads every Go file below the current directory but tests and what
// lies in a testdata directory.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := entry.Name()
		if entry.IsDir() {
			if name != "." && (strings.HasPrefix(base, ".") || base == "testdata" || base == "build") {
				return fs.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(base, ".go") && !strings.HasSuffix(base, "_test.go") {
			all = append(all, parse(t, filepath.ToSlash(name), nil))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 50 {
		t.Fatalf("only %d source files found: this test must run in the root of the module", len(all))
	}
	return all
}

// parse reads one file; text is its content, or nil to read it from name.
func parse(t *testing.T, name string, text any) source {
	t.Helper()
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	s := source{path: name, pkg: path.Dir(name), tree: tree, set: set}
	if s.pkg == "." {
		s.pkg = ""
	}
	for _, spec := range tree.Imports {
		s.imports = append(s.imports, unquote(spec.Path))
	}
	return s
}

// texts calls yield for every string literal of the file that is neither an
// import path nor a struct tag.
func (s source) texts(yield func(value string, at token.Position)) {
	skip := map[*ast.BasicLit]bool{}
	ast.Inspect(s.tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			if n.Tag != nil {
				skip[n.Tag] = true
			}
		case *ast.BasicLit:
			if n.Kind == token.STRING && !skip[n] {
				yield(unquote(n), s.set.Position(n.Pos()))
			}
		}
		return true
	})
}

func unquote(literal *ast.BasicLit) string {
	value, err := strconv.Unquote(literal.Value)
	if err != nil {
		return literal.Value
	}
	return value
}

// own returns the directory of an import of this module, and whether it is one.
func own(importPath string) (string, bool) {
	if importPath == module {
		return "", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

// standard tells whether an import is of the standard library.
func standard(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	_, ours := own(importPath)
	return !ours && !strings.Contains(first, ".")
}
