package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"podgrade/regrade"
	"podgrade/tasks/record/fixture"
)

// TestHostileRowsEndWithOneMessage: the program itself, in the directory of a
// stranger, whose .env would steer it. What each row tries is in regrade.
func TestHostileRowsEndWithOneMessage(t *testing.T) {
	task, err := filepath.Abs(byod)
	if err != nil {
		t.Fatal(err)
	}
	sentinels, err := fixture.NewSentinels(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	rows, err := fixture.WriteHostile(task, t.TempDir(), sentinels)
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "config")
	t.Setenv("XDG_CONFIG_HOME", config)
	t.Setenv("CANARY", sentinels.Secret)
	t.Chdir(t.TempDir())
	trap := filepath.Join(sentinels.Dir, fixture.Trap)
	hostile := "PATH=" + sentinels.Dir + "\nLD_PRELOAD=" + trap + "\nXDG_CONFIG_HOME=" + sentinels.Dir + "\nXDG_DATA_HOME=" + sentinels.Dir + "\nHOME=" + sentinels.Dir +
		"\nPODGRADE_DEFAULT_IMAGE=evil\nCONTAINER_HOST=unix://" + trap + "\nCODER_EVAL_IN_CONTAINER=1\n$(touch " + trap + ")\nX=`touch " + trap + "`\n\x1b[2J=\x1b[2J\n"
	if err := os.WriteFile(dotenvFile, []byte(hostile), 0o644); err != nil {
		t.Fatal(err)
	}
	before := os.Environ()
	for _, row := range rows {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), []string{"podgrade", "evaluate", row.Dir}, &stdout, &stderr)
		want := regrade.ExitUsage
		if row.Name == "a pattern that is none" { // the author's error
			want = regrade.ExitFailed
		}
		messages := 0
		for line := range strings.Lines(stderr.String()) {
			if strings.HasPrefix(line, "podgrade: ") {
				messages++
			}
		}
		if code != want || messages != 1 || stdout.Len() > 0 {
			t.Errorf("%s: exit code %d, %d messages, and %q on standard output: %s", row.Name, code, messages, stdout.String(), stderr.String())
		}
		if strings.ContainsAny(stderr.String(), "\x1b\u202e\x07\x00\r") || strings.Contains(stderr.String(), sentinels.Secret) {
			t.Errorf("%s: %q", row.Name, stderr.String())
		}
	}
	if after := os.Environ(); !slices.Equal(before, after) {
		t.Errorf("the environment was changed:\n%q\n%q", before, after)
	}
	if _, err := os.Stat(trap); !os.IsNotExist(err) {
		t.Error("a command of a row ran")
	}
	if _, err := os.Stat(config); !os.IsNotExist(err) {
		t.Error("a refusal made a key")
	}
}
