// Package docs_test runs the commands that the documentation shows.
package docs_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"podgrade/policy"
)

// block is a fenced part of a page.
type block struct {
	page, kind string
	line       int // of its first line, from 1
	text       []string
}

// pages are README.md, HACKING.md, CHANGELOG.md and what lies beside this file.
func pages(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"../*.md", "*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	if len(all) < 9 {
		t.Fatalf("only these pages were found: %q", all)
	}
	return all
}

// blocks returns the fenced blocks of a kind in all pages.
func blocks(t *testing.T, kind string) []block {
	t.Helper()
	var all []block
	for _, page := range pages(t) {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		var open *block
		lines := bufio.NewScanner(bytes.NewReader(content))
		for number := 1; lines.Scan(); number++ {
			text := lines.Text()
			fence, isFence := strings.CutPrefix(text, "```")
			switch {
			case open == nil && isFence:
				open = &block{page: filepath.Base(page), kind: fence, line: number + 1}
			case isFence:
				all = append(all, *open)
				open = nil
			case open != nil:
				open.text = append(open.text, text)
			}
		}
		if open != nil {
			t.Errorf("%s:%d: the block does not end", open.page, open.line)
		}
	}
	var wanted []block
	for _, b := range all {
		if b.kind == kind {
			wanted = append(wanted, b)
		}
	}
	return wanted
}

func TestBlocksAreOfAKindThatIsTested(t *testing.T) {
	known := map[string]bool{"console": true, "sh": true, "yaml": true, "text": true}
	for _, page := range pages(t) {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for i, fence := range regexp.MustCompile("(?m)^```(.*)$").FindAllStringSubmatch(string(content), -1) {
			if i%2 == 0 && !known[fence[1]] {
				t.Errorf("%s: a block of kind %q", page, fence[1])
			}
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)

func TestLinksLeadSomewhere(t *testing.T) {
	for _, page := range pages(t) {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range link.FindAllStringSubmatch(string(content), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), found[1])); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
}

// TestShellBlocksAreWhatScriptsRun: set-up commands change the machine, so
// this test does not run them; it looks for the program with its first
// argument in the scripts that continuous integration runs.
func TestShellBlocksAreWhatScriptsRun(t *testing.T) {
	var scripts strings.Builder
	for _, name := range []string{"../Makefile", "../.ci/run", "../.ci/prepare", "../.ci/check", "../.ci/lint/run", "../.ci/fuzz"} {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		scripts.Write(content)
	}
	seen := 0
	for _, b := range blocks(t, "sh") {
		for i, line := range b.text {
			command := strings.Fields(strings.TrimPrefix(line, "sudo "))
			if len(command) == 0 {
				continue
			}
			seen++
			if err := isRun(scripts.String(), command); err != nil {
				t.Errorf("%s:%d: %v", b.page, b.line+i, err)
			}
		}
	}
	if seen == 0 {
		t.Error("no sh block was found")
	}
}

func isRun(scripts string, command []string) error {
	switch {
	case command[0] == "cd" || command[0] == "git" && command[1] == "clone":
		return nil
	case command[0] == "make" && len(command) > 1:
		if !regexp.MustCompile(`(?m)^([a-z -]+ )?` + command[1] + `( [a-z -]+)?:`).MatchString(scripts) {
			return fmt.Errorf("the Makefile has no target %s", command[1])
		}
	case command[0] == "apt-get":
		for _, name := range command[2:] {
			if !strings.Contains(scripts, ":"+name) {
				return fmt.Errorf("no script installs %s", name)
			}
		}
	case !strings.Contains(scripts, strings.Join(command[:min(2, len(command))], " ")):
		return fmt.Errorf("no script runs %q", strings.Join(command, " "))
	}
	return nil
}

// TestTaskFilesLoad lets podgrade check the task files that pages show.
func TestTaskFilesLoad(t *testing.T) {
	shown := blocks(t, "yaml")
	if len(shown) == 0 {
		t.Error("no page shows a task file")
	}
	for _, b := range shown {
		if b.text[0] == "# policy.yaml" {
			continue // TestPolicyFilesAreUnderstood
		}
		file := filepath.Join(t.TempDir(), "task.yaml")
		if err := os.WriteFile(file, []byte(strings.Join(b.text, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(filepath.Join(buildDir(t), "bin", "podgrade"), "plan", file).CombinedOutput(); err != nil {
			t.Errorf("%s:%d: %v\n%s", b.page, b.line, err, out)
		}
	}
}

// TestPolicyFilesAreUnderstood reads the policy files that pages show.
func TestPolicyFilesAreUnderstood(t *testing.T) {
	seen := 0
	for _, b := range blocks(t, "yaml") {
		if b.text[0] != "# policy.yaml" {
			continue
		}
		seen++
		file := filepath.Join(t.TempDir(), "policy.yaml")
		if err := os.WriteFile(file, []byte(strings.Join(b.text, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := policy.OpenFile(file); err != nil {
			t.Errorf("%s:%d: %v", b.page, b.line, err)
		}
	}
	if seen == 0 {
		t.Error("no page shows a policy file")
	}
}

// buildDir is what `make build-test` filled.
func buildDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("PODGRADE_TEST_BUILD")
	if dir == "" {
		t.Fatal("PODGRADE_TEST_BUILD is not set: run `make test`")
	}
	return dir
}

// TestTranscripts runs the console blocks of each page, in order, in one
// directory, and compares what is printed. A line "..." stands for any lines.
func TestTranscripts(t *testing.T) {
	perPage := map[string][]block{}
	for _, b := range blocks(t, "console") {
		perPage[b.page] = append(perPage[b.page], b)
	}
	if len(perPage["README.md"]) == 0 {
		t.Error("README.md shows no command")
	}
	build := buildDir(t)
	made := prepare(t, build) // and with it the images
	for page, shown := range perPage {
		t.Run(page, func(t *testing.T) {
			dir := t.TempDir()
			if usesRows(shown) {
				if dir, made = made, ""; dir == "" {
					dir = prepare(t, build)
				}
			}
			code := 0
			for _, b := range shown {
				code = play(t, b, dir, build, code)
			}
		})
	}
}

// rowsOfDemo are the files that prepare makes, as commands name them.
var rowsOfDemo = regexp.MustCompile(`\b(examples|task|runs/(cell|cell-unpinned|host|fresh))/`)

// usesRows tells whether a page's commands name files that prepare makes.
func usesRows(shown []block) bool {
	for _, b := range shown {
		for _, line := range b.text {
			if command, ok := strings.CutPrefix(line, "$ "); ok && rowsOfDemo.MatchString(command) {
				return true
			}
		}
	}
	return false
}

// prepare makes a directory with what the pages take for granted: the demo's
// image in Podman's store, and rows of it in runs.
func prepare(t *testing.T, build string) string {
	t.Helper()
	dir := t.TempDir()
	command := exec.Command("../tasks/examples/demo.sh", build, dir, "rows")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("preparing the example rows: %v\n%s", err, out)
	}
	return dir
}

// play runs one block and returns the last exit code.
func play(t *testing.T, b block, dir, build string, code int) int {
	t.Helper()
	for i := 0; i < len(b.text); {
		line, isCommand := strings.CutPrefix(b.text[i], "$ ")
		if !isCommand {
			t.Fatalf("%s:%d: a block starts with a line that is no command", b.page, b.line+i)
		}
		at := b.line + i
		var want []string
		for i++; i < len(b.text) && !strings.HasPrefix(b.text[i], "$ "); i++ {
			want = append(want, b.text[i])
		}
		command := exec.Command("sh", "-c", fmt.Sprintf("(exit %d)\n%s", code, line))
		command.Dir = dir
		command.Env = append(os.Environ(), "PATH="+filepath.Join(build, "bin")+":"+os.Getenv("PATH"))
		out, err := command.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		code = command.ProcessState.ExitCode()
		got := strings.Split(strings.TrimRight(string(out), "\n"), "\n")
		if !matches(want, got) {
			t.Errorf("%s:%d: %s\nprints (exit code %d)\n%s\nbut the page shows\n%s", b.page, at, line, code, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	return code
}

// matches compares lines; "..." in want stands for any number of lines, and
// for any text within a line.
func matches(want, got []string) bool {
	if len(want) == 0 {
		return len(got) == 0 || len(got) == 1 && got[0] == ""
	}
	if want[0] == "..." {
		for i := 0; i <= len(got); i++ {
			if len(want) == 1 || matches(want[1:], got[i:]) {
				return true
			}
		}
		return false
	}
	return len(got) > 0 && lineMatches(want[0], got[0]) && matches(want[1:], got[1:])
}

func lineMatches(want, got string) bool {
	parts := strings.Split(want, "...")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString(strings.TrimRight(got, " "))
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		want, got string
		match     bool
	}{
		{"a\nb", "a\nb", true},
		{"a\n...\nd", "a\nb\nc\nd", true},
		{"...\nd", "d", true},
		{"a ... c", "a b c", true},
		{"a", "a\nb", false},
		{"a.c", "abc", false},
		{"...", "", true},
	} {
		if got := matches(strings.Split(c.want, "\n"), strings.Split(c.got, "\n")); got != c.match {
			t.Errorf("matches(%q, %q) is %v", c.want, c.got, got)
		}
	}
}
