package tasks

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const corpus = "testdata/coder-eval"

// TestCorpus reads INDEX.tsv and checks that every file of the corpus loads or
// fails as it says, with no special case.
func TestCorpus(t *testing.T) {
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
			load, plan := planFile(t, filepath.Join(corpus, name))
			switch {
			case expect == "loads":
				if load != nil || plan != nil {
					t.Errorf("must load: %v %v", load, plan)
				}
			case strings.HasPrefix(expect, "fails: load: "):
				if load == nil {
					t.Fatalf("must not load: %s", expect)
				}
				mentions(t, load, strings.TrimPrefix(expect, "fails: load: "))
			case strings.HasPrefix(expect, "fails: plan only"):
				if load != nil || plan == nil {
					t.Errorf("must load and be refused by plan: %v %v", load, plan)
				}
			default:
				t.Errorf("INDEX.tsv expects %q, which this test does not know", expect)
			}
		})
	}
	if checked < 25 {
		t.Errorf("INDEX.tsv named only %d files", checked)
	}
}

// mentions checks that the error names each key and file that the index names.
func mentions(t *testing.T, err error, expect string) {
	t.Helper()
	for word := range strings.FieldsSeq(expect) {
		word = strings.TrimSuffix(word, ",")
		if strings.ContainsAny(word, "[_.") && !strings.HasPrefix(word, "./") && !strings.Contains(err.Error(), word) {
			t.Errorf("error does not mention %s:\n%v", word, err)
		}
	}
}

// planFile loads one file and does what plan does with it.
func planFile(t *testing.T, path string) (load, plan error) {
	t.Helper()
	l := &Loader{}
	if strings.Contains(path, "/experiments/") {
		e, err := l.LoadExperiment(path)
		if err != nil {
			return err, nil
		}
		_, err = l.Rows([]string{filepath.Join(corpus, "tasks/hello_date.yaml")}, Request{Layers: Layers{Experiment: e}})
		return nil, err
	}
	f, err := l.Load(path)
	if err != nil {
		return err, nil
	}
	again(t, f.Task)
	resolution, err := l.Rows([]string{path}, Request{})
	if err != nil {
		return nil, err
	}
	for _, skip := range resolution.Skipped {
		return nil, skip.Reason
	}
	for _, row := range resolution.Rows {
		again(t, row.Task)
		if problems := row.Task.CheckPaths(row.File.Dir); len(problems) > 0 {
			return nil, problems[0]
		}
	}
	return nil, nil
}
