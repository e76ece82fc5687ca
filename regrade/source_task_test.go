package regrade

import (
	"strings"
	"testing"

	"podgrade/policy"
	"podgrade/tasks"
	"podgrade/tasks/record"
	"podgrade/tasks/record/fixture"
)

// A record whose resolved task is not valid any more is graded by the text of its
// task file, under the same consent, and says so loudly (spec/regrade.md 1.9).
func TestARecordFallsBackToTheTextOfItsTaskFile(t *testing.T) {
	invalid := func(t *testing.T) *rowCase {
		c := newCase(t, fixture.Pinned, nil)
		c.edit(`"driver": "docker"`, `"driver": "of a later version"`)
		return c
	}
	c := invalid(t)
	verdict := c.pass()
	if verdict.Status != record.Success || len(verdict.Results) != 1 {
		t.Errorf("%+v", verdict)
	}
	if said := c.notice.String(); !strings.Contains(said, "graded by the recorded text of its task file") || !strings.Contains(said, "layers of the run") {
		t.Errorf("it says\n%s", said)
	}
	if text := c.file(record.TaskFile); !strings.Contains(text, "of a later version") {
		t.Error("the record holds another task now")
	}

	c = invalid(t)
	c.options.Answer = policy.Answer{}
	c.refused(Refused, "test -f /opt/byod_marker", false)

	for name, edit := range map[string]struct{ old, new, text string }{
		"of another task":        {"task_id: byod_smoke_test", "task_id: other", `of the task "other"`},
		"of a dataset":           {"initial_prompt: |", `dataset: {path: rows.jsonl}\ninitial_prompt: |`, "dataset"},
		"no task":                {"success_criteria:", "success_criteriaa:", "success_criteria"},
		"no YAML":                {"task_id: byod_smoke_test", `task_id: [`, "source_yaml"},
		"with an invalid driver": {"driver: docker", "driver: vm", "driver"},
	} {
		t.Run(name, func(t *testing.T) {
			c := invalid(t)
			c.edit(edit.old, edit.new)
			c.refused(Refused, edit.text, false)
			c.refused(Refused, "and the recorded text of its task file cannot take its place: ", false)
		})
	}
	t.Run("no text", func(t *testing.T) {
		c := newCase(t, fixture.Pinned, func(o *fixture.Order) {
			o.Change = func(task *tasks.Task) { task.Sandbox.Driver = "vm" }
		})
		c.edit(`"source_yaml": "`, `"source_yaml_of_old": "`)
		c.refused(Refused, "driver", false)
	})
}
