package tasks

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// seeds adds the corpus and the broken files to a fuzz target.
func seeds(f *testing.F, extra ...string) {
	f.Helper()
	for _, pattern := range []string{"testdata/problems/*.yaml", corpus + "/tasks/*.yaml", corpus + "/tasks/*/*.yaml", corpus + "/experiments/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatal(pattern, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(string(data))
		}
	}
	for _, text := range extra {
		f.Add(text)
	}
}

// wellFormed checks what holds for every error of this package.
func wellFormed(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	text := err.Error()
	if strings.ContainsAny(text, "\x1b\a\x00\r") || len(text) > 1<<20 {
		t.Errorf("error of %d bytes: %.200q", len(text), text)
	}
	var invalid *Invalid
	if errors.As(err, &invalid) && len(invalid.Problems) == 0 {
		t.Error("no problem in an Invalid")
	}
}

// FuzzLoad reads any text as a task file, an experiment and a record.
func FuzzLoad(f *testing.F) {
	seeds(f, small, "a: &a [*a]", "<<: {a: 1}", "? [a]\n: b", "- \xff", "a: !!binary x", "%YAML 1.1\n---\na: 1")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		l := &Loader{Env: func(string) (string, bool) { return "", false }}
		file, err := l.parse("x", []byte(text), &source{file: "x", dir: dir, layer: LayerTask})
		wellFormed(t, err)
		if err == nil {
			if _, err := l.Resolve(file, Layers{}); err == nil && file.Task.Simulation == nil {
				again(t, file.Task)
			}
		}
		_, err = l.parseExperiment("x", []byte(text), &source{file: "x", dir: dir, layer: LayerExperiment})
		wellFormed(t, err)
	})
}

// FuzzRecord reads any bytes as the resolved task of a record.
func FuzzRecord(f *testing.F) {
	task, err := Load(corpus + "/tasks/early_stop_weighted_low_weight_absorbed.yaml")
	if err != nil {
		f.Fatal(err)
	}
	record, err := task.Task.MarshalJSON()
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{string(record), `{}`, `[1e400, -0, "\ud800"]`, `{"a": {"a": 1, "a": 2}}`, `{"success_criteria": [{"type": "cli_called", "flags": {"a": null}}]}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		task, err := FromRecord([]byte(text))
		wellFormed(t, err)
		if err == nil {
			again(t, task)
		}
	})
}

// FuzzExpand reads any text as the rows of a dataset.
func FuzzExpand(f *testing.F) {
	f.Add("rows: [{id: a, x: 1, y: 2}]", `{"id": "a", "x": "b", "y": null}`, "test", 1)
	f.Add("rows: [{id: a, x: 2001-01-01, y: .inf}, {id: b}], sample_per_stratum: 1", "", "", 0)
	f.Add("rows: [{<<: {id: a}, x: '${row.y}', y: '${row.x}'}]", "{}\n[]\n", "", 3)
	f.Fuzz(func(t *testing.T, dataset, lines, split string, sample int) {
		budget := 1000
		rows := appendLines(nil, []byte(lines), "x", &budget, &report{})
		if len(rows) > min(strings.Count(lines, "\n")+1, 1000) {
			t.Errorf("%d rows", len(rows))
		}
		file, err := (&Loader{}).parse("x", []byte(dataTask+"dataset: {"+dataset+"}\n"), &source{file: "x", dir: t.TempDir(), layer: LayerTask})
		wellFormed(t, err)
		if err != nil || file.Task.Dataset.Paths != nil {
			return
		}
		e, err := (&Loader{}).Expand(file, Selection{Split: split, Sample: max(sample, 0)})
		wellFormed(t, err)
		if err == nil && len(e.Files) > e.Rows {
			t.Errorf("%d of %d rows", len(e.Files), e.Rows)
		}
	})
}

// FuzzOverride reads any text as -D and lays it over a task.
func FuzzOverride(f *testing.F) {
	for _, text := range []string{"agent.model=x", "sandbox.docker.build.args.A=1", "agent.sdk_options.a.b=[1]", "sandbox.podman.caps=[chown]", "run_limits.max_turns=0x10", "sandbox.python=null", "agent.claude_settings={a: 1}", "sandbox.template_sources=[{path: a}]", "sandbox.record_cli=[{tool: x}]"} {
		f.Add(text)
	}
	file, err := (&Loader{}).parse("x", []byte(small), &source{file: "x", dir: f.TempDir(), layer: LayerTask})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o, err := ParseOverride(text)
		wellFormed(t, err)
		if err != nil {
			return
		}
		task, err := (&Loader{Env: func(string) (string, bool) { return "", false }}).Resolve(file, Layers{Overrides: []Override{o}})
		wellFormed(t, err)
		if err == nil {
			again(t, task)
		}
	})
}
