package main

import (
	"encoding/json"
	"strings"
	"testing"

	"podgrade/regrade"
)

// TestStreamTellsWhatAgentsPrint: each line behind the name of its row, safe to
// look at, and for programs as an event.
func TestStreamTellsWhatAgentsPrint(t *testing.T) {
	s := newScene(t)
	s.write("task.yaml", sceneTask(t, `echo one; printf '\033[31mred' >&2; cat >made`, passing))
	_, stderr := s.podgrade(0, "execute", "task.yaml", "--run-dir", "a", "--stream", "full", "--log-file", "log")
	for _, said := range []string{stderr, s.text("log")} {
		printsAll(t, said, "\ndefault/t/00 | one\n", "\ndefault/t/00 ! \\x1b[31mred\n", "default/t/00: started")
	}
	stdout, _ := s.podgrade(0, "execute", "task.yaml", "--run-dir", "b", "--stream", "FULL", "--json")
	told := map[string]string{}
	for line := range strings.Lines(stdout) {
		var e eventLine
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		if e.Event == regrade.RowOutput {
			told[e.Stream] += *e.Text
		}
	}
	if len(told) != 2 || told["stdout"] != "one" || told["stderr"] != "\x1b[31mred" {
		t.Errorf("%q", told)
	}
	if _, stderr = s.podgrade(0, "execute", "task.yaml", "--run-dir", "c", "-s", "minimal"); strings.Contains(stderr, "| one") || !strings.Contains(stderr, "default/t/00: started") {
		t.Errorf("%s", stderr)
	}
}
