package tasks

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func TestFromRecord(t *testing.T) {
	task, err := FromRecord([]byte(`{
  "task_id": "a/b", "description": "d", "initial_prompt": "p \ud83d\ude00", "newer_key": 1,
  "agent": {"type": "codex", "later": null},
  "sandbox": {"driver": "docker", "docker": {"image": "i:1", "network": "none", "flavour": 1}},
  "run_limits": null,
  "success_criteria": [
    {"type": "run_command", "description": "c", "command": "true", "weight": 2, "suite_thresholds": null, "hint": {}},
    {"type": "json_check", "description": "j", "path": "x", "assertions": [{"expression": "a", "expected": 12345678901234567890123}]}
  ]}`))
	if err != nil {
		t.Fatal(err)
	}
	if task.InitialPrompt != "p \U0001F600" || task.Agent.Type != Codex || task.RunLimits.StopEarlyGateThreshold != 1 {
		t.Errorf("wrong task: %+v", task)
	}
	if got := len(task.Warnings()); got != 4 {
		t.Errorf("%d warnings, want 4: %v", got, task.Warnings())
	}
	if network, written := task.Network(); network != NetworkNone || !written {
		t.Errorf("network %s, written %v", network, written)
	}
	command := task.SuccessCriteria[0].(*RunCommand)
	if command.Weight != 2 || command.PassThreshold != 0.9 || command.Timeout != 30 {
		t.Errorf("wrong criterion: %+v", command)
	}
	again(t, task)
}

// again checks that a task survives its own record.
func again(t *testing.T, task *Task) {
	t.Helper()
	first, err := json.Marshal(task)
	if err != nil {
		t.Fatal(err)
	}
	back, err := FromRecord(first)
	if err != nil {
		t.Fatalf("own record: %v\n%s", err, first)
	}
	second, err := json.Marshal(back)
	if err != nil {
		t.Fatal(err)
	}
	if string(first) != string(second) {
		t.Errorf("record changed:\n%s\n%s", first, second)
	}
	for _, warning := range back.Warnings() {
		if !slices.ContainsFunc(task.Warnings(), func(w Problem) bool { return w.Path == warning.Path && w.Text == warning.Text }) {
			t.Errorf("own record has a warning of its own: %v", warning)
		}
	}
}

func TestFromRecordRefuses(t *testing.T) {
	tests := map[string]struct{ record, want string }{
		"not json":   {`{`, "ends too early"},
		"two values": {`{} {}`, "follows"},
		"a list":     {`[]`, "must be a mapping"},
		"too deep":   {strings.Repeat("[", 10000), "deep"},
		"no task":    {`{}`, "task_id"},
		"escaping": {`{"task_id":"../x","description":"","initial_prompt":"","success_criteria":[{"type":"file_exists","path":"a","description":""}]}`,
			"inside of the run directory"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := FromRecord([]byte(test.record))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
