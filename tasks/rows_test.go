package tasks

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func rowsOf(t *testing.T, text string, q Request) (*Resolution, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "task.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return (&Loader{}).Rows([]string{path}, q)
}

// TestRowsReportsEveryVariant: the second mistake is not found only once the
// first one is corrected.
func TestRowsReportsEveryVariant(t *testing.T) {
	l := &Loader{}
	e, err := l.parseExperiment("e", []byte("experiment_id: e\nvariants:\n  - {variant_id: a, agent: {type: codex, pure: true}}\n  - {variant_id: b}\n  - {variant_id: c, agent: {type: pi, effort: x}}\n"), &source{file: "e", dir: t.TempDir(), layer: LayerExperiment})
	if err != nil {
		t.Fatal(err)
	}
	_, err = rowsOf(t, small, Request{Layers: Layers{Experiment: e}})
	if err == nil || !strings.Contains(err.Error(), "agent.pure") || !strings.Contains(err.Error(), "agent.effort") {
		t.Errorf("%v", err)
	}
}

func TestRowsKeepsExpansions(t *testing.T) {
	resolution, err := rowsOf(t, small+"dataset: {rows: [{id: a}, {id: b}, {id: c}]}\n", Request{Selection: Selection{Sample: 2}})
	if err != nil || len(resolution.Expansions) != 1 {
		t.Fatalf("%v %v", resolution, err)
	}
	for _, e := range resolution.Expansions {
		if e.Rows != 3 || len(e.Files) != 2 {
			t.Errorf("%+v", e)
		}
	}
	if resolution, err := rowsOf(t, small, Request{}); err != nil || len(resolution.Expansions) != 0 {
		t.Errorf("a file without a dataset: %v %v", resolution, err)
	}
}

func TestRequestCheck(t *testing.T) {
	model, err := ParseOverride("agent.model=x")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		request Request
		text    string
	}{
		"nothing":        {Request{}, ""},
		"most repeats":   {Request{Repeats: maxRepeats}, ""},
		"many repeats":   {Request{Repeats: maxRepeats + 1}, "repeats is from 1 to 99"},
		"fewer repeats":  {Request{Repeats: -1}, "repeats is from 1 to 99"},
		"model twice":    {Request{Layers: Layers{Overrides: []Override{model}, Model: "y"}}, "agent.model is set twice"},
		"no UTF-8":       {Request{Layers: Layers{Model: "a\xff"}}, "not UTF-8"},
		"type and model": {Request{Layers: Layers{Type: "pi", Model: "y"}}, ""},
	} {
		if err := c.request.Check(); (err == nil) != (c.text == "") || err != nil && !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestReasonOfAPattern: it is kept as a whole, in bounds, on one line.
func TestReasonOfAPattern(t *testing.T) {
	if got := reasonText(errors.New("the pattern \"(\" is\nodd \x1b")); got != "the pattern \"(\" is\ufffdodd \ufffd" {
		t.Errorf("%q", got)
	}
	if got := reasonText(errors.New(strings.Repeat("é", 400))); got != strings.Repeat("é", 300)+"..." {
		t.Errorf("%q", got)
	}
}
