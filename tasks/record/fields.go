package record

// The fields of a record, by the name they have in task.json.
const (
	FieldTaskID           = "task_id"
	FieldDescription      = "task_description"
	FieldVariantID        = "variant_id"
	FieldAgentType        = "agent_type"
	FieldModelUsed        = "model_used"
	FieldStartedAt        = "started_at"
	FieldCompletedAt      = "completed_at"
	FieldDuration         = "duration_seconds"
	FieldSetupMS          = "setup_ms"
	FieldGradingMS        = "grading_ms"
	FieldFinalStatus      = "final_status"
	FieldMaxTurns         = "max_turns_exhausted"
	FieldWeightedScore    = "weighted_score"
	FieldIterationCount   = "iteration_count"
	FieldCriteriaResults  = "success_criteria_results"
	FieldPostFailure      = "post_failure_criteria_results"
	FieldIterations       = "iterations"
	FieldErrorMessage     = "error_message"
	FieldErrorDetails     = "error_details"
	FieldErrorLogTail     = "error_log_tail"
	FieldEnvironment      = "environment_info"
	FieldAgentConfig      = "agent_config"
	FieldSDKOptions       = "sdk_options"
	FieldSandboxPath      = "sandbox_path"
	FieldTaskConfig       = "task_config"
	FieldCommandStats     = "command_stats"
	FieldTokenUsage       = "total_token_usage"
	FieldAssistantTurns   = "total_assistant_turns"
	FieldExpectedCommands = "expected_commands"
	FieldActualCommands   = "actual_commands"
	FieldEfficiency       = "commands_efficiency"
	FieldPreRunResults    = "pre_run_results"
	FieldPostRunResults   = "post_run_results"
	FieldSimulation       = "simulation"
	FieldEarlyStop        = "early_stop"
)

// fieldTurns is the old name of FieldIterations, which readers accept too.
const fieldTurns = "turns"

// fields is every field of a record, in the order in which it is written
// (spec/run-record.md 2.2).
var fields = []string{
	FieldTaskID, FieldDescription, FieldVariantID, FieldAgentType,
	FieldModelUsed, FieldStartedAt, FieldCompletedAt, FieldDuration,
	FieldSetupMS, FieldGradingMS, FieldFinalStatus, FieldMaxTurns,
	FieldWeightedScore, FieldIterationCount, FieldCriteriaResults,
	FieldPostFailure, FieldIterations, FieldErrorMessage, FieldErrorDetails,
	FieldErrorLogTail, FieldEnvironment, FieldAgentConfig, FieldSDKOptions,
	FieldSandboxPath, FieldTaskConfig, FieldCommandStats, FieldTokenUsage,
	FieldAssistantTurns, FieldExpectedCommands, FieldActualCommands,
	FieldEfficiency, FieldPreRunResults, FieldPostRunResults, FieldSimulation,
	FieldEarlyStop,
}

// Fields returns the name of every field of a record, in writing order.
func Fields() []string { return append([]string{}, fields...) }

// fieldIndex is a field's place in the writing order; unknown fields have none.
func fieldIndex(name string) int {
	for i, field := range fields {
		if field == name {
			return i
		}
	}
	return -1
}
