package criteria

import (
	"context"
	"errors"
	"fmt"

	"podgrade/tasks"
	"podgrade/tasks/criteria/python"
)

// Labels that stand for what is no allowed label (task-file 7.12).
const (
	labelNone  = "(none)"
	labelOther = "(other)"
)

// classificationMatch compares the label in a file (task-file 7.12). A missing
// file is the label "(none)", without an error.
func (j *judging) classificationMatch(ctx context.Context, c *tasks.ClassificationMatch) (outcome, error) {
	text := ""
	file, err := j.one(ctx, c.Path)
	var none *missing
	switch {
	case errors.As(err, &none):
	case err != nil:
		return outcome{}, err
	default:
		if text, err = j.text(ctx, j.where.Cell, file.name); err != nil {
			return outcome{}, err
		}
	}
	observed := labelOther
	if label := python.Strip(text); label == "" {
		observed = labelNone
	} else if allowed, ok := canonical(label, c); ok {
		observed = allowed
	}
	expected := c.ExpectedLabel
	if allowed, ok := canonical(expected, c); ok {
		expected = allowed
	}
	p := newParts(file)
	p.line(fmt.Sprintf("Observed label '%s', expected '%s'.", observed, expected), "", nil)
	p.scores = append(p.scores, binary(observed == expected))
	found := p.outcome()
	found.labels = &Classification{ObservedLabel: &observed, ExpectedLabel: &expected}
	return found, nil
}

// canonical gives the allowed label that label is equal to.
func canonical(label string, c *tasks.ClassificationMatch) (string, bool) {
	for _, allowed := range c.AllowedLabels {
		if label == allowed || !c.CaseSensitive && sameFolded(label, allowed) {
			return allowed, true
		}
	}
	return "", false
}

// sameFolded tells whether a label is the allowed one but for case. The agent
// wrote the label, which may be a very long one.
func sameFolded(label, allowed string) bool {
	const mostGrowth = 4 // bytes of a character, to one
	lower := python.Lower(allowed)
	return len(label) <= mostGrowth*len(lower) && python.Lower(label) == lower
}
