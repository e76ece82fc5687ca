package record

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// constants returns the names of the string constants of a file, in order.
func constants(t *testing.T, file string) map[string]string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, decl := range parsed.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.CONST {
			continue
		}
		for _, spec := range gen.Specs {
			value := spec.(*ast.ValueSpec)
			if lit, ok := value.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
				found[value.Names[0].Name] = strings.Trim(lit.Value, `"`)
			}
		}
	}
	return found
}

// allStatuses returns every status, in the order of the specification.
func allStatuses() []Status {
	all := make([]Status, len(statuses))
	for i, f := range statuses {
		all[i] = f.status
	}
	return all
}

func TestEveryStatusIsClassified(t *testing.T) {
	listed := map[string]bool{}
	for _, s := range allStatuses() {
		listed[string(s)] = true
	}
	n := 0
	for name, value := range constants(t, "status.go") {
		if value != strings.ToUpper(value) || len(value) < 3 {
			continue
		}
		n++
		if !listed[value] {
			t.Errorf("the status %s (%q) has no line in the table", name, value)
		}
	}
	if n != len(statuses) {
		t.Errorf("%d status constants, %d lines in the table", n, len(statuses))
	}
}

func TestStatusTable(t *testing.T) {
	facts := map[Status]bool{Timeout: true, TokenBudgetExceeded: true, CostBudgetExceeded: true, Error: true, BuildFailed: true}
	icons := map[string]Status{}
	for _, s := range allStatuses() {
		if s.ExecutionFact() != facts[s] {
			t.Errorf("%s: execution fact is %v", s, s.ExecutionFact())
		}
		if other, taken := icons[s.Icon()]; taken {
			t.Errorf("%s and %s share the icon %q", s, other, s.Icon())
		}
		icons[s.Icon()] = s
		if again, err := ParseStatus(string(s)); err != nil || again != s {
			t.Errorf("ParseStatus(%s) = %s, %v", s, again, err)
		}
	}
	if _, err := ParseStatus("success"); err == nil {
		t.Error("a status that does not exist was accepted")
	}
	if Status("NEW").Category() != Errored {
		t.Error("an unknown status must count as an error")
	}
}

func TestEveryStampIsListed(t *testing.T) {
	listed := map[string]bool{}
	for _, name := range StampNames() {
		if listed[name] {
			t.Errorf("the stamp %s is listed twice", name)
		}
		listed[name] = true
	}
	for name, value := range constants(t, "stamps.go") {
		if name != "Drift" && !listed[value] {
			t.Errorf("the stamp %s (%q) is not listed, so no grade would clear it", name, value)
		}
	}
}

func TestClearGradeStamps(t *testing.T) {
	info := NewObject()
	for _, name := range StampNames() {
		info.Set(name, true)
	}
	info.Set("coder_eval", "0.12.8")
	ClearGradeStamps(info)
	if got := strings.Join(info.Names(), " "); got != ExecutedOnHost+" "+ExecutedWithoutNetwork+" coder_eval" &&
		got != ExecutedWithoutNetwork+" "+ExecutedOnHost+" coder_eval" {
		t.Errorf("left: %s", got)
	}
	clearStamps(info)
	if got := strings.Join(info.Names(), " "); got != "coder_eval" {
		t.Errorf("left: %s", got)
	}
}
