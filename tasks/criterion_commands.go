package tasks

// RunCommand runs a command line in the workspace (task-file 7.8).
type RunCommand struct {
	Base
	Command          string  `json:"command" task:"required"`
	Timeout          int     `json:"timeout" task:"default=30"` // seconds, no bounds
	ExpectedExitCode int     `json:"expected_exit_code" task:"default=0"`
	ExpectedStdout   *string `json:"expected_stdout"` // nil: not compared
	StdoutMatch      string  `json:"stdout_match" task:"default=exact,enum=exact|contains|regex"`
	// ScoreFromStdout takes the first line of output as the score.
	ScoreFromStdout bool `json:"score_from_stdout"`
	// ReadOnly says that the command changes nothing, so that it also runs as
	// evidence after the agent failed. Nothing is enforced.
	ReadOnly bool `json:"read_only"`
}

// CommandExecuted counts the agent's tool calls (task-file 7.9).
type CommandExecuted struct {
	Base
	ToolName       string `json:"tool_name" task:"null"`       // "": any
	CommandPattern string `json:"command_pattern" task:"null"` // Python regular expression
	ExcludePattern string `json:"exclude_pattern" task:"null"` // Python regular expression
	MinCount       int    `json:"min_count" task:"default=1,min=0"`
	MaxCount       *int   `json:"max_count" task:"min=0"` // nil: no maximum
	RequireSuccess bool   `json:"require_success"`
}

// CommandsEfficiency compares the number of tool calls (task-file 7.11).
type CommandsEfficiency struct {
	Base
	ExpectedCommands int `json:"expected_commands" task:"required,min=1"`
}

// SkillTriggered looks for the use of a skill (task-file 7.13).
type SkillTriggered struct {
	Base
	SkillName string `json:"skill_name" task:"required"`
	// ExpectedSkill is the skill that should be used, "" for none of them.
	ExpectedSkill string `json:"expected_skill" task:"required"`
}

// UiPathEval runs the uipath CLI and compares its metrics (task-file 7.16).
type UiPathEval struct {
	Base
	AgentName  string             `json:"agent_name" task:"required"`
	EvalSet    string             `json:"eval_set" task:"required"`
	Thresholds map[string]float64 `json:"thresholds" task:"required"`
}

// CLICalled counts the calls in a recorder's log (task-file 7.10).
type CLICalled struct {
	Base
	Log  string `json:"log" task:"default=cli_mocks/calls.jsonl"`
	Tool string `json:"tool" task:"null"` // "": any
	CLIMatch
	IgnoreFlags []string `json:"ignore_flags" task:"default=[output]"`
	MinCount    int      `json:"min_count" task:"default=1,min=0"`
	MaxCount    *int     `json:"max_count" task:"min=0"` // nil: no maximum
}

// CLIMatch matches the arguments of one call of a command. Names of flags are
// without their leading dashes.
type CLIMatch struct {
	// Verb is one or more words, such as "projects list"; VerbAnyOf are
	// alternatives to it.
	Verb      string   `json:"verb" task:"null"`
	VerbAnyOf []string `json:"verb_any_of" task:"null"`
	// Positional are the arguments that must follow the verb.
	Positional []string                 `json:"positional" task:"null"`
	Flags      map[string]FlagPredicate `json:"flags" task:"null"`
	ValueFlags []string                 `json:"value_flags" task:"default=[output]"`
}

// FlagPredicate is a condition on one flag; a bare string in the file means
// Equals. Exactly one of the conditions is set.
type FlagPredicate struct {
	Equals       *string `json:"equals"`
	Contains     *string `json:"contains"`
	MatchesRegex *string `json:"matches_regex"` // Python regular expression
	// Flags of Python's re module, only with MatchesRegex.
	Flags   int      `json:"flags"`
	AnyOf   []string `json:"any_of" task:"null"`
	Present bool     `json:"present" task:"null"`
	Absent  bool     `json:"absent" task:"null"`
	Aliases []string `json:"aliases"`
}
