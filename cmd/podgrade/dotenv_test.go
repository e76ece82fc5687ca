package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"podgrade/oci"
)

func TestDotenvIsRead(t *testing.T) {
	values, bad := parseDotenv([]byte("# keys\nA=1\n export B = two words # said\nC='a # b'\nD=\"x\" # y\nE=\n\nnot a line\n1F=2\nG='open\nH=\"a\" b\r\nI=a=b\r\n"))
	for name, want := range map[string]string{"A": "1", "B": "two words", "C": "a # b", "D": "x", "E": "", "I": "a=b"} {
		if got, ok := values[name]; !ok || got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if len(values) != 6 || !slices.Equal(bad, []int{8, 9, 10, 11}) {
		t.Errorf("%q, and lines %v are no lines", values, bad)
	}
}

// TestDotenvFillsOnlyItsList: a stranger's directory must not steer podgrade.
func TestDotenvFillsOnlyItsList(t *testing.T) {
	values := map[string]string{}
	for _, name := range []string{
		"PATH", "HOME", "LD_PRELOAD", "LD_LIBRARY_PATH", "CONTAINER_HOST", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR",
		"PODGRADE_DEFAULT_IMAGE", "CONTAINERS_STORAGE_CONF", "STORAGE_DRIVER", "REGISTRY_AUTH_FILE", "HTTPS_PROXY", "TMPDIR", oci.EnvInContainer,
	} {
		values[name] = "evil"
	}
	if taken, left := fromDotenv(values, func(string) (string, bool) { return "", false }); len(taken)+len(left) > 0 {
		t.Errorf("taken: %q, %q", taken, left)
	}
	for _, name := range dotenvNames {
		values[name] = "from the file"
	}
	taken, _ := fromDotenv(values, func(string) (string, bool) { return "", false })
	if !slices.Equal(taken, dotenvNames) {
		t.Errorf("taken: %q", taken)
	}
	set := map[string]bool{"ANTHROPIC_API_KEY": true, "CODEX_API_KEY": true}
	taken, left := fromDotenv(values, func(name string) (string, bool) { return "", set[name] })
	for _, name := range []string{"ANTHROPIC_API_KEY", "CODEX_API_KEY", "CODEX_BASE_URL"} {
		if slices.Contains(taken, name) {
			t.Errorf("%s is taken although it, or the key that would be sent there, is set", name)
		}
	}
	if len(taken) != len(dotenvNames)-3 || len(left) != 1 || !strings.Contains(left[0], "CODEX_BASE_URL") {
		t.Errorf("%q, %q", taken, left)
	}
}

// TestThePageNamesWhatDotenvMayFill: all of the list, and nothing else.
func TestThePageNamesWhatDotenvMayFill(t *testing.T) {
	page, err := os.ReadFile("../../docs/running.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Variables of the current directory\n")
	section, _, _ = strings.Cut(section, "\n## ")
	_, table, _ := strings.Cut(section, "\n| --- | --- |\n")
	var named []string
	for _, match := range regexp.MustCompile("`([A-Z_]{6,})`").FindAllStringSubmatch(table, -1) {
		named = append(named, match[1])
	}
	for _, name := range dotenvNames {
		if !slices.Contains(named, name) {
			t.Errorf("docs/running.md does not name %s", name)
		}
	}
	for _, name := range named {
		if !slices.Contains(dotenvNames, name) {
			t.Errorf("docs/running.md names %s", name)
		}
	}
}

// TestDotenvOfTheCurrentDirectory: what was taken is said by name, never by
// value, and what cannot be used harms nothing.
func TestDotenvOfTheCurrentDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range dotenvNames {
		t.Setenv(name, "") // put back when the test ends
		os.Unsetenv(name)
	}
	plan := func() string {
		var stderr bytes.Buffer
		run(t.Context(), []string{"podgrade", "plan", "none.yaml"}, &bytes.Buffer{}, &stderr)
		return stderr.String()
	}
	write := func(text string) {
		if err := os.WriteFile(dotenvFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if said := plan(); strings.Contains(said, dotenvFile) {
		t.Errorf("without a file: %s", said)
	}
	write("GEMINI_API_KEY=secret\nPATH=/evil\nwhat is this\n")
	path := os.Getenv("PATH")
	said := plan()
	if !strings.Contains(said, "taken from .env: GEMINI_API_KEY\n") || !strings.Contains(said, ".env:3 is left out") || strings.Contains(said, "secret") || strings.Contains(said, "what is") {
		t.Errorf("%s", said)
	}
	if os.Getenv("GEMINI_API_KEY") != "secret" || os.Getenv("PATH") != path {
		t.Errorf("GEMINI_API_KEY is %q, PATH %q", os.Getenv("GEMINI_API_KEY"), os.Getenv("PATH"))
	}
	os.Unsetenv("GEMINI_API_KEY")
	write(strings.Repeat("#", maxDotenv+1))
	if said := plan(); !strings.Contains(said, "it is larger than") {
		t.Errorf("%s", said)
	}
	os.Remove(dotenvFile)
	if err := os.Mkdir(dotenvFile, 0o755); err != nil {
		t.Fatal(err)
	}
	if said := plan(); !strings.Contains(said, "it is no regular file") {
		t.Errorf("%s", said)
	}
	os.Remove(dotenvFile)
	if err := os.Symlink("/proc/self/mem", dotenvFile); err != nil {
		t.Fatal(err)
	}
	if said := plan(); !strings.Contains(said, dotenvFile+" is not used") {
		t.Errorf("%s", said)
	}
}

func TestRunsLieWhereDotenvSays(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv(runsVariable, "")
	os.Unsetenv(runsVariable)
	if err := os.WriteFile(dotenvFile, []byte(runsVariable+"=elsewhere\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	task := "task_id: t\ndescription: d\nskip: true\nagent: {type: none}\nsandbox: {driver: docker, docker: {image: x}}\nsuccess_criteria:\n  - {type: file_exists, path: a, description: d}\n"
	if err := os.WriteFile("task.yaml", []byte(task), 0o644); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	if code := run(t.Context(), []string{"podgrade", "run", "task.yaml"}, &bytes.Buffer{}, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	if found, _ := filepath.Glob("elsewhere/*/run.json"); len(found) == 0 {
		t.Errorf("no run in elsewhere: %s", &stderr)
	}
}
