package tasks

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestAgentRules(t *testing.T) {
	for text, want := range map[string]string{
		"{}": "",
		"{type: claude-code, setting_sources: [], claude_settings: {a: {b: 1}}, sdk_options: {effort: high}}": "",
		"{type: claude-code, sdk_options: {efort: high}}":                                                     "agent.sdk_options.efort: is not an option of the SDK (did you mean effort?)",
		"{type: claude-code, sdk_options: {zzzzzzz: 1}}":                                                      "the options are betas, effort",
		"{type: claude-code, sdk_options: {max_turns: 3}}":                                                    "write run_limits.max_turns instead",
		"{type: claude-code, sdk_options: {thinking: {type: adaptive}, hooks: {}}}":                           "agent.sdk_options.hooks: is set by the framework and cannot be changed",
		"{type: claude-code, claude_settings: settings.json, setting_sources: [user, project]}":               "",
		"{type: claude-code, claude_settings: [x]}":                                                           "path, a mapping or null",
		"{type: claude-code, setting_sources: [home]}":                                                        "user, project or local",
		"{type: claude-code, system_prompt_mode: replace}":                                                    "replace needs a system_prompt",
		"{type: claude-code, system_prompt_mode: replace, system_prompt: '  '}":                               "replace needs a system_prompt",
		"{type: claude-code, system_prompt_mode: replace, system_prompt: x}":                                  "",
		"{type: codex, system_prompt: x, system_prompt_file: y}":                                              "cannot stand beside",
		"{type: codex, sdk_options: {}}":                                                                      "key of type claude-code only",
		"{type: antigravity, thinking_level: max}":                                                            "minimal, low, medium or high for antigravity",
		"{type: pi, thinking_level: max}":                                                                     "",
		"{type: opencode, variant: v, pure: false, require_token_telemetry: no}":                              "",
		"{type: delegate, effort: high, enable_computer_use: true}":                                           "",
		"{type: command, command: 'cat > p'}":                                                                 "",
		"{type: command, command: x, prompt: argument}":                                                       "",
		"{type: command, command: x, prompt: letter}":                                                         "stdin, argument or file",
		"{type: command, command: \"a\\0b\"}":                                                                 "NUL byte",
		"{type: codex, command: x}":                                                                           "key of type command only",
		"{type: none, allowed_tools: [x]}":                                                                    "has no reader",
		"{plugins: [{path: p}, {type: remote, path: q}]}":                                                     "must be local",
		"{allowed_tools: null, disallowed_tools: [Web]}":                                                      "",
		"{ignore_patterns: null}":                                                                             "must be a list",
	} {
		f, err := parse(t, small+"agent: "+text+"\n")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if err == nil {
			again(t, f.Task)
		}
	}
	l := &Loader{Kinds: []string{"house"}}
	if _, err := l.parse("x", []byte(small+"agent: {type: house}\n"), &source{file: "x", dir: t.TempDir()}); err != nil {
		t.Errorf("a registered kind: %v", err)
	}
}

func TestExperimentLayers(t *testing.T) {
	dir := unpack(t, "\n-- task.yaml --\n"+small+"checker_context: {api_route: {route: direct, model: task}}\n"+`
-- e.yaml --
experiment_id: e
defaults:
  checker_context: {api_route: {route: litellm, model: defaults, params: {a: 1}}}
  sandbox: {docker: {dockerfile_path: image/Dockerfile}}
variants:
  - variant_id: own
    checker_context: {api_route: {route: bedrock}}
  - variant_id: plain
  - variant_id: wrong
    agent: {type: codex, permission_mode: all}
-- image/Dockerfile --
FROM scratch
`)
	l := &Loader{}
	e, err := l.LoadExperiment(filepath.Join(dir, "e.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := l.Load(filepath.Join(dir, "task.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"bedrock ", "direct task"} {
		task, err := l.Resolve(f, Layers{Experiment: e, Variant: &e.Variants[i]})
		if err != nil {
			t.Fatal(err)
		}
		route := task.CheckerContext.APIRoute
		if got := route.Route + " " + route.Model; got != want || route.Params != nil {
			t.Errorf("variant %d: route %+v, want %s", i, route, want)
		}
		if got := task.Sandbox.Docker.DockerfilePath; got != filepath.Join(dir, "image/Dockerfile") {
			t.Errorf("Dockerfile %s", got)
		}
	}
	_, err = l.Resolve(f, Layers{Experiment: e, Variant: &e.Variants[2]})
	if err == nil || !strings.Contains(err.Error(), "e.yaml:10:43: agent.permission_mode: must be default, acceptEdits") {
		t.Errorf("a wrong mode of the agent of a variant: %v", err)
	}
}

func TestCheckPaths(t *testing.T) {
	dir := unpack(t, "\n-- file --\nx\n-- task.yaml --\n"+strings.Replace(small, "sandbox: {driver: docker}",
		"sandbox: {podman: {solution: none.sh}, template_sources: [{path: file}, {path: .}, {files: [{path: ../x, content: ''}, {path: a/b, content: ''}]}]}\nreference: {directory: file}", 1))
	f, err := Load(filepath.Join(dir, "task.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range f.Task.CheckPaths(f.Dir) {
		if p.Place.Line == 0 {
			t.Errorf("no place: %v", p)
		}
		got = append(got, p.Path)
	}
	want := "sandbox.template_sources[0].path sandbox.template_sources[2].files[0].path reference.directory sandbox.podman.solution"
	if strings.Join(got, " ") != want {
		t.Errorf("%s, want %s", got, want)
	}
}
