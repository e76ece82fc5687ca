package tasks

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// unpack writes files to a new directory. Each begins with a line
// "-- NAME --".
func unpack(t *testing.T, archive string) string {
	t.Helper()
	dir := t.TempDir()
	for _, part := range strings.Split(archive, "\n-- ")[1:] {
		name, data, _ := strings.Cut(part, " --\n")
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestProblems loads each file of testdata/problems and compares all messages
// with its golden file.
func TestProblems(t *testing.T) {
	files, err := filepath.Glob("testdata/problems/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			var text string
			if strings.HasPrefix(filepath.Base(file), "experiment") {
				_, err = (&Loader{}).LoadExperiment(file)
			} else {
				_, err = (&Loader{Env: func(string) (string, bool) { return "", false }}).Load(file)
			}
			if err == nil {
				t.Fatal("the file loads")
			}
			text = strings.ReplaceAll(err.Error(), here, "HERE") + "\n"
			golden(t, strings.TrimSuffix(file, ".yaml")+".golden", []byte(text))
		})
	}
}

// parse loads a text as a task file of a directory.
func parse(t *testing.T, text string) (*File, error) {
	t.Helper()
	return (&Loader{}).parse("task.yaml", []byte(text), &source{file: "task.yaml", dir: t.TempDir(), layer: LayerTask})
}

// criterion loads a task with one criterion.
func criterion(t *testing.T, text string) (Criterion, error) {
	t.Helper()
	f, err := parse(t, "task_id: t\ndescription: d\ninitial_prompt: p\nreference: {directory: r}\ndataset: {rows: [{id: a}]}\nsuccess_criteria:\n  - {description: d, "+text+"}\n")
	if err != nil {
		return nil, err
	}
	return f.Task.SuccessCriteria[0], nil
}

func TestCriteria(t *testing.T) {
	tests := []struct{ text, want string }{
		{"type: file_exists, path: a", ""},
		{"file_exists: a", "type: is missing; write type: file_exists"},
		{"type: file_contains, path: a, includes: b", "must be a list, got \"b\"; put it in square brackets"},
		{"type: file_check, path: a, patterns: [x]", "must be a mapping with pattern, got \"x\""},
		{"type: json_check, path: a, assertions: [{expression: a, operator: type_is, expected: array}]", "did you mean type?"},
		{"type: file_exists", "path: is missing"},
		{"type: file_exists, path: a, weight: -1", "at least 0"},
		{"type: file_exists, path: a, weight: .inf", "finite"},
		{"type: file_exists, path: a, weight: 0, suite_thresholds: {mean: 1}", "weight above 0"},
		{"type: file_exists, path: a, pass_threshold: 2", "from 0 to 1"},
		{"type: file_exists, path: a, stop_early: {}", "is a key of type command_executed or skill_triggered only"},
		{"type: file_exists, path: a, stop_when: x", "stop_early block"},
		{"type: file_contains, path: a", "includes: is missing"},
		{"type: file_contains, path: a, includes: [], excludes: null", ""},
		{"type: file_contains, path: a, includes: [on]", "must be a string"},
		{"type: json_check, path: a, assertions: [{expression: x}]", "expected: is missing"},
		{"type: json_check, path: a, assertions: [{expression: x, expected: null}]", ""},
		{"type: json_check, path: a, assertions: [{expression: x, operator: exists}]", ""},
		{"type: json_check, path: a, assertions: [{expression: x, operator: contains, expected: ' short '}]", "at least 8 characters"},
		{"type: json_check, path: a, assertions: [{expression: x, operator: equal, expected: 1}]", "did you mean equals?"},
		{"type: run_command, command: c, score_from_stdout: true, expected_stdout: ''", "cannot stand beside score_from_stdout"},
		{"type: run_command, command: c, timeout: -5, expected_exit_code: '3'", ""},
		{"type: command_executed, max_count: 0", "needs min_count: 0"},
		{"type: command_executed, min_count: 3, max_count: 2", "must not be below"},
		{"type: command_executed, stop_early: {on_pass: halt}", "must be continue or stop"},
		{"type: command_executed, weight: 0, stop_early: {}", "weight above 0"},
		{"type: commands_efficiency, expected_commands: 0", "at least 1"},
		{"type: classification_match, path: a, expected_label: x, allowed_labels: []", "must not be empty"},
		{"type: reference_comparison, agent_file: a, reference_file: ../b", "inside of the reference"},
		{"type: reference_comparison, agent_file: a, reference_file: b, comparison_method: tree", "ast, token or complexity"},
		{"type: llm_judge, prompt: p, verdict_channel: x", "delete the key"},
		{"type: llm_judge, prompt: p, temperature: 3", "from 0 to 2"},
		{"type: agent_judge, prompt: p, turn_timeout: 5", "at least 10"},
		{"type: agent_judge, prompt: p, agent: {type: claud}", "must be claude-code"},
		{"type: system_one_judge, questions: {}", "must not be empty"},
		{"type: system_one_judge, questions: {a: {type: choice, instructions: i, criteria: [x]}}", "exactly one of expected and values"},
		{"type: system_one_judge, questions: {a: {type: score, instructions: i, criteria: [x]}}", "2 to 10 steps"},
		{"type: system_one_judge, questions: {a: {type: noul, instructions: i, criteria: [x]}}", "is a key of type choice or score only"},
		{"type: system_one_judge, questions: {a: {type: noul, instructions: i}}", ""},
		{"type: uipath_eval, agent_name: a, eval_set: e, thresholds: {x: 1}", ""},
		{"type: code_lints, path: a", "use run_command"},
		{"type: file_exist, path: a", "did you mean file_exists?"},
		{"path: a", "type: is missing"},
		{"type: cli_called", "matches every call"},
		{"type: cli_called, verb: a b, verb_any_of: [c]", "cannot stand beside verb"},
		{"type: cli_called, verb_any_of: []", "must not be empty"},
		{"type: cli_called, verb: ' '", "must not be blank"},
		{"type: cli_called, verb: a --b", "looks like a flag"},
		{"type: cli_called, verb: a -1.5", ""},
		{"type: cli_called, verb_any_of: [a b, a]", "is covered by"},
		{"type: cli_called, positional: []", "must not be empty"},
		{"type: cli_called, tool: t, min_count: 0", "is always true"},
		{"type: cli_called, flags: {a: b, c: {equals: x, aliases: [a]}}", "already named by"},
		{"type: cli_called, flags: {output: x}", "is ignored by ignore_flags"},
		{"type: cli_called, flags: {a: {equals: x, contains: y}}", "exactly one of"},
		{"type: cli_called, flags: {a: {any_of: []}}", "must not be empty"},
		{"type: cli_called, flags: {a: {present: false}}", "can only be true"},
		{"type: cli_called, flags: {a: 14}", "must be a string or a mapping"},
		{"type: cli_called, flags: {a: b}, ignore_flags: []", ""},
	}
	for _, test := range tests {
		_, err := criterion(t, test.text)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", test.text, err, test.want)
		}
	}
}

// TestPathsThatLeadOut warn where the file is read, and not in a record.
func TestPathsThatLeadOut(t *testing.T) {
	for text, warnings := range map[string]int{
		"path: a/../b": 0, "path: ../b": 1, "path: /etc/passwd": 1, "path: ''": 0, "path: a, json_schema: ../s.json": 1,
	} {
		f, err := parse(t, small+"agent: {type: codex}\nsuccess_criteria: [{type: json_check, description: d, "+text+"}]\n")
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, w := range f.Warnings {
			if strings.Contains(w.Text, "leads out of the workspace") && w.Place.Line > 0 {
				found++
			}
		}
		if found != warnings {
			t.Errorf("%s: %v, want %d", text, f.Warnings, warnings)
		}
		record, err := f.Task.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if back, err := FromRecord(record); err != nil || len(back.Warnings()) > 0 {
			t.Errorf("%s: %v of the record", text, err)
		}
	}
}

func TestCriterionDefaults(t *testing.T) {
	c, err := criterion(t, "type: command_not_executed, min_count: 5, max_count: 9")
	if err != nil {
		t.Fatal(err)
	}
	if ran := c.(*CommandExecuted); ran.Type != TypeCommandExecuted || ran.MinCount != 0 || *ran.MaxCount != 0 {
		t.Errorf("alias: %+v", ran)
	}
	c, err = criterion(t, "type: reference_comparison, agent_file: a, reference_file: b, similarity_threshold: 0.5, pass_threshold: 0.1")
	if err != nil || c.Common().PassThreshold != 0.5 {
		t.Errorf("pass_threshold %v, %v", c, err)
	}
	c, err = criterion(t, "type: agent_judge, prompt: p")
	if err != nil {
		t.Fatal(err)
	}
	if judge := c.(*AgentJudge); judge.PassThreshold != 0.7 || judge.Agent.PermissionMode != "bypassPermissions" || !judge.Enabled || len(judge.Agent.AllowedTools) != 4 {
		t.Errorf("judge: %+v", judge)
	}
	c, err = criterion(t, "type: cli_called, verb: x")
	if called, ok := c.(*CLICalled); err != nil || !ok || called.Log != "cli_mocks/calls.jsonl" || called.IgnoreFlags[0] != "output" || called.ValueFlags[0] != "output" {
		t.Errorf("cli_called: %+v, %v", c, err)
	}
}

func TestTaskRules(t *testing.T) {
	head := "task_id: t\ndescription: d\n"
	file := "success_criteria: [{type: file_exists, path: a, description: d}]\n"
	prompt := "initial_prompt: p\n"
	tests := []struct{ name, text, want string }{
		{"no prompt", head + file, "initial_prompt: is missing"},
		{"no prompt, no agent", head + file + "agent: {type: none}\n", ""},
		{"no prompt, simulation", head + file + "simulation: {enabled: true}\n", ""},
		{"two prompts", head + file + prompt + "initial_prompt_file: x\n", "cannot stand beside"},
		{"prompt for nobody", head + file + prompt + "agent: {type: none}\n", "has no reader"},
		{"judging nobody", head + "agent: {type: none}\nsuccess_criteria: [{type: command_executed, description: d}]\n", "judges an agent"},
		{"no criteria", head + prompt + "success_criteria: []\n", "must not be empty"},
		{"criteria missing", head + prompt, "success_criteria: is missing"},
		{"reference by shell", head + prompt + "success_criteria: [{type: run_command, description: d, command: 'cat ${REFERENCE_DIR}/x'}]\n", "has no reference"},
		{"another variable", head + prompt + "success_criteria: [{type: run_command, description: d, command: 'cat $REFERENCE_DIRECTORY'}]\n", ""},
		{"judge without reference", head + prompt + "success_criteria: [{type: llm_judge, description: d, prompt: p, files: ['$REFERENCE_DIR/x']}]\n", "has no reference"},
		{"judge of a file named so", head + prompt + "success_criteria: [{type: llm_judge, description: d, prompt: p, files: ['$REFERENCE_DIRS/x']}]\n", ""},
		{"suite without dataset", head + prompt + "success_criteria: [{type: file_exists, path: a, description: d, suite_thresholds: {mean: 1}}]\n", "needs a dataset"},
		{"suite with suite_id", head + prompt + "suite_id: s\nsuccess_criteria: [{type: file_exists, path: a, description: d, suite_thresholds: {mean: 1}}]\n", ""},
		{"tag on", head + prompt + file + "tags: [on]\n", "must be a string"},
		{"tag form", head + prompt + file + "tags: [a:b:c]\n", "at most one colon"},
		{"dataset of nothing", head + prompt + file + "dataset: {id_field: x}\n", "has no rows"},
		{"dataset twice", head + prompt + file + "dataset: {rows: [{id: a}], paths: [x]}\n", "cannot stand beside rows"},
		{"mistyped key warns", head + prompt + file + "sucess: 1\n", ""},
		{"max_turns under agent", head + prompt + file + "agent: {type: codex, max_turns: 3}\n", "write run_limits.max_turns"},
		{"typeless key", head + prompt + file + "agent: {thinking_level: low}\n", "this block has no type"},
		{"by_type in a task", head + prompt + file + "agent: {by_type: {}}\n", "only a key of the defaults"},
		{"newer limits", head + prompt + file + "run_limits: {max_tool_calls: 3, expected_tool_calls: 2}\n", ""},
		{"reference code", head + prompt + file + "reference: {code: x}\n", "write directory"},
		{"pre_run timeout", head + prompt + file + "pre_run: [{command: c, timeout: 301}]\n", "from 1 to 300"},
		{"post_run fail_on_error", head + prompt + file + "post_run: [{command: c, fail_on_error: true}]\n", "not a key here"},
		{"route", head + prompt + file + "checker_context: {api_route: {route: direct, params: {a: 1}}}\n", "litellm only"},
		{"route without model", head + prompt + file + "checker_context: {api_route: {route: litellm}}\n", "needs a model"},
		{"two documents", head + prompt + file + "---\na: 1\n", "second document"},
		{"a value", "just text", "must be a mapping"},
		{"empty", "", "task_id: is missing"},
		{"alias of itself", "a: &a [*a]", "alias"},
		{"python tag", "a: !!python/name:os.system x", "tag"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f, err := parse(t, test.text)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%v, want %q", err, test.want)
			}
			if err == nil && f.Task.Simulation == nil {
				again(t, f.Task)
			}
		})
	}
}

func TestSandboxRules(t *testing.T) {
	tests := []struct{ text, want string }{
		{"driver: podman", ""},
		{"driver: dcoker", "did you mean docker?"},
		{"docker: {working_dir: rel}", "absolute path or auto"},
		{"docker: {working_dir: /work/x}", "taken"},
		{"docker: {working_dir: /root/../work}", "taken"},
		{"docker: {working_dir: auto}", ""},
		{"docker: {network: llm_only, egress_allowlist: [a.example, 'b.example:443']}", ""},
		{"docker: {egress_allowlist: ['*.example']}", "without wildcard"},
		{"docker: {egress_allowlist: ['a:70000']}", "host:port"},
		{"docker: {extra_mounts: ['/a:/b:ro']}", ""},
		{"docker: {extra_mounts: ['/a']}", "SOURCE:DESTINATION"},
		{"docker: {extra_mounts: ['/a:/work/x']}", "taken"},
		{"docker: {imge: x}", "did you mean image?"},
		{"docker: {agent_isolation: true}", "not a key here"},
		{"python: null, node: {env_packages: [x]}", ""},
		{"limits: {max_cpus: 0}", "greater than 0"},
		{"ignore_patterns: ['!']", "must be a pattern"},
		{"additional_ignore_patterns: [a], ignore_patterns: [b]", "second spelling"},
		{"template_dir: x", "write template_sources"},
		{"template_sources: [{path: x, unknown: 1}, {files: [{path: a, content: b, mode: 1}]}]", ""},
		{"template_sources: [{path: x}, {url: u}]", "must be the first entry"},
		{"template_sources: [{path: x, mount_point: /a}]", "inside of the workspace"},
		{"template_sources: [{path: x, mount_point: 'a\\..\\..'}]", "inside of the workspace"},
		{"template_sources: [{type: starter_files}]", "files: is missing"},
		{"template_sources: [{type: zip}]", "template_dir, starter_files or repo"},
		{"record_cli: [{tool: Bash.EXE}]", "reserved"},
		{"record_cli: [{tool: a/b}]", "plain command name"},
		{"record_cli: [{tool: a, exit_code: 256}]", "from 0 to 255"},
		{"record_cli: [{tool: a}, {tool: a}]", "a second time"},
		{"record_cli: [{tool: a, responses: [{when: {verb: x}}, {when: {verb: x y}}]}]", "is never reached"},
		{"record_cli: [{tool: a, responses: [{when: {verb: x y}}, {when: {verb: x}}]}]", ""},
		{"record_cli: [{tool: a, responses: [{when: {}}]}]", "matches every call"},
		{"record_cli: [{tool: a, responses: [{}]}]", "when: is missing"},
		{"podman: {user: 1000, caps: [chown, CAP_KILL], egress: [a.example]}", ""},
		{"podman: {user: 'a b'}", "USER or USER:GROUP"},
		{"podman: {caps: all}", "default, none or a list"},
		{"podman: {caps: [CHWON]}", "did you mean CHOWN?"},
		{"podman: {network: bridge}", "none, llm_only or egress"},
		{"podman: {network: egress, egress: [a]}", "reaches every host"},
		{"podman: {grade: alive}", "did you mean live?"},
		{"podman: {state: drop}", "auto, none, pre_run, final, both or keep"},
		{"podman: {solution: ../x}", "inside of the task directory"},
		{"podman: {timeouts: {start: 0}}", "at least 1"},
		{"podman: {working_dir: /}", "taken"},
		{"podman: null", ""},
	}
	for _, test := range tests {
		f, err := parse(t, strings.Replace(small, "sandbox: {driver: docker}", "sandbox: {"+test.text+"}", 1))
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", test.text, err, test.want)
		}
		if err == nil {
			again(t, f.Task)
		}
	}
}

func TestEffectiveSandbox(t *testing.T) {
	tests := []struct{ text, want string }{
		{"driver: docker", "bridge false default []"},
		{"driver: docker, docker: {network: bridge}", "bridge true default []"},
		{"driver: podman", "none false none []"},
		{"driver: podman, docker: {network: llm_only, egress_allowlist: [b]}, podman: {egress: [a, b]}", "llm_only true none [a b]"},
		{"driver: docker, podman: {network: egress, caps: none}", "egress true none []"},
		{"driver: podman, podman: {caps: [kill, chown, CAP_KILL]}", "none false list []"},
	}
	for _, test := range tests {
		f, err := parse(t, strings.Replace(small, "sandbox: {driver: docker}", "sandbox: {"+test.text+"}", 1))
		if err != nil {
			t.Fatal(err)
		}
		task, err := (&Loader{}).Resolve(f, Layers{})
		if err != nil {
			t.Fatal(err)
		}
		network, written := task.Network()
		if got := fmt.Sprint(network, " ", written, " ", task.Sandbox.Capabilities().Mode, " ", task.Sandbox.Hosts()); strings.Join(strings.Fields(got), " ") != test.want {
			t.Errorf("%s: %s, want %s", test.text, got, test.want)
		}
	}
	f, err := parse(t, strings.Replace(small, "sandbox: {driver: docker}", "sandbox: {podman: {caps: [kill, chown, CAP_KILL], working_dir: /app}, docker: {env_passthrough: [A, B], env_passthrough_extra: [B, C], working_dir: /b}}", 1))
	if err != nil {
		t.Fatal(err)
	}
	s := &f.Task.Sandbox
	if got := s.Capabilities().List; !slices.Equal(got, []string{"CAP_CHOWN", "CAP_KILL"}) {
		t.Errorf("capabilities %v", got)
	}
	if got := s.Docker.Passthrough(); !slices.Equal(got, []string{"A", "B", "C"}) || s.WorkingDir() != "/app" {
		t.Errorf("variables %v, working dir %s", got, s.WorkingDir())
	}
}

func TestLoadFiles(t *testing.T) {
	dir := unpack(t, `
-- task.yaml --
task_id: t
description: d
initial_prompt_file: sub/prompt.md
agent: {type: claude-code, system_prompt_file: sub/system.md, system_prompt_mode: replace}
sandbox:
  docker: {dockerfile_path: $IMAGE/Dockerfile}
  template_sources: [{path: "${SUB}/tree"}]
success_criteria: [{type: file_exists, path: a, description: d}]
-- sub/prompt.md --

  do it  

-- sub/system.md --
be good
-- image/Dockerfile --
FROM scratch
`)
	l := &Loader{Env: func(name string) (string, bool) {
		value, ok := map[string]string{"IMAGE": "image", "SUB": "sub"}[name]
		return value, ok
	}}
	f, err := l.Load(filepath.Join(dir, "task.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	task := f.Task
	if task.InitialPrompt != "do it" || task.InitialPromptFile != "" || task.Agent.SystemPrompt != "be good" || task.Agent.SystemPromptFile != "" {
		t.Errorf("prompts: %q %q %+v", task.InitialPrompt, task.InitialPromptFile, task.Agent)
	}
	if task.Sandbox.Docker.DockerfilePath != filepath.Join(dir, "image/Dockerfile") || task.Sandbox.TemplateSources[0].Path != filepath.Join(dir, "sub/tree") {
		t.Errorf("paths: %+v", task.Sandbox)
	}
	if problems := task.CheckPaths(dir); len(problems) != 1 || problems[0].Path != "sandbox.template_sources[0].path" {
		t.Errorf("CheckPaths: %v", problems)
	}
	if err := os.WriteFile(filepath.Join(dir, "sub/system.md"), []byte(" \n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Load(filepath.Join(dir, "task.yaml")); err == nil || !strings.Contains(err.Error(), "replace needs") {
		t.Errorf("blank system prompt: %v", err)
	}
}

func TestLoadRefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	for path, want := range map[string]string{
		filepath.Join(dir, "none.yaml"): "no such file",
		dir:                             "is a directory; name its files",
		"/dev/null":                     "not a regular file",
	} {
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

// TestBombs checks that a small file cannot make us hold much.
func TestBombs(t *testing.T) {
	var laughs strings.Builder
	laughs.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 12; i++ {
		fmt.Fprintf(&laughs, "a%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n", i, i, i-1, i-1, i-1, i-1, i-1, i-1, i-1, i-1)
	}
	var merges strings.Builder
	merges.WriteString("m0: &m0 {")
	for i := range 2000 {
		fmt.Fprintf(&merges, "k%d: 1, ", i)
	}
	merges.WriteString("}\n")
	for i := range 2000 {
		fmt.Fprintf(&merges, "n%d: {<<: [*m0, *m0]}\n", i)
	}
	for name, text := range map[string]string{
		"aliases": laughs.String(),
		"merges":  merges.String(),
		"depth":   strings.Repeat("[", 9000) + strings.Repeat("]", 9000),
		"commas":  "[" + strings.Repeat("a,", 1<<20) + "]",
		"size":    strings.Repeat("#", maxYAMLBytes+1),
		"utf8":    "a: \xff",
		"digits":  "a: " + strings.Repeat("9", 5000),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parse(t, text); err == nil {
				t.Error("it loads")
			} else if len(err.Error()) > 20000 {
				t.Errorf("the message has %d bytes", len(err.Error()))
			}
		})
	}
}

func TestPluginDir(t *testing.T) {
	dir := unpack(t, "\n-- p/x --\n")
	l := &Loader{Env: func(name string) (string, bool) {
		return map[string]string{"HOME": dir, "P": "p"}[name], name == "HOME" || name == "P"
	}}
	for path, want := range map[string]bool{"p": true, "$P": true, "~/p": true, "~": true, "~x": false, "p/x": false, "$Q": false} {
		if got, ok := l.PluginDir(Plugin{Path: path}, dir); ok != want || !filepath.IsAbs(got) {
			t.Errorf("%s: %s, %v, want %v", path, got, ok, want)
		}
	}
}
