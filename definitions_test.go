package podgrade_test

import (
	"go/ast"
	"go/token"
	"strings"
	"testing"

	"podgrade/oci"
)

// definitions are the files whose string constants are words of the format.
// Each of these words appears as a literal in its file and nowhere else, so
// that two spellings of one name cannot exist. A constant added to one of the
// files is covered from then on.
var definitions = []string{
	"oci/paths.go",                // paths in a cell, names of variables
	"tasks/record/files.go",       // file names of a row and a run directory
	"tasks/record/status.go",      // statuses
	"tasks/record/stamps.go",      // stamps
	"tasks/record/environment.go", // other keys of environment_info
}

// ordinary are words of those files that also mean something else, so that
// nothing follows from finding them elsewhere.
var ordinary = map[string]string{
	"artifacts": "a directory name, and a word of messages",
	"drift":     "the value of a stamp, an English word",
	"succeeded": "a category, an English word",
	"failed":    "a category, an English word",
	"error":     "a category, an English word",
	"ungraded":  "a category, an English word",
}

// parts are texts that no other literal may even contain: whoever writes a
// path below one of them has spelled the path anew.
var parts = []string{"/work/workspace", "/work/task_dir", "/work/references", "/work/plugins", "/.podgrade", "CODER_EVAL_IN_CONTAINER"}

// repeated are the words that a file has to repeat, because it may not import
// the file that defines them. They are given by their constants: when one
// changes and its repetition does not, the test fails.
var repeated = map[string][]string{
	// A task must not mount over what podgrade puts into a cell, and tasks
	// imports nothing of ours.
	"tasks/check_sandbox.go": {oci.WorkPath, oci.ToolPath},
}

// constants returns the literals of a file's string constants.
func (s source) constants() []string {
	var words []string
	for _, decl := range s.tree.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		ast.Inspect(group, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				words = append(words, unquote(literal))
			}
			return true
		})
	}
	return words
}

// homes returns where each word is defined.
func homes(t *testing.T, all []source) map[string]string {
	t.Helper()
	home := map[string]string{}
	for _, file := range definitions {
		found := 0
		for _, s := range all {
			if s.path != file {
				continue
			}
			for _, word := range s.constants() {
				if _, ok := ordinary[word]; !ok {
					home[word] = file
					found++
				}
			}
		}
		if found == 0 {
			t.Errorf("%s defines no word: the list in this test is out of date", file)
		}
	}
	return home
}

// second returns what is wrong with a literal in a file, or "".
func second(home map[string]string, file, value string) string {
	for _, word := range repeated[file] {
		if strings.Contains(value, word) {
			return ""
		}
	}
	if defined, ok := home[value]; ok && defined != file {
		return defined
	}
	for _, part := range parts {
		if strings.Contains(value, part) && file != "oci/paths.go" {
			return "oci/paths.go"
		}
	}
	return ""
}

func TestWordsHaveOneDefinition(t *testing.T) {
	all := sources(t)
	home := homes(t, all)
	for _, s := range all {
		seen := map[string]bool{}
		s.texts(func(value string, at token.Position) {
			if defined := second(home, s.path, value); defined != "" {
				t.Errorf("%s: the literal %q belongs to %s; use the constant", at, value, defined)
			}
			if home[value] == s.path && seen[value] {
				t.Errorf("%s: the literal %q stands twice in its own file", at, value)
			}
			seen[value] = true
		})
	}
}

// TestRepeatedWordsAreStillTheSame: a repetition must follow its definition.
func TestRepeatedWordsAreStillTheSame(t *testing.T) {
	found := map[string]bool{}
	for _, s := range sources(t) {
		s.texts(func(value string, _ token.Position) { found[s.path+"\x00"+value] = true })
	}
	for file, words := range repeated {
		for _, word := range words {
			if !found[file+"\x00"+word] {
				t.Errorf("%s does not repeat %q: make it follow the definition, or take it off the list", file, word)
			}
		}
	}
}

// TestWordsOfTheDesignAreCovered: moving one of these out of the files above
// would switch the rule off for it.
func TestWordsOfTheDesignAreCovered(t *testing.T) {
	home := homes(t, sources(t))
	for _, word := range []string{
		"/work/workspace", "/work/task_dir", "/work/references", "/.podgrade",
		"CODER_EVAL_IN_CONTAINER", "TELEMETRY_ENABLED", "TASK_DIR", "REFERENCE_DIR",
		"task.json", "task.execute.json", "run.json", "grade.log", "grade.docker.log", "cell.execute.json", "cell.grade.json",
		"SUCCESS", "FAILURE", "NOT_GRADED", "MAX_TURNS_EXHAUSTED", "TIMEOUT", "TOKEN_BUDGET_EXCEEDED", "COST_BUDGET_EXCEEDED", "ERROR", "BUILD_FAILED",
		"graded_on_host", "executed_on_host", "graded_without_pre_run", "graded_with_rebuilt_image", "graded_with_unpinned_image",
		"graded_without_network", "executed_without_network", "graded_with_fewer_capabilities", "graded_without_variables",
		"graded_without_processes", "graded_from_capture", "graded_with_replaced_tools", "graded_with_other_workspace", "graded_live", "limits_not_enforced",
	} {
		if home[word] == "" {
			t.Errorf("%q has no definition in %s", word, strings.Join(definitions, ", "))
		}
	}
}

// TestASecondDefinitionIsFound makes sure that the rule above bites.
func TestASecondDefinitionIsFound(t *testing.T) {
	home := map[string]string{"grade.log": "tasks/record/files.go"}
	file := parse(t, "regrade/example.go", `package regrade

import "os"

type tagged struct {
	Log string `+"`json:\"grade.log\"`"+`
}

var (
	second = "grade.log"
	below  = "/work/workspace/a"
	other  = "grade.log.old"
	_      = os.Args
)
`)
	var found []string
	file.texts(func(value string, _ token.Position) {
		if second(home, file.path, value) != "" {
			found = append(found, value)
		}
	})
	if got := strings.Join(found, " "); got != "grade.log /work/workspace/a" {
		t.Errorf("found %q", got)
	}
}
