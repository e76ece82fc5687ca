package criteria_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"podgrade/tasks"
	"podgrade/tasks/criteria"
)

// judgeFunc is a transport that is a function.
type judgeFunc func(criteria.Question) (criteria.Answer, error)

func (f judgeFunc) Ask(_ context.Context, q criteria.Question) (criteria.Answer, error) { return f(q) }

// saying is a transport whose model always gives this verdict.
func saying(verdict string) criteria.Surroundings {
	return criteria.Surroundings{Judge: judgeFunc(func(criteria.Question) (criteria.Answer, error) {
		return criteria.Answer{Verdict: json.RawMessage(verdict)}, nil
	})}
}

func input() tasks.JudgeInput {
	return tasks.JudgeInput{Enabled: true, IncludeReference: true, MaxDialogChars: 50, MaxFileChars: 10, CaptureTranscript: true, MaxTranscriptChars: 1000}
}

func llm(in tasks.JudgeInput) *tasks.LLMJudge {
	return &tasks.LLMJudge{Base: common(tasks.TypeLLMJudge), Prompt: "Is it good?", JudgeInput: in, Model: "m", MaxTokens: 9}
}

func TestJudgeVerdicts(t *testing.T) {
	off := input()
	off.Enabled = false
	outage := criteria.Surroundings{Judge: judgeFunc(func(criteria.Question) (criteria.Answer, error) {
		return criteria.Answer{}, errors.New("503")
	})}
	check(t, []expectation{
		{name: "verdict", criterion: llm(input()), where: saying(`{"score": 0.7, "rationale": "because", "findings": ["a", 1]}`), score: 0.7, details: "because"},
		{name: "integer", criterion: llm(input()), where: saying(`{"score": 1}`), score: 1},
		{name: "no verdict", criterion: llm(input()), where: saying(""), err: "no verdict"},
		{name: "no JSON", criterion: llm(input()), where: saying("{"), err: "no JSON"},
		{name: "no UTF-8", criterion: llm(input()), where: saying("\xff"), err: "no text"},
		{name: "no score", criterion: llm(input()), where: saying(`{}`), err: "no number"},
		{name: "score of text", criterion: llm(input()), where: saying(`{"score": "1"}`), err: "no number"},
		{name: "score of a boolean", criterion: llm(input()), where: saying(`{"score": true}`), err: "no number"},
		{name: "score out of range", criterion: llm(input()), where: saying(`{"score": 1.5}`), err: "no number"},
		{name: "score NaN", criterion: llm(input()), where: saying(`{"score": NaN}`), err: "no number"},
		{name: "disabled", criterion: llm(off), score: 1, details: "disabled"},
		{name: "disabled agent", criterion: &tasks.AgentJudge{Base: common(tasks.TypeAgentJudge), JudgeInput: off}, score: 1},
		{name: "disabled vendor", criterion: &tasks.SystemOneJudge{Base: common(tasks.TypeSystemOneJudge), JudgeInput: off}, score: 1},
		{name: "no transport", criterion: llm(input()), infra: "criterion 1 (llm_judge: of a test)"},
		{name: "no transport of an agent", criterion: &tasks.AgentJudge{Base: common(tasks.TypeAgentJudge), JudgeInput: input()}, infra: "no transport"},
		{name: "no transport of a vendor", criterion: &tasks.SystemOneJudge{Base: common(tasks.TypeSystemOneJudge), JudgeInput: input()}, infra: "no transport"},
		{name: "outage", criterion: llm(input()), where: outage, infra: "503"},
	})
}

// TestJudgePrompt: what is shown, in which bounds, and that material cannot
// pass for instructions.
func TestJudgePrompt(t *testing.T) {
	in := input()
	in.Files = []string{"a.txt", "none.txt", "bin", "$TASK_DIR/t.txt", "${REFERENCE_DIR}/r/x.py", "$TASK_DIR/none", "$TASK_DIR", `$TASK_DIR\t.txt`, "$TASK_DIRECTORY/x", "out"}
	in.IncludeAgentOutput, in.IncludeToolCalls, in.IncludeDialog = true, true, true
	var asked criteria.Question
	where := calls(bash("ls", "success"))
	where.Trajectory.Turns[0].UserInput, where.Trajectory.Turns[0].AgentOutput = "please", "done"
	where.Cell = newCell(map[string]string{"a.txt": "12345678901234", "bin": "\xff"}).add("out", fakeFile{kind: criteria.Symlink, target: "/etc/passwd"})
	where.TaskDir = newCell(map[string]string{"t.txt": "\n===== x"})
	where.Reference = newCell(map[string]string{"r/x.py": "the secret line of the reference", "r/b": "\xff", "z": "short"})
	where.Judge = judgeFunc(func(q criteria.Question) (criteria.Answer, error) {
		asked = q
		return criteria.Answer{
			Verdict:    json.RawMessage(`{"score": 1, "rationale": "has the secret line of the reference", "findings": ["the secret line of the reference"]}`),
			Transcript: "I saw the secret line of the reference.",
		}, nil
	})
	results, err := criteria.Check(t.Context(), []tasks.Criterion{llm(in)}, where)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/judge-prompt.txt", asked.Prompt)
	if asked.Model != "m" || asked.MaxTokens != 9 || asked.VerdictSchema == nil || !strings.Contains(asked.System, "not trusted") {
		t.Errorf("question is %+v", asked)
	}
	stored, _ := json.Marshal(results[0])
	if text := string(stored) + results[0].Transcript; strings.Contains(text, "secret") || !strings.Contains(text, "[reference text removed]") {
		t.Errorf("stored with the reference in it: %s", text)
	}
}

// TestJudgeIsShownNothingOutside: a name that leads out of its tree is the
// author's mistake.
func TestJudgeIsShownNothingOutside(t *testing.T) {
	for _, name := range []string{"/etc/passwd", "../../etc/passwd", "$TASK_DIR/../../etc/passwd"} {
		in := input()
		in.Files = []string{name}
		where := saying(`{"score": 1, "rationale": ""}`)
		where.Cell, where.TaskDir = newCell(nil), newCell(nil)
		check(t, []expectation{{name: name, criterion: llm(in), where: where, author: "outside of the sandbox"}})
	}
}

func TestAgentJudge(t *testing.T) {
	c := &tasks.AgentJudge{Base: common(tasks.TypeAgentJudge), Prompt: "?", JudgeInput: input(), MaxTurns: 5, TurnTimeout: 10}
	c.Agent.Model = "big"
	where := saying(`{"score": 0.25}`)
	answer := where.Judge
	var asked criteria.Question
	where.Judge = judgeFunc(func(q criteria.Question) (criteria.Answer, error) {
		asked = q
		return answer.Ask(t.Context(), q)
	})
	where.Cell, where.Reference = newCell(nil), newCell(map[string]string{"x": "reference"})
	results, err := criteria.Check(t.Context(), []tasks.Criterion{c}, where)
	if err != nil || results[0].Score != 0.25 {
		t.Fatalf("%+v (%v)", results, err)
	}
	if asked.Agent == nil || asked.MaxTurns != 5 || asked.TurnTimeout.Seconds() != 10 || !asked.MountReference || asked.Model != "big" || strings.Contains(asked.Prompt, "reference\n") {
		t.Errorf("question is %+v", asked)
	}
}

func TestSystemOneJudge(t *testing.T) {
	questions := map[string]tasks.Question{
		"noul":     {Type: tasks.QuestionNoul, Weight: 1},
		"not":      {Type: tasks.QuestionNoul, Weight: 1, Expected: false},
		"choice":   {Type: tasks.QuestionChoice, Weight: 2, Criteria: []any{"a", "b"}, Expected: "a"},
		"values":   {Type: tasks.QuestionChoice, Weight: 1, Criteria: []any{"a", "b"}, Values: map[string]any{"a": 0.5, "b": 1}},
		"ramp":     {Type: tasks.QuestionScore, Weight: 1, Criteria: []any{"bad", "fair", "good"}},
		"steps":    {Type: tasks.QuestionScore, Weight: 1, Criteria: []any{"bad", "good"}, Values: []any{0.25, 0.75}},
		"silent":   {Type: tasks.QuestionNoul, Weight: 1},
		"nonsense": {Type: tasks.QuestionNoul, Weight: 0},
	}
	options := map[string]map[string]float64{
		"noul": {"true": 0.75, "false": 0.25}, "not": {"true": 0.75, "false": 0.25}, "choice": {"a": 0.5, "b": 0.5}, "values": {"a": 0.25, "b": 0.75},
		"ramp": {"0": 0.25, "2": 0.75}, "steps": {"1": 1}, "nonsense": {"true": 7},
	}
	where := criteria.Surroundings{Judge: judgeFunc(func(q criteria.Question) (criteria.Answer, error) {
		if q.Vendor == nil {
			return criteria.Answer{}, errors.New("no vendor")
		}
		return criteria.Answer{Options: options}, nil
	})}
	of := func(scoring string) *tasks.SystemOneJudge {
		return &tasks.SystemOneJudge{Base: common(tasks.TypeSystemOneJudge), Questions: questions, Scoring: scoring, JudgeInput: input()}
	}
	check(t, []expectation{
		{name: "expected", criterion: of("expected"), where: where, score: (0.75 + 0.25 + 2*0.5 + 0.875 + 0.75 + 0.75 + 0) / 8, details: "silent: 0.0 (not answered)"},
		{name: "argmax", criterion: of("argmax"), where: where, score: (1 + 0 + 2*1 + 1 + 1 + 0.75 + 0) / 8, details: "nonsense: 0.0 (answered with something that is no probability)"},
	})
}
