package record

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"podgrade/tasks"
)

func ptr[T any](v T) *T { return &v }

// executed is an execution with something in every field.
func executed(t *testing.T) Execution {
	t.Helper()
	dir := t.TempDir()
	source := []byte(`task_id: add-footer
description: Add a footer
initial_prompt: Add a footer.
tags: [html]
expected_commands: 2
sandbox: {driver: docker, docker: {image: "localhost/site:1"}}
run_limits: {expected_turns: 4}
success_criteria:
  - {type: file_exists, description: It is there, path: index.html}
`)
	path := filepath.Join(dir, "add-footer.yaml")
	if err := os.WriteFile(path, source, 0o644); err != nil {
		t.Fatal(err)
	}
	file, err := tasks.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	config, err := NewTaskConfig(file.Task, source, "/repo/tasks/add-footer.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// Where the test put the file is no part of what is compared.
	config.Lineage = Raw(strings.ReplaceAll(string(config.Lineage), dir, "/repo/tasks"))
	start := time.Date(2026, 9, 18, 10, 0, 1, 250_000_000, time.Local)
	call := func(n int, tool, status string, ms float64) Command {
		return Command{ToolName: tool, ToolID: "c", Timestamp: TimeOf(start), DurationMS: &ms,
			ResultStatus: &status, ResultSummary: ptr("nine char"), SequenceNumber: n}
	}
	environment := NewObject()
	environment.Set(Version, "0.1.0")
	environment.Set(Image, "localhost/site:1")
	environment.Set(LimitsNotEnforced, "memory")
	return Execution{
		TaskID: "add-footer", Description: "Add a footer", AgentType: "command", Model: "configured",
		Started: start, Completed: start.Add(10500 * time.Millisecond), Duration: 10500 * time.Millisecond,
		Setup: ptr(812 * time.Millisecond), Status: NotGraded, Iterations: 2,
		Turns: []Turn{
			{
				Iteration: 1, UserInput: "Add a footer.", AgentOutput: "Line\u2028one", Timestamp: TimeOf(start),
				Duration: 4, Crashed: true, CrashReason: ptr("exit 137"), AssistantTurnCount: 1,
				Commands:   []Command{call(1, "bash", CallSucceeded, 12.5), call(2, "edit", CallFailed, 40)},
				TokenUsage: &tasks.TokenUsage{UncachedInputTokens: 100, OutputTokens: 20, CacheReadInputTokens: 7, TotalCostUSD: ptr(0.25)},
			},
			{
				Iteration: 1, UserInput: "Add a footer.", AgentOutput: "Done.", Timestamp: TimeOf(start.Add(4 * time.Second)),
				Duration: 5.5, ModelUsed: ptr("m-1"), AssistantTurnCount: 2, NumTurns: ptr(3),
				Commands:   []Command{call(3, "bash", CallSucceeded, 3), call(4, "bash", CallUnknown, 1), call(5, "edit", CallSucceeded, 2)},
				TokenUsage: &tasks.TokenUsage{UncachedInputTokens: 50, OutputTokens: 10, CacheCreationInputTokens: 3},
				Messages: []any{
					&UserMessage{Role: RoleUser, Text: "Add a footer."},
					&AssistantMessage{Role: RoleAssistant, StartedAt: TimeOf(start), CompletedAt: TimeOf(start),
						ContentBlocks: []ContentBlock{{BlockType: "text", Text: ptr("Done.")}}},
				},
				Result: &TurnResult{Subtype: "success", Result: ptr("Done.")},
			},
		},
		ErrorLogTail: "", Environment: environment,
		AgentConfig: Nested(Raw(`{"type":"command","command":"make"}`)),
		SandboxPath: "/r/default/add-footer/00/artifacts/add-footer", TaskConfig: config,
		ExpectedCommands: file.Task.ExpectedCommands,
		PreRun:           []HookResult{{Command: "true", ExitCode: ptr(0), Duration: 0.125}},
	}
}

func TestNewWritesEveryFieldInOrder(t *testing.T) {
	r, err := New(executed(t))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/executed.json", r.Bytes())
	if got, want := strings.Join(r.doc.Names(), " "), strings.Join(Fields(), " "); got != want {
		t.Errorf("fields:\n%s\nwant:\n%s", got, want)
	}
	if r.HasVerdict() || r.Status != NotGraded || r.Score != nil {
		t.Errorf("an execute gave a verdict: %+v", r)
	}
}

func TestWhatWasWrittenReadsBackEqual(t *testing.T) {
	r, err := New(executed(t))
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse(r.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if string(again.Bytes()) != string(r.Bytes()) {
		t.Error("reading and writing changed the record")
	}
	config, err := again.TaskConfig()
	if err != nil {
		t.Fatal(err)
	}
	task, err := tasks.FromRecord(config.Resolved)
	if err != nil {
		t.Fatal(err)
	}
	if task.TaskID != "add-footer" || !config.Lineage.isObject() || config.SourceFile != "/repo/tasks/add-footer.yaml" {
		t.Errorf("read back: %s, %+v", task.TaskID, config.SourceFile)
	}
}

func TestFieldsThatFollowFromTheTurns(t *testing.T) {
	r, err := New(executed(t))
	if err != nil {
		t.Fatal(err)
	}
	usage, _ := r.Get(FieldTokenUsage).Object()
	stats, _ := r.Get(FieldCommandStats).Object()
	for name, got := range map[string][2]string{
		"model":       {string(r.Get(FieldModelUsed)), `"m-1"`},
		"uncached":    {string(usage.Value("uncached_input_tokens")), "150"},
		"input":       {string(usage.Value("input_tokens")), "160"},
		"output":      {string(usage.Value("output_tokens")), "30"},
		"cost":        {string(usage.Value("total_cost_usd")), "0.25"},
		"turns":       {string(r.Get(FieldAssistantTurns)), "3"},
		"commands":    {string(r.Get(FieldActualCommands)), "5"},
		"expected":    {string(r.Get(FieldExpectedCommands)), "2"},
		"efficiency":  {string(r.Get(FieldEfficiency)), "0.4"},
		"successful":  {string(stats.Value("successful_commands")), "3"},
		"rate":        {string(stats.Value("success_rate")), "0.75"},
		"slowest":     {string(Encode(stats.Value("slowest_commands").Length())), "5"},
		"most common": {string(stats.Value("most_common_sequence")), "[\n      \"bash\",\n      \"edit\",\n      \"bash\"\n    ]"},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %s, want %s", name, got[0], got[1])
		}
	}
}

// TestWithoutTurnsNothingIsComputed: zero would say that it was measured.
func TestWithoutTurnsNothingIsComputed(t *testing.T) {
	r, err := New(Execution{TaskID: "x", AgentType: "none", Started: time.Now(), Status: BuildFailed, ExpectedCommands: 3, Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{FieldCommandStats, FieldTokenUsage, FieldAssistantTurns, FieldActualCommands, FieldEfficiency,
		FieldGradingMS, FieldWeightedScore, FieldSetupMS, FieldCompletedAt, FieldSandboxPath, FieldTaskConfig, FieldErrorMessage} {
		if got, there := r.doc.Get(field); !there || !got.IsNull() {
			t.Errorf("%s: %s", field, got)
		}
	}
	if r.VariantID != "default" || string(r.Get(FieldModelUsed)) != `"m"` || string(r.Get(FieldIterations)) != "[]" {
		t.Errorf("%+v", r)
	}
}

func TestAnExecuteGivesNoVerdict(t *testing.T) {
	for _, status := range allStatuses() {
		_, err := New(Execution{TaskID: "x", AgentType: "none", Started: time.Now(), Status: status})
		if allowed := status == NotGraded || status.ExecutionFact(); (err == nil) != allowed {
			t.Errorf("%s: %v", status, err)
		}
	}
	if _, err := New(Execution{AgentType: "none", Started: time.Now(), Status: NotGraded}); err == nil {
		t.Error("a record without a task id was made")
	}
}

func TestTimes(t *testing.T) {
	at := time.Date(2026, 9, 18, 10, 0, 1, 0, time.Local)
	for want, given := range map[Time]time.Time{
		"2026-09-18T10:00:01":        at.Add(999),
		"2026-09-18T10:00:01.250000": at.Add(250 * time.Millisecond),
		"":                           {},
	} {
		got := TimeOf(given)
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if back, ok := got.Time(); ok == (want == "") || ok && !back.Equal(given.Truncate(time.Microsecond)) {
			t.Errorf("%s reads back as %s", got, back)
		}
	}
	if got, ok := Time("2026-03-12T06:00:00Z").Time(); !ok || !got.Equal(time.Date(2026, 3, 12, 6, 0, 0, 0, time.UTC)) {
		t.Errorf("with a zone: %s", got)
	}
}
