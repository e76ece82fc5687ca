package criteria

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"podgrade/tasks"
	"podgrade/tasks/criteria/python"
)

// systemOneJudge asks a vendor's model a set of questions; the score is the
// weighted mean of what their answers are worth (task-file 7.15).
func (j *judging) systemOneJudge(ctx context.Context, c *tasks.SystemOneJudge) (outcome, error) {
	prompt, off, err := j.prepare(ctx, c.Prompt, c.JudgeInput, true)
	if off || err != nil {
		return disabled(), err
	}
	answer, judged, err := j.ask(ctx, c.JudgeInput, Question{Type: c.Type, Prompt: prompt, Model: c.Model, Vendor: c})
	if err != nil {
		return outcome{}, err
	}
	var scores, weights []float64
	p := &parts{}
	for _, id := range slices.Sorted(maps.Keys(c.Questions)) {
		question := c.Questions[id]
		worth, why := questionWorth(question, c.Scoring, answer.Options[id])
		scores, weights = append(scores, worth*question.Weight), append(weights, question.Weight)
		p.line(fmt.Sprintf("%s: %s (%s)", id, python.FormatFloat(worth), why), "", nil)
	}
	p.scores = append(p.scores, mean(scores, weights))
	found := p.outcome()
	found.judged = judged
	return found, nil
}

// questionWorth is what an answer is worth: of the likeliest option (argmax),
// or of all options by their probability (expected). No answer is worth 0.
func questionWorth(q tasks.Question, scoring string, options map[string]float64) (worth float64, why string) {
	if len(options) == 0 {
		return 0, "not answered"
	}
	values := optionValues(q)
	likeliest, best := "", -1.0
	total, whole := 0.0, 0.0
	for _, option := range slices.Sorted(maps.Keys(options)) {
		probability := options[option]
		if !(probability >= 0 && probability <= 1) {
			return 0, "answered with something that is no probability"
		}
		if probability > best {
			likeliest, best = option, probability
		}
		total += probability * values[option]
		whole += probability
	}
	if scoring == "argmax" || whole == 0 {
		return clamp(values[likeliest]), "likeliest: " + likeliest
	}
	return clamp(total / whole), "likeliest: " + likeliest
}

func clamp(v float64) float64 { return min(max(v, 0), 1) }

// optionValues says what each option of a question is worth.
func optionValues(q tasks.Question) map[string]float64 {
	values := map[string]float64{}
	switch q.Type {
	case tasks.QuestionNoul:
		expected, ok := q.Expected.(bool)
		values[strconv.FormatBool(expected || !ok)] = 1
	case tasks.QuestionChoice:
		if name, ok := q.Expected.(string); ok {
			values[name] = 1
			break
		}
		written, _ := python.FromGo(q.Values).(*python.Dict)
		if written == nil {
			break
		}
		for _, name := range written.Keys() {
			values[name], _ = asFloat(get(written, name))
		}
	case tasks.QuestionScore:
		steps, _ := python.FromGo(q.Criteria).([]any)
		written, _ := python.FromGo(q.Values).([]any)
		for i := range steps {
			values[strconv.Itoa(i)] = float64(i) / float64(max(len(steps)-1, 1))
			if i < len(written) {
				values[strconv.Itoa(i)], _ = asFloat(written[i])
			}
		}
	}
	return values
}
