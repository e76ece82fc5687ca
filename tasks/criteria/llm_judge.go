package criteria

import (
	"context"
	"time"

	"podgrade/tasks"
)

// llmJudge asks a model for a verdict (task-file 7.15).
func (j *judging) llmJudge(ctx context.Context, c *tasks.LLMJudge) (outcome, error) {
	prompt, off, err := j.prepare(ctx, c.Prompt, c.JudgeInput, true)
	if off || err != nil {
		return disabled(), err
	}
	return j.judge(ctx, c.JudgeInput, Question{
		Type: c.Type, System: judgeInstructions, Prompt: prompt, Model: c.Model,
		Temperature: c.Temperature, MaxTokens: c.MaxTokens, VerdictSchema: verdictSchema,
	})
}

// agentInstructions are added for a judge that can look for itself.
const agentInstructions = `
You work in a copy of the agent's workspace and may read and run what is there. The directory _reference, where there is one, holds a solution known to be right.`

// agentJudge lets a sub-agent look at a copy of the workspace.
func (j *judging) agentJudge(ctx context.Context, c *tasks.AgentJudge) (outcome, error) {
	prompt, off, err := j.prepare(ctx, c.Prompt, c.JudgeInput, false)
	if off || err != nil {
		return disabled(), err
	}
	return j.judge(ctx, c.JudgeInput, Question{
		Type: c.Type, System: judgeInstructions + agentInstructions, Prompt: prompt, Model: c.Agent.Model,
		VerdictSchema: verdictSchema, Agent: &c.Agent, MaxTurns: c.MaxTurns,
		TurnTimeout:    time.Duration(c.TurnTimeout) * time.Second,
		MountReference: c.IncludeReference && j.where.Reference != nil,
	})
}
