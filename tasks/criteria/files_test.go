package criteria_test

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"podgrade/tasks"
	"podgrade/tasks/criteria"
)

func exists(name string) *tasks.FileExists {
	return &tasks.FileExists{Base: common(tasks.TypeFileExists), Path: name}
}

func contains(name string, includes, excludes []string) *tasks.FileContains {
	return &tasks.FileContains{Base: common(tasks.TypeFileContains), Path: name, Includes: includes, Excludes: excludes}
}

func matches(name, pattern string, must bool, flags int) *tasks.FileMatchesRegex {
	return &tasks.FileMatchesRegex{Base: common(tasks.TypeFileMatchesRegex), Path: name, Pattern: pattern, MustMatch: must, Flags: flags}
}

// large is a text of 100 MB with something to find at its end.
var large = sync.OnceValue(func() []byte {
	return append(bytes.Repeat([]byte("x\n"), 50<<20), "needle"...)
})

// tree is a workspace with a file of every kind.
func tree() criteria.Surroundings {
	cell := newCell(map[string]string{
		"a.txt": "alpha beta\r\ngamma\rdelta", "empty.txt": "", "sub/b.txt": "b", "sub/deep/c.txt": "c", ".hidden/d.txt": "d",
		"node_modules/e.txt": "e", "lit[1].txt": "literal", "lit1.txt": "glob", "bin.dat": "\x00\x01\xff", "bom.txt": "\ufefftext", "many/1.md": "", "many/2.md": "",
	})
	for _, n := range "abcdefghijkl" {
		cell.add("many/"+string(n)+".log", fakeFile{kind: criteria.Regular})
	}
	cell.add("fifo", fakeFile{kind: criteria.Other}).add("device", fakeFile{kind: criteria.Other})
	cell.add("out", fakeFile{kind: criteria.Symlink, target: "/etc/passwd"}).add("up", fakeFile{kind: criteria.Symlink, target: "../../../etc/passwd"})
	cell.add("etc", fakeFile{kind: criteria.Symlink, target: "/etc"})
	cell.add("loop", fakeFile{kind: criteria.Symlink, target: "loop"})
	cell.add("dangling", fakeFile{kind: criteria.Symlink, target: "nowhere"}).add("in", fakeFile{kind: criteria.Symlink, target: "a.txt"})
	cell.add("dirlink", fakeFile{kind: criteria.Symlink, target: "sub"}).add("abs", fakeFile{kind: criteria.Symlink, target: sandbox + "/a.txt"})
	cell.add("denied.txt", fakeFile{kind: criteria.Regular, fails: criteria.ErrDenied}).add("broken.txt", fakeFile{kind: criteria.Regular, fails: criteria.ErrIO})
	cell.add("large.txt", fakeFile{kind: criteria.Regular, data: large()})
	cell.add("lost.txt", fakeFile{kind: criteria.Regular, fails: errors.New("the channel to the cell ended")})
	cell.add("huge.txt", fakeFile{kind: criteria.Regular, fails: criteria.ErrTooLarge})
	return criteria.Surroundings{Cell: cell, Workspace: sandbox, Ignore: criteria.IgnorePatterns(nil), RegexTimeout: 200 * time.Millisecond}
}

func TestFileExists(t *testing.T) { check(t, fileExistsTable(tree())) }

func fileExistsTable(where criteria.Surroundings) []expectation {
	return []expectation{
		{name: "file", criterion: exists("a.txt"), where: where, score: 1},
		{name: "directory counts", criterion: exists("sub"), where: where, score: 1},
		{name: "the root counts", criterion: exists("."), where: where, score: 1},
		{name: "empty path is the root", criterion: exists(""), where: where, score: 1},
		{name: "fifo counts", criterion: exists("fifo"), where: where, score: 1},
		{name: "device counts", criterion: exists("device"), where: where, score: 1},
		{name: "missing", criterion: exists("no.txt"), where: where, details: "Nothing matches"},
		{name: "below a file", criterion: exists("a.txt/x"), where: where},
		{name: "NUL in the path", criterion: exists("a\x00b"), where: where},
		{name: "link inside", criterion: exists("in"), where: where, score: 1},
		{name: "absolute link inside", criterion: exists("abs"), where: where, score: 1},
		{name: "dangling link", criterion: exists("dangling"), where: where},
		{name: "link to itself", criterion: exists("loop"), where: where},
		{name: "below a link to itself", criterion: exists("loop/*"), where: where},
		{name: "glob among links to themselves", criterion: exists("**/l[a-o]*/*"), where: where},
		{name: "absolute path inside", criterion: exists(sandbox + "/a.txt"), where: where, score: 1},
		{name: "absolute path outside", criterion: exists("/etc/passwd"), where: where, author: "outside of the sandbox"},
		{name: "absolute path outside that is missing", criterion: exists("/etc/none"), where: where},
		{name: "dots to what exists", criterion: exists("../../etc/passwd"), where: where, author: "outside of the sandbox"},
		{name: "dots to what does not", criterion: exists("../../etc/none"), where: where},
		{name: "link outside", criterion: exists("out"), where: where, err: "A link leads out of the sandbox", details: "'out'"},
		{name: "relative link outside", criterion: exists("up"), where: where, err: "A link leads out of the sandbox"},
		{name: "below a link outside", criterion: exists("etc/passwd"), where: where, err: "A link leads out of the sandbox"},
		{name: "absolute path through a link outside", criterion: exists(sandbox + "/out"), where: where, err: "A link leads out of the sandbox"},
		{name: "dots through a link inside", criterion: exists("dirlink/../../etc/passwd"), where: where},
		{name: "dots out and in again", criterion: exists("../workspace/a.txt"), where: where, score: 1},
		{name: "glob", criterion: exists("*.txt"), where: where, score: 1, details: "'a.txt'"},
		{name: "glob without a match", criterion: exists("*.none"), where: where},
		{name: "glob finds no directory", criterion: exists("su?"), where: where},
		{name: "glob drops what leads out", criterion: exists("o*t"), where: where},
		{name: "recursive", criterion: exists("**/c.txt"), where: where, score: 1, details: "'sub/deep/c.txt'"},
		{name: "** is no directory too", criterion: exists("**/a.txt"), where: where, score: 1},
		{name: "* matches dot files", criterion: exists("*/d.txt"), where: where, score: 1, details: "'.hidden/d.txt'"},
		{name: "ignored part is not discovered", criterion: exists("*/e.txt"), where: where},
		{name: "ignored part that is spelled out", criterion: exists("node_modules/*.txt"), where: where, score: 1},
		{name: "no braces", criterion: exists("{a,b}.*"), where: where},
		{name: "** inside a part", criterion: exists("a**b/x"), where: where, err: "ValueError", details: "Error during check"},
		{name: "absolute glob", criterion: exists("/work/*.txt"), where: where, err: "NotImplementedError"},
	}
}

func TestFileContains(t *testing.T) { check(t, fileContainsTable(tree())) }

func fileContainsTable(where criteria.Surroundings) []expectation {
	one := []string{"alpha", "omega", "gamma\ndelta"}
	return []expectation{
		{name: "includes", criterion: contains("a.txt", one, nil), where: where, score: 2.0 / 3, details: "'omega'"},
		{name: "case-sensitive", criterion: contains("a.txt", []string{"Alpha"}, nil), where: where},
		{name: "excludes", criterion: contains("a.txt", nil, []string{"alpha", "omega"}), where: where, score: 0.5},
		{name: "mean of both", criterion: contains("a.txt", []string{"alpha"}, []string{"beta"}), where: where, score: 0.5},
		{name: "none", criterion: contains("a.txt", []string{}, nil), where: where, score: 1},
		{name: "missing", criterion: contains("no.txt", one, nil), where: where, err: "File not found"},
		{name: "directory", criterion: contains("sub", one, nil), where: where, err: "IsADirectoryError"},
		{name: "fifo", criterion: contains("fifo", one, nil), where: where, err: "OSError"},
		{name: "device", criterion: contains("device", one, nil), where: where, err: "OSError"},
		{name: "binary", criterion: contains("bin.dat", one, nil), where: where, err: "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 2: invalid start byte", details: "Error during check"},
		{name: "byte order mark is kept", criterion: contains("bom.txt", []string{"\ufefftext"}, nil), where: where, score: 1},
		{name: "permission", criterion: contains("denied.txt", one, nil), where: where, err: "PermissionError"},
		{name: "input/output error", criterion: contains("broken.txt", one, nil), where: where, err: "OSError"},
		{name: "too large", criterion: contains("huge.txt", one, nil), where: where, err: "OSError"},
		{name: "100 MB", criterion: contains("large.txt", []string{"needle"}, nil), where: where, score: 1},
		{name: "lost cell", criterion: contains("lost.txt", one, nil), where: where, infra: "channel to the cell ended"},
		{name: "glob of one", criterion: contains("sub/*.txt", []string{"b"}, nil), where: where, score: 1, details: "'sub/*.txt' matches 'sub/b.txt'"},
		{name: "glob of several", criterion: contains("many/*.log", []string{"b"}, nil), where: where, err: "matches 12 files", details: "'many/j.log', and 2 more"},
		{name: "literal before glob", criterion: contains("lit[1].txt", []string{"literal"}, nil), where: where, score: 1},
		{name: "link outside", criterion: contains("out", one, nil), where: where, err: "A link leads out of the sandbox"},
		{name: "link outside, nothing asked", criterion: contains("out", []string{}, nil), where: where, err: "A link leads out of the sandbox"},
		{name: "escapes", criterion: contains("../../etc/passwd", one, nil), where: where, author: "outside of the sandbox"},
	}
}

func TestFileMatchesRegex(t *testing.T) { check(t, fileMatchesRegexTable(tree())) }

func fileMatchesRegexTable(where criteria.Surroundings) []expectation {
	return []expectation{
		{name: "search", criterion: matches("a.txt", `b\w+`, true, 0), where: where, score: 1, details: "'beta'"},
		{name: "no match", criterion: matches("a.txt", "omega", true, 0), where: where},
		{name: "must not match", criterion: matches("a.txt", "omega", false, 0), where: where, score: 1},
		{name: "matches and must not", criterion: matches("a.txt", "alpha", false, 0), where: where},
		{name: "ignore case", criterion: matches("a.txt", "ALPHA", true, 2), where: where, score: 1},
		{name: "universal newlines", criterion: matches("a.txt", "^gamma$", true, 8), where: where, score: 1},
		{name: "dot matches newline", criterion: matches("a.txt", "beta.gamma", true, 16), where: where, score: 1},
		{name: "long match is cut", criterion: matches("large.txt", "(?s).{300}needle", true, 0), where: tree(), err: "OverflowError"},
		{name: "link outside, must not match", criterion: matches("out", "a", false, 0), where: where, err: "A link leads out of the sandbox"},
		{name: "missing, must not match", criterion: matches("no.txt", "a", false, 0), where: where, err: "File not found"},
		{name: "bad pattern", criterion: matches("a.txt", "(", true, 0), where: where, err: "Invalid regular expression"},
		{name: "bad pattern, must not match", criterion: matches("a.txt", "(", false, 0), where: where, err: "Invalid regular expression"},
		{name: "untranslatable pattern", criterion: matches("a.txt", `(?ai:(a)\1)`, true, 0), where: where, author: "cannot translate"},
		{name: "backtracks for ever", criterion: matches("back.txt", `(a|aa|a?a)+$`, true, 0), err: "TimeoutError",
			where: criteria.Surroundings{Cell: newCell(map[string]string{"back.txt": strings.Repeat("a", 60) + "b"}), RegexTimeout: 200 * time.Millisecond}},
	}
}

func TestFileCheck(t *testing.T) { check(t, fileCheckTable(tree())) }

func fileCheckTable(where criteria.Surroundings) []expectation {
	of := func(name string, includes, excludes []string, patterns ...tasks.FilePattern) *tasks.FileCheck {
		return &tasks.FileCheck{Base: common(tasks.TypeFileCheck), Path: name, Includes: includes, Excludes: excludes, Patterns: patterns}
	}
	return []expectation{
		{name: "mean of three", criterion: of("a.txt", []string{"alpha", "no"}, []string{"no"}, tasks.FilePattern{Pattern: "^alpha", MustMatch: true}), where: where, score: 2.5 / 3},
		{name: "mean of two", criterion: of("a.txt", nil, []string{"alpha"}, tasks.FilePattern{Pattern: "x", MustMatch: false}), where: where, score: 0.5},
		{name: "nothing asked", criterion: of("empty.txt", nil, nil), where: where, score: 1},
		{name: "nothing asked of a directory", criterion: of("sub", nil, nil), where: where, score: 1},
		{name: "bad pattern scores 0 and is named", criterion: of("a.txt", nil, nil, tasks.FilePattern{Pattern: "(", MustMatch: false}, tasks.FilePattern{Pattern: "a", MustMatch: true}), where: where, score: 0.5, details: "Invalid regular expression '('"},
		{name: "missing", criterion: of("no.txt", nil, nil), where: where, err: "File not found"},
		{name: "link outside", criterion: of("out", nil, nil), where: where, err: "A link leads out of the sandbox"},
	}
}

func TestClassificationMatch(t *testing.T) { check(t, classificationMatchTable()) }

func classificationMatchTable() []expectation {
	of := func(expected string, sensitive bool) *tasks.ClassificationMatch {
		return &tasks.ClassificationMatch{Base: common(tasks.TypeClassificationMatch), Path: "label*.txt", ExpectedLabel: expected, AllowedLabels: []string{"Yes", "No"}, CaseSensitive: sensitive}
	}
	cell := func(texts map[string]string) criteria.Surroundings {
		return criteria.Surroundings{Cell: newCell(texts)}
	}
	return []expectation{
		{name: "equal up to case", criterion: of("yes", false), where: cell(map[string]string{"label.txt": " YES\r\n"}), score: 1, details: "'Yes'"},
		{name: "case-sensitive", criterion: of("Yes", true), where: cell(map[string]string{"label.txt": "YES"}), details: "(other)"},
		{name: "other", criterion: of("Yes", false), where: cell(map[string]string{"label.txt": "maybe"}), details: "(other)"},
		{name: "missing", criterion: of("Yes", false), where: cell(nil), details: "(none)"},
		{name: "missing and expected", criterion: of("(none)", false), where: cell(nil), score: 1},
		{name: "empty", criterion: of("No", false), where: cell(map[string]string{"label.txt": " \n"}), details: "(none)"},
		{name: "ambiguous", criterion: of("Yes", false), where: cell(map[string]string{"label1.txt": "yes", "label2.txt": "yes"}), err: "matches 2 files"},
		{name: "link outside, and no label expected", criterion: of("(none)", false), where: criteria.Surroundings{Cell: newCell(nil).add("label*.txt", fakeFile{kind: criteria.Symlink, target: "/etc/passwd"})}, err: "A link leads out of the sandbox"},
		{name: "not UTF-8", criterion: of("Yes", false), where: cell(map[string]string{"label.txt": "\xff"}), err: "UnicodeDecodeError"},
	}
}
