package tasks

// Task is one task, complete: defaults filled in and every rule of
// task-file 2 checked. After Resolve or FromRecord it is the resolved task.
type Task struct {
	// TaskID names the task and, with variant and replicate, its row directory.
	// After dataset expansion it is "<task>/<row>".
	TaskID      string `json:"task_id" task:"required"`
	Description string `json:"description" task:"required"`
	// InitialPrompt is the prompt of the agent; InitialPromptFile is read into
	// it when the file is loaded and is then empty.
	InitialPrompt     string   `json:"initial_prompt" task:"null"`
	InitialPromptFile string   `json:"initial_prompt_file" task:"null"`
	Tags              []string `json:"tags"`
	Skip              bool     `json:"skip"`
	Agent             *Agent   `json:"agent"`
	Sandbox           Sandbox  `json:"sandbox"`
	// SuccessCriteria is never empty.
	SuccessCriteria  Criteria   `json:"success_criteria" task:"required,min=1"`
	RunLimits        RunLimits  `json:"run_limits" task:"null"`
	Reference        *Reference `json:"reference"`
	ExpectedCommands int        `json:"expected_commands" task:"null,min=1"`
	// PreRun runs after the workspace is set up and before the agent; PostRun
	// belongs to the grading phase and never changes a verdict (task-file 2.2).
	PreRun         []PreRun        `json:"pre_run" task:"append"`
	PostRun        []PostRun       `json:"post_run" task:"append"`
	Dataset        *Dataset        `json:"dataset"`
	Simulation     *Simulation     `json:"simulation"`
	CheckerContext *CheckerContext `json:"checker_context"`
	// SuiteID and RowID are written by dataset expansion: the id of the task
	// before expansion, and the id of the dataset row.
	SuiteID string `json:"suite_id" task:"null"`
	RowID   string `json:"row_id" task:"null"`

	root     *node // what the task was read from, for the places of messages
	written  map[string]Origin
	warnings []Problem
}

// Warnings are what is odd about the task but not wrong: unknown keys at the
// top, limits that cannot both be reached, and the like.
func (t *Task) Warnings() []Problem { return t.warnings }

// PreRun is one command of pre_run.
type PreRun struct {
	Command     string `json:"command" task:"required"`
	Timeout     int    `json:"timeout" task:"default=30,min=1,max=300"` // seconds
	FailOnError bool   `json:"fail_on_error" task:"default=true"`
}

// PostRun is one command of post_run.
type PostRun struct {
	Command string `json:"command" task:"required"`
	Timeout int    `json:"timeout" task:"default=30,min=1,max=300"` // seconds
}

// Reference names the directory with the reference solution, relative to the
// task directory. The agent never sees it (task-file 2.1).
type Reference struct {
	Directory string `json:"directory" task:"required,nonblank"`
}

// Dataset makes one row task of each of its rows (task-file 4).
type Dataset struct {
	// Rows are the inline rows; exactly one of Rows and Paths is written.
	Rows []map[string]any `json:"rows" task:"null"`
	// Paths are JSONL files, relative to the task directory.
	Paths   []string `json:"paths" task:"null,min=1"`
	IDField string   `json:"id_field" task:"default=id"`
	// SamplePerStratum is the largest number of rows of one stratum; 0: all.
	SamplePerStratum int    `json:"sample_per_stratum" task:"null,min=1"`
	StratifyField    string `json:"stratify_field" task:"default=expected_skill"`
	SplitField       string `json:"split_field" task:"default=split"`
	SampleSeed       *int   `json:"sample_seed"` // nil: another draw each time
}

// RunLimits bounds one run of the agent; 0 always means no limit
// (task-file 5). Times are seconds.
type RunLimits struct {
	MaxTurns      int `json:"max_turns" task:"null,min=1"`
	ExpectedTurns int `json:"expected_turns" task:"null,min=1"`
	// MaxToolCalls and ExpectedToolCalls are keys of newer upstream versions
	// (task-file 0.2): a hard cap on tool calls, and a count to warn above.
	MaxToolCalls       int      `json:"max_tool_calls" task:"null,min=1"`
	ExpectedToolCalls  int      `json:"expected_tool_calls" task:"null,min=1"`
	TaskTimeout        int      `json:"task_timeout" task:"null,min=30"`
	TurnTimeout        int      `json:"turn_timeout" task:"null,min=10"`
	MaxInputTokens     int      `json:"max_input_tokens" task:"null,min=1"`
	MaxOutputTokens    int      `json:"max_output_tokens" task:"null,min=1"`
	MaxTotalTokens     int      `json:"max_total_tokens" task:"null,min=1"`
	MaxUSD             *float64 `json:"max_usd" task:"above=0"`
	CountCachedInput   bool     `json:"count_cached_input"`
	CountCacheCreation bool     `json:"count_cache_creation"`
	// StopEarly false disarms every stop_early block; true is refused when the
	// task is resolved (task-file 5.1).
	StopEarly              *bool   `json:"stop_early"`
	StopEarlyGateThreshold float64 `json:"stop_early_gate_threshold" task:"default=1,min=0,max=1"`
}

// Simulation describes a simulated user (task-file 8). It is parsed and kept.
type Simulation struct {
	Enabled     bool     `json:"enabled"`
	Persona     string   `json:"persona" task:"required,nonblank"`
	Goal        string   `json:"goal" task:"required,nonblank"`
	Constraints []string `json:"constraints"`
	// MaxTurns counts exchanges of one dialog.
	MaxTurns           int    `json:"max_turns" task:"default=8,min=1,max=100"`
	StopToken          string `json:"stop_token" task:"default=<<<END>>>,min=1"`
	StopOnCriteriaPass bool   `json:"stop_on_criteria_pass"`
	MaxTotalTokens     int    `json:"max_total_tokens" task:"null,min=1"`
	// Trials above 1 takes the place of repeats when the simulation is enabled.
	Trials        int    `json:"n_trials" task:"default=1,min=1,max=100"`
	CheckCriteria string `json:"check_criteria" task:"default=end_of_dialog,enum=end_of_dialog|every_turn|both"`
	Model         string `json:"model" task:"default=anthropic.claude-sonnet-4-6"`
}

// CheckerContext holds settings of the checkers that call a model
// (task-file 7.15).
type CheckerContext struct {
	APIRoute *APIRoute `json:"api_route"`
}

// APIRoute says how judges reach their model.
type APIRoute struct {
	Route string `json:"route" task:"required,enum=direct|bedrock|litellm"`
	Model string `json:"model" task:"null"`
	// Params are given to the proxy as they are; EnvParams hold the names of
	// host variables that are looked up just before the call. Both belong to
	// the route litellm.
	Params    map[string]any    `json:"params" task:"null"`
	EnvParams map[string]string `json:"env_params" task:"null"`
}
