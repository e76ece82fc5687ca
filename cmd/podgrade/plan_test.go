package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"podgrade/regrade"
)

const corpus = "../../tasks/testdata/coder-eval"

// program runs podgrade in this process.
func program(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(t.Context(), append([]string{"podgrade"}, args...), &out, &err)
	return code, out.String(), err.String()
}

// TestPlanOfTheCorpus reads INDEX.tsv: plan accepts what it says loads, and
// refuses the rest, naming the keys and files that it names.
func TestPlanOfTheCorpus(t *testing.T) {
	index, err := os.ReadFile(filepath.Join(corpus, "INDEX.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for line := range strings.Lines(string(index)) {
		columns := strings.Split(strings.TrimRight(line, "\n"), "\t")
		name, expect := columns[0], columns[3]
		if name == "path" || expect == "n/a" {
			continue
		}
		checked++
		t.Run(name, func(t *testing.T) {
			args := []string{"plan", filepath.Join(corpus, name)}
			if strings.HasPrefix(name, "experiments/") {
				args = []string{"plan", "-e", filepath.Join(corpus, name), filepath.Join(corpus, "tasks/hello_date.yaml")}
			}
			code, stdout, stderr := program(t, args...)
			if expect == "loads" {
				if code != 0 || stderr != "" || !strings.Contains(stdout, "1 file: 1 valid, 0 refused") {
					t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
				}
				return
			}
			if code != 1 {
				t.Errorf("exit code %d, and INDEX.tsv says %q", code, expect)
			}
			for _, word := range namesIn(expect) {
				if !strings.Contains(stdout+stderr, word) {
					t.Errorf("nothing says %s:\n%s%s", word, stdout, stderr)
				}
			}
		})
	}
	if checked < 25 {
		t.Errorf("INDEX.tsv named only %d files", checked)
	}
}

// namesIn are the keys and files in what INDEX.tsv says of a failure.
func namesIn(expect string) []string {
	_, expect, _ = strings.Cut(expect, ": ")
	expect = strings.TrimPrefix(expect, "load: ")
	var words []string
	for word := range strings.FieldsSeq(expect) {
		word = strings.TrimRight(word, ",:)")
		if strings.ContainsAny(word, "[_") || strings.Contains(strings.Trim(word, "./"), ".") {
			words = append(words, strings.TrimPrefix(word, "./"))
		}
	}
	return words
}

// TestPlanOfTheCorpusIsFast: less than two seconds for all of it.
func TestPlanOfTheCorpusIsFast(t *testing.T) {
	started := time.Now()
	code, stdout, _ := program(t, "plan", filepath.Join(corpus, "tasks/**/*.yaml"))
	if took := time.Since(started); took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
	if code != 1 || !strings.Contains(stdout, "25 files: 14 valid, 11 refused; 15 rows") {
		t.Errorf("exit code %d, at the end: %s", code, stdout[strings.LastIndex(strings.TrimSpace(stdout), "\n")+1:])
	}
}

// TestPlanJSON: the text is ASCII, and what was read is in it unchanged.
func TestPlanJSON(t *testing.T) {
	file := filepath.Join(t.TempDir(), "task.yaml")
	text := "task_id: t\ndescription: d\nagent: {type: none}\nsuccess_criteria:\n  - {type: run_command, command: \"é \\e \\U0001F600 \\u2028\", description: d}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := program(t, "plan", "--json", file)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for i := range len(stdout) {
		if c := stdout[i]; c > 0x7e || c < 0x20 && c != '\n' {
			t.Fatalf("byte %#x in %q", c, stdout)
		}
	}
	var plan regrade.Plan
	if err := json.Unmarshal([]byte(stdout), &plan); err != nil {
		t.Fatal(err)
	}
	grants := plan.Files[0].Rows[0].Grade
	if last := grants[len(grants)-1]; last.Value != "é \x1b \U0001F600 \u2028" {
		t.Errorf("the command is %q", last.Value)
	}
}

// failing is a writer that is full.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// TestPlanThatCannotBePrintedIsNoSuccess: a full disk is not a valid task.
func TestPlanThatCannotBePrintedIsNoSuccess(t *testing.T) {
	for _, args := range [][]string{{"plan"}, {"plan", "--json"}, {"schema", "task"}} {
		if args[0] == "plan" {
			args = append(args, filepath.Join(corpus, "tasks/hello_date.yaml"))
		}
		var stderr bytes.Buffer
		if code := run(t.Context(), append([]string{"podgrade"}, args...), failing{}, &stderr); code != 1 || !strings.Contains(stderr.String(), "no space left") {
			t.Errorf("%q: exit code %d, %s", args, code, stderr.String())
		}
	}
}
