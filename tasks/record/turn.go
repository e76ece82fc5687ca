package record

import "podgrade/tasks"

// The nested objects of a record, with the record's keys in the record's order
// (spec/run-record.md 2.5 to 2.9). A pointer that is nil is written as null:
// not known, which is not the same as zero.

// Turn is one exchange with the agent. Its number may repeat: a crashed turn
// is followed by its retry.
type Turn struct {
	Iteration          int               `json:"iteration"`
	UserInput          string            `json:"user_input"`
	AgentOutput        string            `json:"agent_output"`
	Commands           []Command         `json:"commands"`
	Timestamp          Time              `json:"timestamp"`
	Duration           float64           `json:"duration_seconds"`
	HarnessStartupMS   *float64          `json:"harness_startup_ms"`
	HarnessTeardownMS  *float64          `json:"harness_teardown_ms"`
	ToolUnionMS        *float64          `json:"tool_union_ms"`
	TokenUsage         *tasks.TokenUsage `json:"token_usage"`
	ModelUsed          *string           `json:"model_used"`
	AssistantTurnCount int               `json:"assistant_turn_count"`
	// Messages are *UserMessage, *AssistantMessage and *Reconciliation.
	Messages          []any       `json:"messages"`
	NumTurns          *int        `json:"num_turns"`
	MaxTurnsExhausted bool        `json:"max_turns_exhausted"`
	Result            *TurnResult `json:"result_summary"`
	ProviderCallCosts []any       `json:"provider_call_costs"`
	Crashed           bool        `json:"crashed"`
	CrashReason       *string     `json:"crash_reason"`
}

// TurnResult is how the agent's program said that a turn ended.
type TurnResult struct {
	IsError    bool    `json:"is_error"`
	Subtype    string  `json:"subtype"`
	StopReason *string `json:"stop_reason"`
	Result     *string `json:"result"`
}

// Values of Command.ResultStatus.
const (
	CallSucceeded = "success"
	CallFailed    = "error"
	CallUnknown   = "unknown"
)

// Command is one call of a tool.
type Command struct {
	ToolName              string   `json:"tool_name"`
	ToolID                string   `json:"tool_id"`
	AssistantTurnIndex    *int     `json:"assistant_turn_index"`
	Timestamp             Time     `json:"timestamp"`
	DurationMS            *float64 `json:"duration_ms"`
	GenerationCompletedAt *Time    `json:"generation_completed_at"`
	ExecutionStartedAt    *Time    `json:"execution_started_at"`
	ExecutionCompletedAt  *Time    `json:"execution_completed_at"`
	// Parameters is an object: a map, an *Object, or Nested of its text.
	Parameters     any     `json:"parameters"`
	ResultStatus   *string `json:"result_status"`
	ResultSummary  *string `json:"result_summary"` // the whole text
	ErrorMessage   *string `json:"error_message"`
	ResultData     any     `json:"result_data"`
	SequenceNumber int     `json:"sequence_number"`
	ResultTokens   int     `json:"result_tokens"` // computed by New
}

// Values of the field role of a message.
const (
	RoleUser           = "user"
	RoleAssistant      = "assistant"
	RoleReconciliation = "reconciliation"
)

// UserMessage is what the user, or who plays the user, said.
type UserMessage struct {
	Role                 string   `json:"role"` // RoleUser
	Text                 string   `json:"text"`
	RawText              *string  `json:"raw_text"`
	StopRequested        *bool    `json:"stop_requested"`
	StartedAt            *Time    `json:"started_at"`
	CompletedAt          *Time    `json:"completed_at"`
	GenerationDurationMS *float64 `json:"generation_duration_ms"`
	InputTokens          int64    `json:"input_tokens"`
	OutputTokens         int64    `json:"output_tokens"`
	Model                *string  `json:"model"`
	SimulatorFailed      bool     `json:"simulator_failed"`
}

// AssistantMessage is one message of the model. One that shares its MessageID
// with an earlier one carries no tokens.
type AssistantMessage struct {
	Role                 string         `json:"role"` // RoleAssistant
	StartedAt            Time           `json:"started_at"`
	CompletedAt          Time           `json:"completed_at"`
	GenerationDurationMS float64        `json:"generation_duration_ms"`
	ContentBlocks        []ContentBlock `json:"content_blocks"`
	ToolUseIDs           []string       `json:"tool_use_ids"`
	InputTokens          int64          `json:"input_tokens"`
	OutputTokens         int64          `json:"output_tokens"`
	CacheCreationTokens  int64          `json:"cache_creation_tokens"`
	CacheReadTokens      int64          `json:"cache_read_tokens"`
	ReasoningTokens      int64          `json:"reasoning_tokens"`
	StopReason           *string        `json:"stop_reason"`
	Model                *string        `json:"model"`
	MessageID            *string        `json:"message_id"`
	ParentToolUseID      *string        `json:"parent_tool_use_id"`
}

// Reconciliation makes the tokens of a turn's messages add up to the turn's
// usage. It is written only where they would not.
type Reconciliation struct {
	Role                string `json:"role"` // RoleReconciliation
	InputTokens         int64  `json:"input_tokens"`
	OutputTokens        int64  `json:"output_tokens"`
	CacheCreationTokens int64  `json:"cache_creation_tokens"`
	CacheReadTokens     int64  `json:"cache_read_tokens"`
	Note                string `json:"note"`
}

// ContentBlock is one part of a message: text, thinking, tool_use or
// tool_result.
type ContentBlock struct {
	BlockType string  `json:"block_type"`
	Sequence  int     `json:"sequence"`
	Text      *string `json:"text"`
	Thinking  *string `json:"thinking"`
	Signature *string `json:"signature"`
	ToolUseID *string `json:"tool_use_id"`
	IsError   bool    `json:"is_error"`
}

// HookResult is one entry of pre_run_results and post_run_results.
type HookResult struct {
	Command  string  `json:"command"`
	ExitCode *int    `json:"exit_code"` // nil after a time-out, or when it did not start
	Stdout   string  `json:"stdout"`
	Stderr   string  `json:"stderr"`
	Duration float64 `json:"duration_seconds"`
	Error    *string `json:"error"`
}

// Values of ErrorDetails.Component.
const (
	ComponentSetup       = "orchestrator.setup"
	ComponentTaskTimeout = "orchestrator.task_timeout"
	ComponentIteration   = "orchestrator.iteration_1" // the first; the number is the turn's
)

// Values of ErrorDetails.Category.
const (
	CategoryInfrastructure = "infrastructure" // the host; the row can be run again
	CategorySetup          = "setup"          // the workspace is not as the task wants it
	CategoryBuild          = "build"          // the image could not be built
	CategoryAgent          = "agent"          // the agent broke off
	CategoryTimeout        = "timeout"
)

// ErrorDetails says where a row failed.
type ErrorDetails struct {
	Category  string `json:"error_category"`
	Message   string `json:"error_message"`
	TaskID    string `json:"task_id"`
	Attempt   int    `json:"attempt"` // from 1
	Component string `json:"component"`
	AgentName string `json:"agent_name"`
}

// EarlyStop says which armed criterion ended the run, and when.
type EarlyStop struct {
	Reason               string   `json:"reason"`
	CriterionType        string   `json:"deciding_criterion_type"`
	CriterionDescription string   `json:"deciding_criterion_description"`
	ArmedCriteria        []string `json:"armed_criteria"` // "type: description"
	SDKTurnIndex         int      `json:"sdk_turn_index"`
	ToolCallIndex        int      `json:"tool_call_index"` // from 1
	ElapsedSeconds       float64  `json:"elapsed_seconds"`
	TurnsRemaining       *int     `json:"turns_remaining_at_stop"`
	GateThreshold        float64  `json:"gate_threshold"`
}

// CommandStats is computed from the commands of all turns.
type CommandStats struct {
	Total              int            `json:"total_commands"`
	ByTool             map[string]int `json:"commands_by_tool"`
	TotalTimeMS        float64        `json:"total_command_time_ms"`
	AverageTimeMS      *float64       `json:"avg_command_time_ms"`
	Slowest            []SlowCommand  `json:"slowest_commands"` // at most mostSlowest
	Successful         int            `json:"successful_commands"`
	Failed             int            `json:"failed_commands"`
	Unknown            int            `json:"unknown_commands"`
	SuccessRate        *float64       `json:"success_rate"`         // null without a known end
	MostCommonSequence any            `json:"most_common_sequence"` // []string, or null
}

// SlowCommand is one of the slowest commands.
type SlowCommand struct {
	Tool       string  `json:"tool"`
	DurationMS float64 `json:"duration_ms"`
	Parameters any     `json:"parameters"`
	ToolID     *string `json:"tool_id"`
}
