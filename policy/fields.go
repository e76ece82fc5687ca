package policy

import (
	"strings"
)

// FieldUse says what one field of a task needs of the operator: a grant of a
// kind, or nothing, and why.
type FieldUse struct {
	Kind Kind   // "": it needs no grant
	Why  string // of a field that needs none
}

// Fields classifies every field of a task and of its criteria, by the names of
// the struct and of the field. A test fails when a field is missing, when setting
// one that needs a grant changes no plan, and when setting one that needs none
// changes any; another when a package beside this one reads one that needs a
// grant of a recorded task.
func Fields() map[string]FieldUse {
	all := map[string]FieldUse{}
	for kind, names := range granted {
		for name := range strings.FieldsSeq(names) {
			all[name] = FieldUse{Kind: kind}
		}
	}
	for why, names := range needless {
		for name := range strings.FieldsSeq(names) {
			all[name] = FieldUse{Why: why}
		}
	}
	return all
}

// granted are the fields that need a grant.
var granted = map[Kind]string{
	Image:        "Docker.Image",
	Build:        "Docker.DockerfilePath Build.Args Build.Secrets Build.ExtraArgs Docker.Build",
	Network:      "Docker.Network Docker.EgressAllowlist Podman.Network Podman.Egress",
	Variable:     "Docker.EnvPassthrough Docker.EnvPassthroughExtra APIRoute.EnvParams SystemOneJudge.APIKeyEnv",
	Capabilities: "Podman.Caps Podman.SetUID Caps.List",
	Mount:        "Docker.ExtraMounts",
	Path:         "Reference.Directory TemplateSource.Path Agent.Plugins Plugin.Path Agent.ClaudeSettings Sandbox.TemplateSources",
	WorkingDir:   "Docker.WorkingDir Podman.WorkingDir",
	Limit:        "RunCommand.Timeout Timeouts.Pull Timeouts.Build Timeouts.Start Podman.Timeouts AgentJudge.TurnTimeout SystemOneJudge.TimeoutSeconds",
	Judge:        "Agent.Model LLMJudge.Model SystemOneJudge.Model SystemOneJudge.BaseURL Simulation.Model APIRoute.Route APIRoute.Model APIRoute.Params",
	Command: `Task.SuccessCriteria Task.PreRun PreRun.Command Task.PostRun PostRun.Command RunCommand.Command UiPathEval.AgentName UiPathEval.EvalSet
		Agent.Command Podman.Solution TemplateSource.URL TemplateSource.Commit Sandbox.Python Sandbox.Node Packages.EnvPackages`,
}

// needless are the fields that need none, by the reason.
var needless = map[string]string{
	"it is a block, and its own fields are classified": `Task.Agent Task.Sandbox Task.RunLimits Task.Reference Task.Dataset Task.Simulation
		Task.CheckerContext CheckerContext.APIRoute Sandbox.Docker Sandbox.Podman Sandbox.Limits Common.StopEarly AgentJudge.Agent
		RunCommand.Base CommandExecuted.Base CommandsEfficiency.Base SkillTriggered.Base UiPathEval.Base CLICalled.Base FileExists.Base
		FileContains.Base FileMatchesRegex.Base FileCheck.Base JSONCheck.Base ClassificationMatch.Base ReferenceComparison.Base LLMJudge.Base
		AgentJudge.Base SystemOneJudge.Base LLMJudge.JudgeInput AgentJudge.JudgeInput SystemOneJudge.JudgeInput CLICalled.CLIMatch CLIRule.CLIMatch
		RecordCLI.Responses CLIResponse.When`,
	"it decides which grants others need, and gives nothing itself": `Agent.Type Sandbox.Driver TemplateSource.Type Plugin.Type JudgeInput.Enabled
		Simulation.Enabled Caps.Mode Common.Type Question.Type`,
	"it names the row, or is a text that nothing acts on": `Task.TaskID Task.Description Task.Tags Task.Skip Task.SuiteID Task.RowID Common.Description
		Task.ExpectedCommands`,
	"it is said to the agent, in the cell that the other fields describe": `Task.InitialPrompt Agent.SystemPrompt Agent.SystemPromptMode Agent.PermissionMode
		Agent.AllowedTools Agent.DisallowedTools Agent.IgnorePatterns Agent.SDKOptions Agent.SettingSources Agent.ThinkingLevel Agent.Variant Agent.Pure
		Agent.RequireTokenTelemetry Agent.Effort Agent.ProjectID Agent.SessionID Agent.EnableComputerUse Agent.Prompt`,
	"the file is read when a task file of the operator's is loaded, and never of a record": `Task.InitialPromptFile Agent.SystemPromptFile Dataset.Paths`,
	"rows are made of it when a task file of the operator's is loaded, and never of a record": `Dataset.Rows Dataset.IDField Dataset.SamplePerStratum
		Dataset.StratifyField Dataset.SplitField Dataset.SampleSeed`,
	"it bounds what may happen, and lifts no bound": `RunLimits.MaxTurns RunLimits.ExpectedTurns RunLimits.MaxToolCalls RunLimits.ExpectedToolCalls
		RunLimits.TaskTimeout RunLimits.TurnTimeout RunLimits.MaxInputTokens RunLimits.MaxOutputTokens RunLimits.MaxTotalTokens RunLimits.MaxUSD
		RunLimits.CountCachedInput RunLimits.CountCacheCreation RunLimits.StopEarly RunLimits.StopEarlyGateThreshold Limits.Timeout Limits.MaxMemoryMB
		Limits.MaxCPUs Limits.MaxPIDs Limits.MaxDiskMB PreRun.Timeout PostRun.Timeout AgentJudge.MaxTurns Podman.ReadOnly Timeouts.Grade`,
	"it is about the inside of the cell, whose user namespace bounds it": `Podman.User Podman.State Podman.Grade TemplateSource.MountPoint TemplateSource.Files
		StarterFile.Path StarterFile.Content Sandbox.MockPathDirs Sandbox.RecordCLI RecordCLI.Tool RecordCLI.ExitCode RecordCLI.Stdout RecordCLI.Stderr
		CLIResponse.ExitCode CLIResponse.Stdout CLIResponse.Stderr PreRun.FailOnError Sandbox.IgnorePatterns`,
	"it says what is read of the workspace, the record, or what a grant gave": `RunCommand.ReadOnly CommandExecuted.ToolName CommandExecuted.CommandPattern
		CommandExecuted.ExcludePattern CLICalled.Log CLICalled.Tool CLICalled.IgnoreFlags CLIRule.IgnoreFlags CLIMatch.Verb CLIMatch.VerbAnyOf
		CLIMatch.Positional CLIMatch.Flags CLIMatch.ValueFlags FlagPredicate.Equals FlagPredicate.Contains FlagPredicate.MatchesRegex FlagPredicate.Flags
		FlagPredicate.AnyOf FlagPredicate.Present FlagPredicate.Absent FlagPredicate.Aliases FileExists.Path FileContains.Path FileMatchesRegex.Path
		FileCheck.Path JSONCheck.Path JSONCheck.JSONSchema ClassificationMatch.Path ReferenceComparison.AgentFile ReferenceComparison.ReferenceFile
		JudgeInput.Files JudgeInput.IncludeReference JudgeInput.IncludeAgentOutput JudgeInput.IncludeToolCalls JudgeInput.IncludeDialog
		JudgeInput.MaxDialogChars JudgeInput.MaxFileChars JudgeInput.CaptureTranscript JudgeInput.MaxTranscriptChars SystemOneJudge.MaxStateChars`,
	"it says what to expect, and how that counts": `Common.Weight Common.PassThreshold Common.SuiteThresholds StopEarly.OnPass StopEarly.DecideWithin
		RunCommand.ExpectedExitCode RunCommand.ExpectedStdout RunCommand.StdoutMatch RunCommand.ScoreFromStdout CommandExecuted.MinCount
		CommandExecuted.MaxCount CommandExecuted.RequireSuccess CommandsEfficiency.ExpectedCommands SkillTriggered.SkillName SkillTriggered.ExpectedSkill
		UiPathEval.Thresholds CLICalled.MinCount CLICalled.MaxCount FileContains.Includes FileContains.Excludes FileMatchesRegex.Pattern
		FileMatchesRegex.MustMatch FileMatchesRegex.Flags FileCheck.Includes FileCheck.Excludes FileCheck.Patterns FilePattern.Pattern FilePattern.MustMatch
		FilePattern.Flags JSONCheck.Assertions JSONAssertion.Expression JSONAssertion.Operator JSONAssertion.Expected ClassificationMatch.ExpectedLabel
		ClassificationMatch.AllowedLabels ClassificationMatch.CaseSensitive ReferenceComparison.ComparisonMethod ReferenceComparison.SimilarityThreshold`,
	"it is said to a judge, whose model and address are granted": `LLMJudge.Prompt LLMJudge.Temperature LLMJudge.MaxTokens AgentJudge.Prompt
		SystemOneJudge.Questions SystemOneJudge.Prompt SystemOneJudge.Scoring Question.Instructions Question.Weight Question.Expected Question.Criteria
		Question.Values Simulation.Persona Simulation.Goal Simulation.Constraints Simulation.MaxTurns Simulation.StopToken Simulation.StopOnCriteriaPass
		Simulation.MaxTotalTokens Simulation.Trials Simulation.CheckCriteria`,
	"podgrade builds in one way only": "Build.BuildKit",
}
