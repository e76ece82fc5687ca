package isolation

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A program that gives no answer in time is told from one that has none.
func TestAProgramThatGivesNoVersionInTimeIsLate(t *testing.T) {
	dir := t.TempDir()
	for name, script := range map[string]string{"slow": "exec sleep 600", "mute": "exit 1", "whole": "echo whole version 1.2.3"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	before := trialGrace
	defer func() { trialGrace = before }()
	for name, want := range map[string]struct {
		grace time.Duration
		late  string
		said  string
	}{"slow": {200 * time.Millisecond, "200ms", ""}, "mute": {before, "", ""}, "whole": {before, "", "1.2.3"}} {
		trialGrace = want.grace
		if p := program(t.Context(), filepath.Join(dir, name)); p.Late != want.late || p.Version != want.said {
			t.Errorf("%s: %+v", name, p)
		}
	}
}
