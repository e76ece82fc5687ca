package tasks

// Types of criteria, in the order of task-file 7.
const (
	TypeFileExists          = "file_exists"
	TypeFileContains        = "file_contains"
	TypeFileMatchesRegex    = "file_matches_regex"
	TypeFileCheck           = "file_check"
	TypeJSONCheck           = "json_check"
	TypeRunCommand          = "run_command"
	TypeCommandExecuted     = "command_executed"
	TypeCLICalled           = "cli_called"
	TypeCommandsEfficiency  = "commands_efficiency"
	TypeClassificationMatch = "classification_match"
	TypeSkillTriggered      = "skill_triggered"
	TypeReferenceComparison = "reference_comparison"
	TypeLLMJudge            = "llm_judge"
	TypeAgentJudge          = "agent_judge"
	TypeSystemOneJudge      = "system_one_judge"
	TypeUiPathEval          = "uipath_eval"
)

// Criterion is one success criterion; each type is a struct of this package,
// told apart by a type switch.
type Criterion interface {
	// Common returns the fields that every type has. They can be changed.
	Common() *Common
}

// Criteria are the criteria of a task, in the order of the file.
type Criteria []Criterion

// Common are the fields of every criterion (task-file 7.0).
type Common struct {
	Type        string `json:"type" task:"required"`
	Description string `json:"description" task:"required"`
	// Weight 0 makes the criterion informational: checked and recorded, not
	// part of score and gate.
	Weight float64 `json:"weight" task:"default=1,min=0,finite"`
	// PassThreshold is the smallest score that passes; 0.7 for judges.
	PassThreshold float64 `json:"pass_threshold" task:"default=0.9,min=0,max=1"`
	// SuiteThresholds are the smallest values of suite metrics (task-file 4.5).
	SuiteThresholds map[string]float64 `json:"suite_thresholds" task:"null"`
	// StopEarly arms early stop; nil: not armed (task-file 5.1).
	StopEarly *StopEarly `json:"stop_early" task:"kinds=command_executed|skill_triggered"`
}

// Common returns c itself, so that every struct that embeds it is a Criterion.
func (c *Common) Common() *Common { return c }

// Base is Common under the name by which criteria embed it, since the name of
// an embedded field would hide the method.
type Base = Common

// StopEarly arms a criterion.
type StopEarly struct {
	OnPass string `json:"on_pass" task:"default=continue,enum=continue|stop"`
	// DecideWithin is a number of tool calls; 0: no limit.
	DecideWithin int `json:"decide_within" task:"null,min=1"`
}

// newCriterion makes the struct of each type.
var newCriterion = map[string]func() Criterion{
	TypeFileExists:          func() Criterion { return new(FileExists) },
	TypeFileContains:        func() Criterion { return new(FileContains) },
	TypeFileMatchesRegex:    func() Criterion { return new(FileMatchesRegex) },
	TypeFileCheck:           func() Criterion { return new(FileCheck) },
	TypeJSONCheck:           func() Criterion { return new(JSONCheck) },
	TypeRunCommand:          func() Criterion { return new(RunCommand) },
	TypeCommandExecuted:     func() Criterion { return new(CommandExecuted) },
	TypeCLICalled:           func() Criterion { return new(CLICalled) },
	TypeCommandsEfficiency:  func() Criterion { return new(CommandsEfficiency) },
	TypeClassificationMatch: func() Criterion { return new(ClassificationMatch) },
	TypeSkillTriggered:      func() Criterion { return new(SkillTriggered) },
	TypeReferenceComparison: func() Criterion { return new(ReferenceComparison) },
	TypeLLMJudge:            func() Criterion { return new(LLMJudge) },
	TypeAgentJudge:          func() Criterion { return new(AgentJudge) },
	TypeSystemOneJudge:      func() Criterion { return new(SystemOneJudge) },
	TypeUiPathEval:          func() Criterion { return new(UiPathEval) },
}

// criterionTypes are the keys of newCriterion in the order of task-file 7.
var criterionTypes = []string{
	TypeFileExists, TypeFileContains, TypeFileMatchesRegex, TypeFileCheck,
	TypeJSONCheck, TypeRunCommand, TypeCommandExecuted, TypeCLICalled,
	TypeCommandsEfficiency, TypeClassificationMatch, TypeSkillTriggered,
	TypeReferenceComparison, TypeLLMJudge, TypeAgentJudge, TypeSystemOneJudge,
	TypeUiPathEval,
}
