package criteria

import (
	"context"
	"fmt"

	"podgrade/tasks"
)

// fileExists: something of any type matches the path (task-file 7.3).
func (j *judging) fileExists(ctx context.Context, c *tasks.FileExists) (outcome, error) {
	matches, err := j.resolve(ctx, c.Path)
	if err != nil {
		return outcome{}, err
	}
	switch {
	case len(matches) == 0:
		return outcome{details: fmt.Sprintf("Nothing matches '%s'.", c.Path)}, nil
	case matches[0].literal:
		return outcome{score: 1, details: fmt.Sprintf("'%s' exists.", c.Path)}, nil
	}
	return outcome{score: 1, details: fmt.Sprintf("'%s' matches %s.", c.Path, nameFirst(matches))}, nil
}
