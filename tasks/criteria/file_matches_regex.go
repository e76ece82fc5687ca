package criteria

import (
	"context"
	"errors"
	"fmt"

	"podgrade/tasks"
)

// matchedLimit cuts matched text in details, in characters (task-file 7.5).
const matchedLimit = 100

// fileMatchesRegex searches a file (task-file 7.5).
func (j *judging) fileMatchesRegex(ctx context.Context, c *tasks.FileMatchesRegex) (outcome, error) {
	file, text, err := j.oneText(ctx, c.Path)
	if err != nil {
		return outcome{}, err
	}
	matched, found, err := j.search(c.Pattern, c.Flags, text)
	var bad *badPattern
	if errors.As(err, &bad) {
		return outcome{details: bad.Error(), err: bad.Error()}, nil
	}
	if err != nil {
		return outcome{}, err
	}
	p := newParts(file)
	switch {
	case found:
		p.line(fmt.Sprintf("Pattern '%s' matches: '%s'", c.Pattern, cutNote(matched, matchedLimit)), "", nil)
	default:
		p.line(fmt.Sprintf("Pattern '%s' does not match.", c.Pattern), "", nil)
	}
	if !c.MustMatch {
		p.line("It must not match.", "", nil)
	}
	p.scores = append(p.scores, binary(found == c.MustMatch))
	return p.outcome(), nil
}

// binary is the score of a yes or no.
func binary(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
