package regrade

import "podgrade/tasks/record"

// fate says what a grade does with a field of the record.
type fate string

const (
	carried    fate = "carried"    // the run's value stays
	derived    fate = "derived"    // follows from the trajectory, which is carried, so it stays
	supplied   fate = "supplied"   // of the task and the row; stays
	recomputed fate = "recomputed" // of this grade
	merged     fate = "merged"     // environment_info: prior wins, then facts of this grade
	extended   fate = "extended"   // post_run_results: carried, then what this grade ran
)

// fates is exhaustive over the fields of a record: a field that is in no line
// fails a test, because it would silently keep a value of another grade or
// lose one of the run (spec/regrade.md 1.6).
var fates = map[string]fate{
	record.FieldTaskID:           supplied,
	record.FieldDescription:      supplied,
	record.FieldVariantID:        supplied,
	record.FieldAgentType:        supplied,
	record.FieldTaskConfig:       supplied,
	record.FieldModelUsed:        derived,
	record.FieldCommandStats:     derived,
	record.FieldTokenUsage:       derived,
	record.FieldAssistantTurns:   derived,
	record.FieldActualCommands:   derived,
	record.FieldEfficiency:       derived,
	record.FieldIterations:       carried,
	record.FieldIterationCount:   carried,
	record.FieldEarlyStop:        carried,
	record.FieldMaxTurns:         carried,
	record.FieldErrorMessage:     carried,
	record.FieldErrorDetails:     carried,
	record.FieldErrorLogTail:     carried,
	record.FieldSDKOptions:       carried,
	record.FieldAgentConfig:      carried,
	record.FieldExpectedCommands: carried,
	record.FieldSimulation:       carried,
	record.FieldPreRunResults:    carried,
	record.FieldSandboxPath:      carried,
	record.FieldStartedAt:        carried,
	record.FieldCompletedAt:      carried,
	record.FieldDuration:         carried,
	record.FieldSetupMS:          carried,
	record.FieldPostRunResults:   extended,
	record.FieldEnvironment:      merged,
	record.FieldGradingMS:        recomputed,
	record.FieldFinalStatus:      recomputed,
	record.FieldWeightedScore:    recomputed,
	record.FieldCriteriaResults:  recomputed,
	record.FieldPostFailure:      recomputed,
}
