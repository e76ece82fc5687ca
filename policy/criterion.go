package policy

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"podgrade/tasks"
)

// criterion adds what one criterion would run or send. Criteria are told
// apart by type and never by a field's name, and a type that is not listed is
// refused, so that a new one cannot pass unseen (spec/regrade.md 2.3).
func (t *terms) criterion(c tasks.Criterion, r Request) error {
	switch c := c.(type) {
	case *tasks.RunCommand:
		t.command(c.Command, "run_command", r.Place)
		t.lasts("run_command", c.Timeout, usualTime)
	case *tasks.UiPathEval:
		t.command(fmt.Sprintf("uipath eval %s %s", c.AgentName, c.EvalSet), "uipath_eval", r.Place)
	case *tasks.ReferenceComparison:
		t.command("python3 (compares the code with the reference)", "reference_comparison", r.Place)
	case *tasks.LLMJudge:
		t.judge(r, c.JudgeInput, c.Model, "llm_judge: sends files of the workspace on your account")
	case *tasks.AgentJudge:
		t.agentJudge(r, c)
	case *tasks.SystemOneJudge:
		t.vendorJudge(c)
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

// What a judge has when its task says nothing.
const (
	defaultModel = "the default model"
	ownRoute     = "own" // the way that the operator's own variables name
)

// judge adds a judge that goes the task's way to its model.
func (t *terms) judge(r Request, input tasks.JudgeInput, model, reason string) {
	if input.Enabled {
		t.sends(or(model, routeModel(r)), t.route(r), reason)
	}
}

// agentJudge adds a judge that is an agent: all that an agent can bring counts.
func (t *terms) agentJudge(r Request, c *tasks.AgentJudge) {
	if !c.Enabled {
		return
	}
	agent := &c.Agent
	t.judge(r, c.JudgeInput, agent.Model, "agent_judge: starts an agent with tools on a copy of the workspace, on your account")
	if agent.Type == tasks.CommandLine {
		t.command(agent.Command, "the agent of agent_judge", r.Place)
	}
	t.agentFiles(r, agent, "of agent_judge")
	t.lasts("a turn of agent_judge", c.TurnTimeout, usualTime)
}

// vendorJudge adds a judge that has an address and a key of its own.
func (t *terms) vendorJudge(c *tasks.SystemOneJudge) {
	if !c.Enabled {
		return
	}
	t.keys = append(t.keys, c.APIKeyEnv)
	t.sends(c.Model, c.BaseURL, "system_one_judge: sends files of the workspace there, with the key in "+c.APIKeyEnv)
	t.lasts("a question of system_one_judge", int(min(c.TimeoutSeconds, 1e9)), usualTime)
}

// sends adds a model that something is sent to.
func (t *terms) sends(model, address, reason string) {
	model = or(model, defaultModel)
	where := " at " + address
	if address == ownRoute {
		where = " by your own route"
	}
	t.judges = append(t.judges, Grant{Kind: Judge, Value: model + where, Reason: reason, subject: model + "\x00" + address})
}

// route is how the task's judges reach their model: by the operator's own way,
// or by the one that checker_context names, with what it gives to it.
func (t *terms) route(r Request) string {
	if r.Task.CheckerContext == nil || r.Task.CheckerContext.APIRoute == nil {
		return ownRoute
	}
	route := r.Task.CheckerContext.APIRoute
	text := "your route " + route.Route
	for _, name := range sorted(route.Params) {
		text += fmt.Sprintf(", %s=%v", name, route.Params[name])
	}
	for _, name := range sorted(route.EnvParams) {
		text += fmt.Sprintf(", %s=$%s", name, route.EnvParams[name])
		t.keys = append(t.keys, route.EnvParams[name])
	}
	return text
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func routeModel(r Request) string {
	if r.Task.CheckerContext == nil || r.Task.CheckerContext.APIRoute == nil {
		return ""
	}
	return r.Task.CheckerContext.APIRoute.Model
}

// agentFiles adds what an agent reads of this host beside its task: plugins,
// whose directories are returned, and a file of settings.
func (t *terms) agentFiles(r Request, agent *tasks.Agent, whose string) (dirs []string) {
	loader := &tasks.Loader{Env: r.Lookup}
	for _, plugin := range agent.Plugins {
		if dir, ok := loader.PluginDir(plugin, filepath.Dir(r.TaskFile)); ok {
			dirs = append(dirs, dir)
			t.add(Path, resolved(dir), "a plugin "+whose+": it can read all of it")
		}
	}
	if file, is := agent.ClaudeSettings.(string); is && file != "" {
		t.add(Path, resolved(file), "settings "+whose+": it reads the file")
	}
	return dirs
}
