package regrade

import (
	"slices"
	"testing"

	"podgrade/tasks"
	"podgrade/tasks/record"
	"podgrade/tasks/record/fixture"
)

func TestEveryFieldHasAFate(t *testing.T) {
	t.Run("D-34: a new field fails until somebody says what becomes of it", func(t *testing.T) {
		for _, field := range record.Fields() {
			if fates[field] == "" {
				t.Errorf("nobody has said what a grade does with %s", field)
			}
		}
		if len(fates) != len(record.Fields()) {
			t.Errorf("%d fates, %d fields", len(fates), len(record.Fields()))
		}
	})
}

// wholeRow is a row in whose record every field that a grade keeps has a value of
// its own, which would be missed.
func wholeRow(t *testing.T) *rowCase {
	t.Helper()
	armed := &tasks.CommandExecuted{Base: base(tasks.TypeCommandExecuted, "nothing was run"), MinCount: 0}
	armed.StopEarly = &tasks.StopEarly{OnPass: "stop"}
	c := newCase(t, fixture.Pinned, func(o *fixture.Order) {
		o.Change = func(task *tasks.Task) {
			task.SuccessCriteria = tasks.Criteria{armed}
			task.PostRun = []tasks.PostRun{{Command: "clean", Timeout: 1}}
		}
	})
	for field, value := range map[string][2]string{
		record.FieldGradingMS:        {"null", "1234567.5"},
		record.FieldErrorMessage:     {"null", `"kept"`},
		record.FieldErrorDetails:     {"null", `{"error_category": "x"}`},
		record.FieldErrorLogTail:     {"null", `"the end of it"`},
		record.FieldAgentConfig:      {"null", `{"type": "codex"}`},
		record.FieldSDKOptions:       {"null", `{"max_turns": 3}`},
		record.FieldSimulation:       {"null", `{"n_trials": 2}`},
		record.FieldExpectedCommands: {"null", "4"},
		record.FieldActualCommands:   {"0", "7"},
		record.FieldAssistantTurns:   {"0", "5"},
		record.FieldTokenUsage:       {"null", `{"uncached_input_tokens": 12, "output_tokens": 3}`},
		record.FieldEfficiency:       {"null", "0.250"},
		record.FieldMaxTurns:         {"false", "true"},
		record.FieldPreRunResults:    {"[]", `[{"command": "a", "exit_code": 0}]`},
		record.FieldPostFailure:      {"[]", `[{"score": 1.0}]`},
		record.FieldEarlyStop:        {"null", `{"reason": "criterion_passed", "gate_threshold": 1.0}, "from_the_future": [1, 2.50]`},
	} {
		c.edit("\n  \""+field+`": `+value[0], "\n  \""+field+`": `+value[1]) // of the record, not of the task in it
	}
	c.edit(`"success_rate": null`, `"success_rate": NaN`)
	before := c.record()
	for field, fate := range fates {
		value := string(before.Get(field))
		if fate != extended && fate != recomputed && slices.Contains([]string{"", "null", "[]", "{}", "0", "false", `""`}, value) {
			t.Fatalf("%s is %s before the grade: nothing would be missed", field, value)
		}
	}
	return c
}

// holds compares what became of each field with its fate; the given ones are the
// operator's now.
func (c *rowCase) holds(operators ...string) {
	c.t.Helper()
	before := c.record()
	c.pass()
	after := c.record()
	for _, field := range append(record.Fields(), "from_the_future") {
		same, fate := string(before.Get(field)) == string(after.Get(field)), fates[field]
		switch {
		case fate == recomputed, fate == merged, fate == extended, slices.Contains(operators, field):
			if same {
				c.t.Errorf("%s is %s and was kept: %s", field, fate, after.Get(field))
			}
		case !same:
			c.t.Errorf("%s is %s and was changed to %s", field, fate, after.Get(field))
		}
	}
}

// TestFatesHold grades a record in which every field has a value of its own,
// and compares what became of each with its fate.
func TestFatesHold(t *testing.T) {
	t.Run("D-34: what was said of each field holds", func(t *testing.T) {
		wholeRow(t).holds()
	})
	t.Run("D-34: it holds on the host", func(t *testing.T) {
		c := wholeRow(t)
		c.options.AllowHost = true
		c.holds()
	})
	t.Run("D-34: a file of the operator's supplies the task alone", func(t *testing.T) {
		c := wholeRow(t)
		c.options.Given = given(t, `task_id: byod_smoke_test
description: of the file
initial_prompt: p
agent: {type: claude-code}
sandbox: {driver: docker}
post_run: [{command: clean}]
success_criteria: [{type: command_executed, min_count: 0, stop_early: {on_pass: stop}, description: d}]
`)
		c.holds(record.FieldTaskConfig, record.FieldDescription)
		if text, _ := c.record().Get(record.FieldDescription).Text(); text != "of the file" {
			t.Errorf("the record says that the task is %q", text)
		}
	})
}
