package tasks

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// layersDir holds a task and experiments that touch every merge strategy.
func layersDir(t *testing.T) string {
	return unpack(t, `
-- task.yaml --
task_id: t
description: d
initial_prompt: Say {word}.
tags: [one, two]
agent: {allowed_tools: [Bash], system_prompt: from task}
sandbox:
  docker: {env_passthrough_extra: [B], build: {args: {A: task, B: task}}}
  template_sources: [{path: of-task}]
  limits: {max_pids: 5}
run_limits: {max_turns: 7}
pre_run: [{command: task}]
post_run: [{command: task}]
success_criteria: [{type: file_exists, path: a, description: d}]
-- ex/e.yaml --
experiment_id: e
defaults:
  repeats: 2
  driver: docker
  agent:
    type: codex
    model: from-defaults
    by_type: {codex: {model: for-codex}, pi: {model: for-pi, thinking_level: low}}
  sandbox:
    driver: podman
    docker: {env_passthrough_extra: [A], build: {args: {A: defaults, C: defaults}}}
    template_sources: [{path: never}]
    python: null
  run_limits: {max_turns: 3, turn_timeout: 50}
  template_sources: [{path: of-experiment}]
  pre_run: [{command: experiment}]
  post_run: [{command: experiment}]
  prompt_mutations: [{type: template, variables: {word: hello}}, {type: prefix, content: First.}]
variants:
  - variant_id: plain
  - variant_id: pi
    repeats: 1
    agent: {type: pi, allowed_tools: [Read], system_prompt_file: sys.txt}
    run_limits: {max_turns: 9}
    template_sources: [{path: of-variant}]
    driver: tempdir
    prompt_mutations: [{type: replace, pattern: hello, replacement: bye}, {type: suffix, content: Last., separator: " "}]
  - variant_id: own
    initial_prompt_file: own.md
-- ex/sys.txt --
from the variant's file
-- ex/own.md --
My own {word}
`)
}

func TestLayers(t *testing.T) {
	dir := layersDir(t)
	l := &Loader{}
	e, err := l.LoadExperiment(filepath.Join(dir, "ex/e.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	resolution, err := l.Rows([]string{filepath.Join(dir, "task.yaml")}, Request{Layers: Layers{Experiment: e}})
	if err != nil || len(resolution.Skipped) > 0 {
		t.Fatal(err, resolution)
	}
	var dirs []string
	byVariant := map[string]*Task{}
	for _, row := range resolution.Rows {
		dirs = append(dirs, row.Dir())
		byVariant[row.Variant] = row.Task
	}
	if got, want := strings.Join(dirs, " "), "plain/t/00 pi/t/00 own/t/00 plain/t/01 own/t/01"; got != want {
		t.Errorf("rows %s, want %s", got, want)
	}
	for variant, want := range map[string][]string{
		"plain": {"prompt First.\n\nSay hello.", "agent codex for-codex [Bash] from task", "limits 7 50 600",
			"driver docker python false", "extra [A B] args map[A:task B:task C:defaults]",
			"templates of-task of-experiment", "pre experiment task", "post task experiment"},
		"pi": {"prompt First.\n\nSay bye. Last.", "agent pi for-pi [Read] from the variant's file", "limits 9 50 600",
			"driver tempdir python false", "templates of-task of-experiment of-variant"},
		"own": {"prompt My own {word}"},
	} {
		got := describe(byVariant[variant])
		for _, line := range want {
			if !slices.Contains(got, line) {
				t.Errorf("%s: %q is missing in %q", variant, line, got)
			}
		}
		again(t, byVariant[variant])
	}
	checkLineage(t, byVariant["pi"])
}

// describe tells the parts of a task that layers change.
func describe(t *Task) []string {
	commands, posts, templates := "pre", "post", "templates"
	for _, c := range t.PreRun {
		commands += " " + c.Command
	}
	for _, c := range t.PostRun {
		posts += " " + c.Command
	}
	for _, s := range t.Sandbox.TemplateSources {
		templates += " " + filepath.Base(s.Path)
	}
	s := t.Sandbox
	return []string{
		"prompt " + t.InitialPrompt, commands, posts, templates,
		fmt.Sprintf("agent %s %s %v %s", t.Agent.Type, t.Agent.Model, t.Agent.AllowedTools, t.Agent.SystemPrompt),
		fmt.Sprintf("limits %d %d %d", t.RunLimits.MaxTurns, t.RunLimits.TurnTimeout, t.RunLimits.TaskTimeout),
		fmt.Sprintf("driver %s python %v", s.Driver, s.Python != nil),
		fmt.Sprintf("extra %v args %v", s.Docker.EnvPassthroughExtra, s.Docker.Build.Args),
	}
}

func checkLineage(t *testing.T, task *Task) {
	t.Helper()
	for path, want := range map[string]string{
		"agent.type": "variant pi", "agent.permission_mode": LayerDefault, "run_limits.turn_timeout": LayerExperiment,
		"sandbox.limits.max_pids": LayerTask, "initial_prompt": LayerMutation, "agent.thinking_level": LayerExperiment,
	} {
		o := task.Lineage()[path]
		if got := o.Source; !strings.HasPrefix(want, got) || got == "" || strings.Contains(want, " ") && want != got+" "+o.Detail {
			t.Errorf("%s comes from %+v, want %s", path, o, want)
		}
	}
	if !task.Wrote("sandbox.docker.build") || task.Wrote("sandbox.docker.network") || task.Wrote("sandbox.docker.bu") {
		t.Error("Wrote is wrong")
	}
}

func overrides(t *testing.T, list ...string) (out []Override) {
	t.Helper()
	for _, text := range list {
		o, err := ParseOverride(text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, o)
	}
	return out
}

func TestOverrides(t *testing.T) {
	f, err := Load(filepath.Join(layersDir(t), "task.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	l := &Loader{}
	task, err := l.Resolve(f, Layers{Type: "pi", Model: "m=1", Overrides: overrides(t,
		"agent.thinking_level=off", "run_limits.max_turns=4", "run_limits.stop_early=no",
		"sandbox.docker.env_passthrough_extra=[C]", "sandbox.docker.build.args.B=x=y",
		"sandbox.template_sources=[{path: cli}]", "agent.allowed_tools=null", "sandbox.additional_ignore_patterns=[a]")})
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(describe(task), "|")
	for _, want := range []string{"agent pi m=1 [] from task", "limits 4 300 600", "extra [B C] args map[A:task B:x=y]", "templates of-task cli"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in %q", want, got)
		}
	}
	if task.Agent.ThinkingLevel != "off" || *task.RunLimits.StopEarly || task.Agent.AllowedTools != nil || task.Sandbox.IgnorePatterns[0] != "a" {
		t.Errorf("task: %+v", task)
	}
	if o := task.Lineage()["run_limits.max_turns"]; o.Source != LayerCLI || o.Value != int64(4) {
		t.Errorf("lineage: %+v", o)
	}
	if f.Task.Agent.AllowedTools == nil || f.Task.RunLimits.MaxTurns != 7 {
		t.Error("the task of the file was changed")
	}
}

func TestOverridesRefuse(t *testing.T) {
	for text, want := range map[string]string{
		"agent.model":                  "there is no =",
		"=x":                           "no path before",
		"agent=x":                      "whole block",
		"retry.count=1":                "not a block that can be set",
		"agent.modle=x":                "did you mean model?",
		"agent.max_turns=1":            "write run_limits.max_turns",
		"run_limits.max_turns.x=1":     "no keys below",
		"sandbox.docker.image.x=1":     "no keys below",
		"sandbox.docker..image=1":      "empty part",
		"run_limits.max_turns=[1":      "not valid YAML",
		"sandbox.podman.caps.list=[A]": "no keys below",
	} {
		if _, err := ParseOverride(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	f, err := Load(filepath.Join(layersDir(t), "task.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		layers Layers
		want   string
	}{
		{Layers{Overrides: overrides(t, "run_limits.max_turns=0", "run_limits.task_timeout=1")}, "2 problems"},
		{Layers{Overrides: overrides(t, "agent.model=a", "agent.model=b")}, "set twice"},
		{Layers{Overrides: overrides(t, "agent.model=a"), Model: "b"}, "set twice"},
		{Layers{Overrides: overrides(t, "sandbox.docker.build.args.A=a", "sandbox.docker.build.args={}")}, "same block"},
		{Layers{Overrides: overrides(t, "agent.sdk_options.effort=1", "agent.type=codex")}, "is a key of type claude-code only"},
		{Layers{Type: "claude-code", Overrides: overrides(t, "agent.sdk_options.model=m")}, "write agent.model instead"},
		{Layers{Overrides: overrides(t, "sandbox.docker.env_passthrough_extra=x")}, "must be a list"},
		{Layers{Overrides: overrides(t, "agent.system_prompt_file=none")}, "cannot read"},
		{Layers{Overrides: overrides(t, "sandbox.docker.dockerfile_path=none")}, "no Dockerfile there"},
		{Layers{Type: "oracle"}, "sandbox.podman.solution"},
		{Layers{Type: "command"}, "agent.command"},
		{Layers{Type: "command", Overrides: overrides(t, "agent.command=' '")}, "none is set"},
		{Layers{Type: "none"}, "has no reader"},
		{Layers{Driver: "moby"}, "--driver"},
		{Layers{Overrides: overrides(t, "run_limits.stop_early=true")}, ErrEarlyStop.Error()},
	} {
		if _, err := (&Loader{}).Resolve(f, test.layers); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want %q", err, test.want)
		}
	}
}

func TestEarlyStop(t *testing.T) {
	armed := strings.Replace(small, "{type: file_exists, path: a,", "{type: command_executed, stop_early: {},", 1)
	for _, test := range []struct {
		layers      Layers
		extra, want string
	}{
		{Layers{}, "", ""},
		{Layers{Type: "custom"}, "", "must be claude-code"},
		{Layers{}, "simulation: {enabled: true, persona: p, goal: g}\n", "cannot be enabled while"},
		{Layers{}, "simulation: {enabled: true}\n", "persona: is missing"},
		{Layers{}, "run_limits: {stop_early_gate_threshold: 0}\n", "greater than 0"},
		{Layers{}, "run_limits: {stop_early_gate_threshold: 0, stop_early: false}\n", ""},
		{Layers{}, "run_limits: {stop_early: true}\n", "can only be false"},
	} {
		f, err := parse(t, armed+test.extra)
		if err != nil {
			t.Fatal(err)
		}
		_, err = (&Loader{}).Resolve(f, test.layers)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", test.extra, err, test.want)
		}
	}
}

func TestRowsSkipAndAbort(t *testing.T) {
	const task = "description: d\ninitial_prompt: p\nsuccess_criteria: [{type: file_exists, path: a, description: d}]\n"
	dir := unpack(t, "\n-- a.yaml --\ntask_id: a\ntags: [x]\n"+task+
		"\n-- same.yaml --\ntask_id: a\n"+task+
		"\n-- skip.yaml --\ntask_id: s\nskip: true\n"+task+
		"\n-- y.yaml --\ntask_id: y\ntags: [x, y]\n"+task+
		"\n-- bad.yaml --\ntask_id: b\n"+
		"\n-- unresolved.yaml --\ntask_id: u\nrun_limits: {stop_early: false}\nsimulation: {goal: g}\n"+task+
		"\n-- early.yaml --\ntask_id: e\nrun_limits: {stop_early: true}\n"+task+
		"\n-- field.yaml --\ntask_id: f\ndataset: {rows: [{id: 1}]}\n"+strings.Replace(task, "path: a", `path: "${row.none}"`, 1))
	at := func(names ...string) (paths []string) {
		for _, name := range names {
			paths = append(paths, filepath.Join(dir, name+".yaml"))
		}
		return paths
	}
	l := &Loader{}
	for _, test := range []struct {
		names   string
		request Request
		rows    int
		skipped int
		fails   error
		says    string
	}{
		{"a skip y bad", Request{}, 2, 2, nil, ""},
		{"a skip y", Request{IncludeSkipped: true, Repeats: 3}, 9, 0, nil, ""},
		{"a y", Request{Tags: []string{"x", "z"}, ExcludeTags: []string{"y"}}, 1, 0, nil, ""},
		{"a unresolved", Request{}, 1, 1, nil, ""},
		{"unresolved bad", Request{}, 0, 0, nil, "persona: is missing"},
		{"a same", Request{}, 0, 0, nil, "both have the task_id"},
		{"a early", Request{}, 0, 0, ErrEarlyStop, ""},
		{"a field", Request{}, 0, 0, ErrRow, "no field none"},
		{"a", Request{Repeats: 100}, 0, 0, nil, "from 1 to 99"},
	} {
		resolution, err := l.Rows(at(strings.Fields(test.names)...), test.request)
		switch {
		case test.fails != nil && !errors.Is(err, test.fails), !strings.Contains(fmt.Sprint(err), test.says):
			t.Errorf("%s: %v, want %v %s", test.names, err, test.fails, test.says)
		case test.fails != nil || test.says != "":
		case err != nil:
			t.Errorf("%s: %v", test.names, err)
		case len(resolution.Rows) != test.rows || len(resolution.Skipped) != test.skipped:
			t.Errorf("%s: %d rows, %d skipped, want %d and %d", test.names, len(resolution.Rows), len(resolution.Skipped), test.rows, test.skipped)
		}
	}
}

func TestMutationWithRegex(t *testing.T) {
	m := PromptMutation{Type: "replace", Pattern: "a+", Replacement: "b", Regex: true}
	if _, err := (&Loader{}).mutated("aa", []PromptMutation{m}); err == nil {
		t.Error("a pattern was replaced without a library for it")
	}
	l := &Loader{Sub: func(pattern, replacement, text string) (string, error) { return pattern + replacement + text, nil }}
	if got, err := l.mutated("aa", []PromptMutation{m}); err != nil || got != "a+baa" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestRegexHook(t *testing.T) {
	l := &Loader{Regex: func(pattern string, _ int) error {
		switch pattern {
		case "bad":
			return errors.New("unbalanced")
		case "odd":
			return fmt.Errorf("a conditional group: %w", ErrUntranslatable)
		}
		return nil
	}}
	for pattern, want := range map[string]string{"fine": "", "bad": "", "odd": "cannot be run"} {
		text := strings.Replace(small, "type: file_exists", "type: file_matches_regex, pattern: "+pattern, 1)
		f, err := l.parse("x", []byte(text), &source{file: "x", dir: t.TempDir()})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", pattern, err, want)
		}
		if pattern == "bad" && (f == nil || len(f.Warnings) != 1) {
			t.Errorf("no warning about a wrong pattern")
		}
	}
	text := strings.Replace(small, "type: file_exists, path: a", "type: cli_called, flags: {a: {matches_regex: bad}}", 1)
	if _, err := l.parse("x", []byte(text), &source{file: "x", dir: t.TempDir()}); err == nil {
		t.Error("a wrong pattern of a flag loads")
	}
}
