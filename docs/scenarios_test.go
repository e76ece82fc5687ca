package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// scenario is a line of scenarios.md.
type scenario struct {
	number string // D-1
	tests  [][2]string
	cannot bool // exist in this design
}

var (
	scenarioLine = regexp.MustCompile(`(?m)^\| (D-\d+) \| (.+) \| (.+) \|$`)
	namedTest    = regexp.MustCompile("`([a-z/_]+_test\\.go)`\\s+`(Test\\w+)`")
	numberOf     = regexp.MustCompile(`D-\d+`)
	numberOfName = regexp.MustCompile(`^TestD(\d+)[A-Z]`)
)

func scenarios(t *testing.T) []scenario {
	t.Helper()
	var all []scenario
	for _, found := range scenarioLine.FindAllStringSubmatch(scenariosPage(t), -1) {
		s := scenario{number: found[1], cannot: strings.HasPrefix(found[3], "cannot exist: ")}
		for _, test := range namedTest.FindAllStringSubmatch(found[3], -1) {
			s.tests = append(s.tests, [2]string{test[1], test[2]})
		}
		all = append(all, s)
	}
	return all
}

func scenariosPage(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("scenarios.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// numbersIn returns the numbers that a test's names begin with, its own among
// them; nil when there is no such test.
func numbersIn(t *testing.T, file, test string) map[string]bool {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", file), nil, 0)
	if err != nil {
		t.Error(err)
		return nil
	}
	for _, decl := range tree.Decls {
		function, ok := decl.(*ast.FuncDecl)
		if !ok || function.Name.Name != test {
			continue
		}
		numbers := map[string]bool{}
		if number := numberOfName.FindStringSubmatch(test); number != nil {
			numbers["D-"+number[1]] = true
		}
		ast.Inspect(function, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				text, _ := strconv.Unquote(literal.Value)
				if head, _, ok := strings.Cut(text, ": "); ok && strings.HasPrefix(head, "D-") {
					for _, number := range numberOf.FindAllString(head, -1) {
						numbers[number] = true
					}
				}
			}
			return true
		})
		return numbers
	}
	return nil
}

// TestEveryScenarioHasItsTest: the tests that the page names exist, and carry
// the number of their scenario.
func TestEveryScenarioHasItsTest(t *testing.T) {
	listed := map[string]int{}
	for _, s := range scenarios(t) {
		listed[s.number]++
		carried := s.cannot
		for _, test := range s.tests {
			numbers := numbersIn(t, test[0], test[1])
			if numbers == nil {
				t.Errorf("%s: there is no %s in %s", s.number, test[1], test[0])
			}
			carried = carried || numbers[s.number]
		}
		if !carried {
			t.Errorf("%s: none of its tests %v carries the number", s.number, s.tests)
		}
	}
	for n := 1; n <= 74; n++ {
		number := fmt.Sprintf("D-%d", n)
		if listed[number] != 1 {
			t.Errorf("%s is listed %d times", number, listed[number])
		}
	}
}

// TestOtherTestsOfThePageExist: those that have no number.
func TestOtherTestsOfThePageExist(t *testing.T) {
	_, rest, _ := strings.Cut(scenariosPage(t), "\nBeside them:\n")
	found := namedTest.FindAllStringSubmatch(rest, -1)
	if len(found) == 0 {
		t.Fatal("none is named")
	}
	for _, test := range found {
		if numbersIn(t, test[1], test[2]) == nil {
			t.Errorf("there is no %s in %s", test[2], test[1])
		}
	}
}
