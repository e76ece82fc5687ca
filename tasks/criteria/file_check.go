package criteria

import (
	"context"
	"errors"
	"fmt"

	"podgrade/tasks"
)

// fileCheck combines substrings and patterns on one file (task-file 7.6).
func (j *judging) fileCheck(ctx context.Context, c *tasks.FileCheck) (outcome, error) {
	file, err := j.one(ctx, c.Path)
	if err != nil {
		return outcome{}, err
	}
	if len(c.Includes)+len(c.Excludes)+len(c.Patterns) == 0 {
		return newParts(file).outcome(), nil // a directory or binary file is enough
	}
	text, err := j.text(ctx, j.where.Cell, file.name)
	if err != nil {
		return outcome{}, err
	}
	p := newParts(file)
	p.includes(text, c.Includes)
	p.excludes(text, c.Excludes)
	if err := j.patterns(p, text, c.Patterns); err != nil {
		return outcome{}, err
	}
	return p.outcome(), nil
}

// patterns scores the mean over the patterns. One that Python refuses too
// scores 0 and is named; the criterion has no error for it.
func (j *judging) patterns(p *parts, text string, patterns []tasks.FilePattern) error {
	if len(patterns) == 0 {
		return nil
	}
	passed := 0
	var failed []string
	for _, pattern := range patterns {
		_, found, err := j.search(pattern.Pattern, pattern.Flags, text)
		var bad *badPattern
		switch {
		case errors.As(err, &bad):
			failed = append(failed, bad.Error())
			continue
		case err != nil:
			return err
		case found == pattern.MustMatch:
			passed++
		case found:
			failed = append(failed, pattern.Pattern+" (must not match)")
		default:
			failed = append(failed, pattern.Pattern)
		}
	}
	p.scores = append(p.scores, float64(passed)/float64(len(patterns)))
	p.line(fmt.Sprintf("Patterns: %d of %d hold.", passed, len(patterns)), "Failed", failed)
	return nil
}
