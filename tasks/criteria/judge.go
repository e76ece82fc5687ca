package criteria

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"podgrade/tasks"
	"podgrade/tasks/criteria/python"
)

// Judge is the transport to the models of the judges. Ask may be called
// concurrently. An error means that no verdict could be had, which is an
// infrastructure error; a model that answered badly is no error.
type Judge interface {
	Ask(ctx context.Context, question Question) (Answer, error)
}

// Question is what a judge asks.
type Question struct {
	Type        string // of the criterion
	System      string // instructions of the judge's own
	Prompt      string // the task's prompt and all that is shown
	Model       string // "": the route's
	Temperature float64
	MaxTokens   int
	// VerdictSchema is the JSON Schema of the tool that the model must call;
	// nil for system_one_judge.
	VerdictSchema json.RawMessage
	// Agent is set for agent_judge: the sub-agent, which gets a copy of the
	// workspace, and the reference as _reference/ when MountReference is set.
	Agent          *tasks.Agent
	MaxTurns       int
	TurnTimeout    time.Duration
	MountReference bool
	// Vendor is set for system_one_judge.
	Vendor *tasks.SystemOneJudge
}

// Answer is what the model gave back.
type Answer struct {
	// Verdict is the argument of the verdict tool; empty: it was not called.
	Verdict json.RawMessage
	// Options are the probabilities that system_one_judge's model gave to each
	// option of each question.
	Options    map[string]map[string]float64
	Usage      *tasks.TokenUsage // nil: not reported
	Transcript string
}

// errNoTransport is the cause of the infrastructure error of an enabled judge.
var errNoTransport = errors.New("no transport to a model is configured; configure one, or set enabled: false")

// prepare makes what a judge is asked and shown; off tells that the judge is
// switched off.
func (j *judging) prepare(ctx context.Context, prompt string, input tasks.JudgeInput, inlineReference bool) (text string, off bool, err error) {
	switch {
	case !input.Enabled:
		return "", true, nil
	case j.where.Judge == nil:
		return "", false, errNoTransport
	}
	text, err = j.judgePrompt(ctx, prompt, input, inlineReference)
	return text, false, err
}

// disabled is the outcome of a judge that is switched off (task-file 7.15).
func disabled() outcome {
	return outcome{score: 1, details: "The judge is disabled."}
}

// ask asks, and keeps usage and transcript. An outage is an infrastructure
// error: upstream's guide scores it 0.0, its code makes the row an ERROR, and a
// verdict must not depend on a network (task-file 9).
func (j *judging) ask(ctx context.Context, input tasks.JudgeInput, q Question) (Answer, *Judgement, error) {
	if j.where.Judge == nil {
		return Answer{}, nil, errNoTransport
	}
	answer, err := j.where.Judge.Ask(ctx, q)
	if err != nil {
		return Answer{}, nil, fmt.Errorf("ask the model: %w", err)
	}
	judged := &Judgement{Findings: []any{}, TokenUsage: answer.Usage}
	if input.CaptureTranscript {
		scrubbed, err := j.scrub(ctx, answer.Transcript)
		if err != nil {
			return Answer{}, nil, err
		}
		judged.Transcript = cutNote(scrubbed, input.MaxTranscriptChars)
	}
	return answer, judged, nil
}

// verdict is what the verdict tool takes.
type verdict struct {
	score     float64
	rationale string
	findings  []any
}

// verdictSchema describes the verdict tool's argument.
var verdictSchema = json.RawMessage(`{"type":"object","required":["score","rationale"],"properties":{` +
	`"score":{"type":"number","minimum":0,"maximum":1},` +
	`"rationale":{"type":"string"},` +
	`"findings":{"type":"array","items":{"type":"string"}}}}`)

// parseVerdict reads a verdict of a model.
func parseVerdict(raw json.RawMessage) (verdict, error) {
	if len(raw) == 0 {
		return verdict{}, errors.New("the judge gave no verdict")
	}
	text, err := python.DecodeStrict(raw)
	if err != nil {
		return verdict{}, fmt.Errorf("the verdict is no text: %w", err)
	}
	value, err := python.LoadJSON(text)
	if err != nil {
		return verdict{}, fmt.Errorf("the verdict is no JSON: %w", err)
	}
	score := get(value, "score")
	if _, isBool := score.(bool); isBool {
		score = nil
	}
	number, ok := asFloat(score)
	if !ok || !(number >= 0 && number <= 1) {
		return verdict{}, fmt.Errorf("the verdict's score is no number from 0 to 1: %s", show(score))
	}
	v := verdict{score: number}
	v.rationale, _ = get(value, "rationale").(string)
	findings, _ := get(value, "findings").([]any)
	for _, finding := range findings {
		if text, ok := finding.(string); ok {
			v.findings = append(v.findings, text)
			continue
		}
		v.findings = append(v.findings, show(finding))
	}
	return v, nil
}

// judge asks for a verdict and makes the outcome of it. A bad verdict scores
// 0.0 with an error.
func (j *judging) judge(ctx context.Context, input tasks.JudgeInput, q Question) (outcome, error) {
	answer, judged, err := j.ask(ctx, input, q)
	if err != nil {
		return outcome{}, err
	}
	v, err := parseVerdict(answer.Verdict)
	if err != nil {
		return outcome{details: err.Error(), err: err.Error(), judged: judged}, nil
	}
	if v.rationale, err = j.scrub(ctx, v.rationale); err != nil {
		return outcome{}, err
	}
	for i, finding := range v.findings {
		if v.findings[i], err = j.scrub(ctx, finding.(string)); err != nil {
			return outcome{}, err
		}
	}
	if v.findings != nil {
		judged.Findings = v.findings
	}
	return outcome{score: v.score, details: cutNote(v.rationale, streamLimit), judged: judged}, nil
}
