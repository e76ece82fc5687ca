package criteria_test

import (
	"strings"
	"testing"

	"podgrade/tasks"
	"podgrade/tasks/criteria"
)

// pathCases are what a criterion's path can lead to, in the columns of
// pathTable.
var pathCases = []struct{ name, path string }{
	{"missing", "no.txt"},
	{"directory", "sub"},
	{"fifo", "fifo"},
	{"device", "device"},
	{"binary", "binary.dat"},
	{"invalid UTF-8", "latin1.txt"},
	{"100 MB", "large.txt"},
	{"outside, there", "../../etc/passwd"},
	{"outside, missing", "../../etc/none"},
	{"outside by a link", "out"},
}

// Contents of files of pathCases: text that no program wrote for people, and an
// é of another encoding.
const (
	binaryText = "needle\x00\x01\x02 = 1"
	latin1Text = "x = 'needle \xe9'\n"
)

// What pathTable says: a score, and a part of the error. Only author is an
// error without a score.
const (
	author  = "author"
	absent  = "0 File not found"
	isDir   = "0 IsADirectoryError"
	noFile  = "0 OSError: not a regular file"
	noText  = "0 UnicodeDecodeError"
	tooMuch = "0 OverflowError"
	leads   = "0 A link leads out"
)

// pathTable says for each criterion that a path is given to what each of
// pathCases scores, with a part of the error.
var pathTable = []struct {
	name string
	of   func(path string) tasks.Criterion
	want []string
}{
	{"file_exists", func(path string) tasks.Criterion { return exists(path) },
		[]string{"0", "1", "1", "1", "1", "1", "1", author, "0", leads}},
	{"file_contains", func(path string) tasks.Criterion { return contains(path, []string{"needle"}, nil) },
		[]string{absent, isDir, noFile, noFile, "1", noText, "1", author, absent, leads}},
	{"file_matches_regex", func(path string) tasks.Criterion { return matches(path, "needle", true, 0) },
		[]string{absent, isDir, noFile, noFile, "1", noText, tooMuch, author, absent, leads}},
	{"file_check", func(path string) tasks.Criterion {
		return &tasks.FileCheck{Base: common(tasks.TypeFileCheck), Path: path, Includes: []string{"needle"}, Excludes: []string{"other"}}
	}, []string{absent, isDir, noFile, noFile, "1", noText, "1", author, absent, leads}},
	{"file_check of patterns", func(path string) tasks.Criterion {
		return &tasks.FileCheck{Base: common(tasks.TypeFileCheck), Path: path, Patterns: []tasks.FilePattern{{Pattern: "needle", MustMatch: true}}}
	}, []string{absent, isDir, noFile, noFile, "1", noText, tooMuch, author, absent, leads}},
	{"file_check of nothing", func(path string) tasks.Criterion {
		return &tasks.FileCheck{Base: common(tasks.TypeFileCheck), Path: path}
	}, []string{absent, "1", "1", "1", "1", "1", "1", author, absent, leads}},
	{"json_check", func(path string) tasks.Criterion {
		return &tasks.JSONCheck{Base: common(tasks.TypeJSONCheck), Path: path, Assertions: []tasks.JSONAssertion{{Expression: "@", Operator: tasks.OpExists}}}
	}, []string{absent, isDir, noFile, noFile, "0 Invalid JSON", noText, "0 Invalid JSON", author, absent, leads}},
	// A schema that cannot be used is a part that failed, not an error.
	{"schema of json_check", func(path string) tasks.Criterion {
		return &tasks.JSONCheck{Base: common(tasks.TypeJSONCheck), Path: "doc.json", JSONSchema: path}
	}, []string{"0", "0", "0", "0", "0", "0", "0", author, "0", "0"}},
	{"classification_match", func(path string) tasks.Criterion {
		return &tasks.ClassificationMatch{Base: common(tasks.TypeClassificationMatch), Path: path, ExpectedLabel: "needle", AllowedLabels: []string{"needle"}}
	}, []string{"0", isDir, noFile, noFile, "0", noText, "0", author, "0", leads}},
	{"cli_called", func(path string) tasks.Criterion {
		return &tasks.CLICalled{Base: common(tasks.TypeCLICalled), Log: path, Tool: "needle", MinCount: 1}
	}, []string{"0 There is no log of calls", isDir, noFile, noFile, "0 is no JSON", noText, "0 is no JSON", author, "0 There is no log of calls", leads}},
	{"reference_comparison", func(path string) tasks.Criterion {
		return &tasks.ReferenceComparison{Base: common(tasks.TypeReferenceComparison), AgentFile: path, ReferenceFile: "r.py", ComparisonMethod: "ast", SimilarityThreshold: 0.8}
	}, []string{absent, isDir, noFile, noFile, "0 null bytes", noText, tooMuch, author, absent, leads}},
}

// pathTree is tree with the files of pathCases, and a document of JSON.
func pathTree(where criteria.Surroundings) criteria.Surroundings {
	where.Cell.(*fakeCell).add("binary.dat", fakeFile{kind: criteria.Regular, data: []byte(binaryText)}).
		add("latin1.txt", fakeFile{kind: criteria.Regular, data: []byte(latin1Text)}).
		add("doc.json", fakeFile{kind: criteria.Regular, data: []byte("{}")})
	return where
}

// pathRows are the rows of pathTable.
func pathRows(t *testing.T, where criteria.Surroundings) (rows []expectation) {
	t.Helper()
	for _, line := range pathTable {
		if len(line.want) != len(pathCases) {
			t.Fatalf("%s has %d columns of %d", line.name, len(line.want), len(pathCases))
		}
		for i, c := range pathCases {
			row := expectation{name: line.name + ": " + c.name, criterion: line.of(c.path), where: where}
			score, text, _ := strings.Cut(line.want[i], " ")
			switch score {
			case author:
				row.author = "outside of the sandbox"
			case "1":
				row.score = 1
			}
			row.err = text
			rows = append(rows, row)
		}
	}
	return rows
}

// TestEveryPathOfEveryCriterion asks each criterion about everything that a path
// can lead to.
func TestEveryPathOfEveryCriterion(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/binary.dat", binaryText)
	write(t, dir+"/latin1.txt", latin1Text)
	write(t, dir+"/r.py", "x = 1\n")
	where := pathTree(tree())
	where.Cell.(*fakeCell).run = shellIn(dir)
	where.Reference, where.ReferencePath = newCell(map[string]string{"r.py": "x = 1\n"}), dir
	check(t, pathRows(t, where))
}
