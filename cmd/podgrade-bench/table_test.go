package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestATargetIsMetUpToItsBound(t *testing.T) {
	for _, test := range []struct {
		value  float64
		target string
		met    bool
	}{
		{1.3, "<= 1.3", true}, {1.31, "<= 1.3", false}, {0.5, "<= 1.3", true},
		{7, ">= 7", true}, {6.99, ">= 7", false}, {20, ">= 7", true},
	} {
		if got, err := met(test.value, test.target); err != nil || got != test.met {
			t.Errorf("%g %s: %t, %v", test.value, test.target, got, err)
		}
	}
	for _, target := range []string{"", "fast", "< 3", "== 3", "3", "<= much"} {
		if got, err := met(1, target); err == nil {
			t.Errorf("the target %q is met: %t", target, got)
		}
	}
}

func TestTheTableSaysWhatIsMissed(t *testing.T) {
	var b bytes.Buffer
	all := table{}
	all.add("one cell", "cell / floor", 1.2, "<= 1.3", "12 ms / 10 ms")
	all.add("", "podman run / cell", 6, ">= 7", "")
	all.print(&b)
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 3 || !strings.Contains(lines[1], " yes ") || !strings.HasSuffix(lines[2], " no") {
		t.Errorf("printed:\n%s", b.String())
	}
}

func TestMeasurementsAreChosenByName(t *testing.T) {
	if all, err := chosen(""); err != nil || len(all) != len(measurements) {
		t.Errorf("chosen by nothing: %v, %v", all, err)
	}
	if some, err := chosen("batch,cell"); err != nil || len(some) != 2 {
		t.Errorf("chosen by two names: %v, %v", some, err)
	}
	if _, err := chosen("cell,bach"); err == nil || !strings.Contains(err.Error(), `"bach"`) {
		t.Errorf("a measurement that there is not: %v", err)
	}
}
