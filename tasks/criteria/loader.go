package criteria

import (
	"errors"
	"fmt"

	"podgrade/tasks"
	"podgrade/tasks/criteria/jmespath"
	"podgrade/tasks/criteria/python"
)

// NewLoader returns the loader of task and experiment files: it reads a
// regular expression as the criteria will search with it, so that one that
// only podgrade cannot run is an error where the author sees it. lookup finds
// a variable of the host; nil is os.LookupEnv.
func NewLoader(lookup func(name string) (value string, ok bool)) *tasks.Loader {
	return &tasks.Loader{Env: lookup, Regex: checkRegex, Expression: checkExpression, Sub: python.Sub}
}

// checkExpression is tasks.Loader.Expression.
func checkExpression(text string) error {
	_, err := jmespath.Parse(text)
	return err
}

// checkRegex is tasks.Loader.Regex.
func checkRegex(pattern string, flags int) error {
	_, err := python.CompileRegex(pattern, flags)
	var unsupported *python.UnsupportedError
	if errors.As(err, &unsupported) {
		return fmt.Errorf("%w: %w", tasks.ErrUntranslatable, unsupported)
	}
	return err
}
