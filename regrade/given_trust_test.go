package regrade

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"podgrade/policy"
	"podgrade/tasks"
	"podgrade/tasks/record"
	"podgrade/tasks/record/fixture"
)

const givenText = `task_id: byod_smoke_test
description: given
agent: {type: none}
sandbox: {driver: DRIVER}
success_criteria: [{type: run_command, command: env, description: d}]
`

// given makes the task of a file of the operator's.
func given(t *testing.T, text string) *Given {
	t.Helper()
	name := filepath.Join(t.TempDir(), "task.yaml")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	resolution, err := (&tasks.Loader{}).Rows([]string{name}, tasks.Request{})
	if err != nil || len(resolution.Rows) != 1 {
		t.Fatalf("%v, %+v", err, resolution)
	}
	g, err := Give(resolution.Rows[0].Task, resolution.Rows[0].File)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Nobody is asked about a task file of the operator's, so a record of a stranger
// must not add to what that file asks for: not a credential that it says its
// agent had, nor one of upstream's default list.
func TestARecordAddsNoVariableToAGivenTask(t *testing.T) {
	host := map[string]string{"AWS_SECRET_ACCESS_KEY": "s", "ANTHROPIC_API_KEY": "s", "MINE": "m", "PATH": "/usr/bin:/bin"}
	for _, c := range []struct {
		asks     string
		passed   any
		gets     []string
		withheld string
	}{
		{"docker", "AWS_SECRET_ACCESS_KEY,ANTHROPIC_API_KEY", nil, "AWS_SECRET_ACCESS_KEY,ANTHROPIC_API_KEY"},
		{"docker", nil, nil, "ANTHROPIC_API_KEY"},
		{"docker, docker: {env_passthrough_extra: [MINE]}", "AWS_SECRET_ACCESS_KEY,MINE", []string{"MINE"}, "AWS_SECRET_ACCESS_KEY"},
		{"docker, docker: {env_passthrough: [ANTHROPIC_API_KEY, MINE]}", "", []string{"ANTHROPIC_API_KEY", "MINE"}, ""},
	} {
		r := newCase(t, fixture.Pinned, func(o *fixture.Order) {
			if c.passed != nil {
				o.Environment = map[string]any{record.Variables: c.passed}
			}
		})
		r.options.Answer, r.options.Given = policy.Answer{}, given(t, strings.Replace(givenText, "DRIVER", c.asks, 1))
		r.host = host
		if _, err := r.grade(); err != nil {
			t.Fatal(err)
		}
		env := r.fake.cells[0].env()
		for _, name := range []string{"AWS_SECRET_ACCESS_KEY", "ANTHROPIC_API_KEY", "MINE"} {
			if _, has := env[name]; has != slices.Contains(c.gets, name) {
				t.Errorf("%s, and the record says %v: %s is there: %v", c.asks, c.passed, name, has)
			}
		}
		if got := r.record().Environment.Text(record.GradedWithoutVariables); got != c.withheld {
			t.Errorf("%s, and the record says %v: stamped %q, want %q", c.asks, c.passed, got, c.withheld)
		}
	}
}

// The directories of a record's PATH come first where commands run on this host,
// so they are the operator's to accept, whoever wrote the task.
func TestARecordsPathIsNotSearchedForAGivenTask(t *testing.T) {
	theirs := t.TempDir()
	for _, accepts := range []bool{false, true} {
		r := newCase(t, fixture.Pinned, func(o *fixture.Order) {
			o.Environment = map[string]any{record.CommandBasePath: theirs + ":/usr/bin"}
		})
		r.options.AllowHost = true
		r.options.Answer, r.options.Given = policy.Answer{RecordedCommands: accepts}, given(t, strings.Replace(givenText, "DRIVER", "docker", 1))
		if _, err := r.grade(); err != nil {
			t.Fatal(err)
		}
		if path := r.fake.cells[0].env()["PATH"]; strings.Contains(path, theirs) != accepts {
			t.Errorf("accepted: %v, PATH=%s", accepts, path)
		}
	}
}

// Which criteria gate a row that was stopped early, and how strictly, is for the
// operator's file to say: a record that lowers the bar would make its own success.
func TestARecordDoesNotLowerTheBarOfAGivenTask(t *testing.T) {
	const armed = `task_id: byod_smoke_test
description: given
agent: {type: claude-code}
initial_prompt: prompt
sandbox: {driver: docker, docker: {image: "byod-custom-image:0.1.0"}}
run_limits: {max_turns: 9LIMIT}
success_criteria:
  - {type: command_executed, tool_name: Bash, min_count: 0, description: never fails, stop_early: {}}
  - {type: command_executed, tool_name: NoSuchTool, description: never passes, stop_early: {}}
`
	for limit, want := range map[string]record.Status{"": record.Failure, ", stop_early_gate_threshold: 0.5": record.Success} {
		r := newCase(t, fixture.Pinned, nil)
		r.edit(`"early_stop": null`, `"early_stop": {"reason": "criterion_passed", "gate_threshold": 0.001}`)
		r.options.Given = given(t, strings.Replace(armed, "LIMIT", limit, 1))
		verdict, err := r.grade()
		if err != nil || verdict.Status != want {
			t.Errorf("%q: %+v, %v", limit, verdict, err)
		}
	}
}
