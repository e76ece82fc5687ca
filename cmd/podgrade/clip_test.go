package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"podgrade/policy"
)

// TestAHugeArgumentIsNotRepeated, and the end of the line, which says what to do,
// is still there.
func TestAHugeArgumentIsNotRepeated(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	huge := strings.Repeat("ä", 50000)
	for _, c := range []struct {
		args []string
		end  string
	}{
		{[]string{huge}, "--help\n"}, {[]string{"--" + huge}, "--help\n"}, {[]string{"run", "-D", huge, "x"}, "--help\n"},
		{[]string{"run", huge}, "of the run too\n"}, {[]string{"evaluate", huge}, "task.json\n"}, {[]string{"report", huge}, "\n"},
		{[]string{"evaluate", "--policy", huge, "x"}, "\n"}, {[]string{"plan", huge}, "\n"}, {[]string{"rm", huge}, "\n"},
		{[]string{"trust", "verify", huge}, "\n"}, {[]string{"init", huge}, "\n"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), append([]string{"podgrade"}, c.args...), &stdout, &stderr)
		if said := stdout.String() + stderr.String(); code == 0 || len(said) > 20000 || !strings.HasSuffix(said, c.end) {
			t.Errorf("%.40s: exit code %d and %d bytes, ending in %q", c.args, code, len(said), said[max(0, len(said)-60):])
		}
	}
	refusal := &policy.Refusal{What: huge}
	if !strings.Contains(errorText(refusal), huge) || strings.Contains(errorText(errors.New(huge)), huge) {
		t.Error("a refusal shows all that it is about, and no other error does")
	}
}

// TestAPolicyFileThatIsNotReadSaysWhatHelps: the schema does not where its mode is
// the fault.
func TestAPolicyFileThatIsNotReadSaysWhatHelps(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(file string) error
		says  string
	}{
		"open to others":            {func(f string) error { return os.Chmod(f, 0o666) }, "chmod go-w"},
		"a directory open to all":   {func(f string) error { return os.Chmod(filepath.Dir(f), 0o777) }, "chmod go-w"},
		"no file":                   {func(f string) error { return errors.Join(os.Remove(f), os.Mkdir(f, 0o700)) }, "name a regular file"},
		"a link to nothing":         {func(f string) error { return errors.Join(os.Remove(f), os.Symlink("nowhere", f)) }, "remove the link"},
		"a key that nobody has":     {func(f string) error { return os.WriteFile(f, []byte("alow: {}"), 0o600) }, "docs/policy.schema.json"},
		"of another user":           {func(f string) error { return errors.Join(os.Remove(f), os.Symlink("/etc/passwd", f)) }, "chown"},
		"no directory for settings": {func(string) error { return os.Setenv("XDG_CONFIG_HOME", "relative") }, "XDG_CONFIG_HOME"},
	} {
		if name == "of another user" && os.Geteuid() == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			config := t.TempDir()
			t.Setenv("XDG_CONFIG_HOME", config)
			file := filepath.Join(config, "podgrade", "policy.yaml")
			if err := errors.Join(os.Mkdir(filepath.Dir(file), 0o700), os.WriteFile(file, nil, 0o600), c.spoil(file)); err != nil {
				t.Fatal(err)
			}
			var stderr bytes.Buffer
			code := run(t.Context(), []string{"podgrade", "evaluate", "row"}, &bytes.Buffer{}, &stderr)
			said := stderr.String()
			if code == 0 || !strings.Contains(said, c.says) || strings.Contains(said, "schema") != (c.says == "docs/policy.schema.json") {
				t.Errorf("exit code %d: %s", code, said)
			}
		})
	}
}
