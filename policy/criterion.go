package policy

import (
	"fmt"

	"podgrade/tasks"
)

// criterion adds what one criterion would run or send. Criteria are told
// apart by type and never by a field's name, and a type that is not listed is
// refused, so that a new one cannot pass unseen (spec/regrade.md 2.3).
func (t *terms) criterion(c tasks.Criterion, place Place) error {
	switch c := c.(type) {
	case *tasks.RunCommand:
		t.command(c.Command, "run_command", place)
	case *tasks.UiPathEval:
		t.command(fmt.Sprintf("uipath eval %s %s", c.AgentName, c.EvalSet), "uipath_eval", place)
	case *tasks.ReferenceComparison:
		t.command("python3 (compares the code with the reference)", "reference_comparison", place)
	case *tasks.LLMJudge:
		t.judge(c.Enabled, c.Model, "llm_judge: sends files of the workspace to a model on your account")
	case *tasks.AgentJudge:
		t.judge(c.Enabled, c.Agent.Model, "agent_judge: starts an agent with tools on a copy of the workspace, on your account")
	case *tasks.SystemOneJudge:
		t.judge(c.Enabled, c.Model, "system_one_judge: sends files of the workspace to "+c.BaseURL+" with your "+c.APIKeyEnv)
	case *tasks.FileExists, *tasks.FileContains, *tasks.FileMatchesRegex, *tasks.FileCheck,
		*tasks.JSONCheck, *tasks.ClassificationMatch, *tasks.CLICalled:
		// They read the workspace, which is what a grade is for.
	case *tasks.CommandExecuted, *tasks.CommandsEfficiency, *tasks.SkillTriggered:
		// They read the record.
	default:
		return &Refusal{
			What: fmt.Sprintf("nobody has said what a criterion of type %T needs", c),
			Do:   "use the release of podgrade that the task was written for",
		}
	}
	return nil
}

func (t *terms) judge(enabled bool, model, reason string) {
	if !enabled {
		return
	}
	if model == "" {
		model = "the default model"
	}
	t.judges = append(t.judges, Grant{Judge, model, reason})
}
