package criteria

import (
	"errors"
	"fmt"

	"podgrade/tasks/criteria/python"
)

// badPattern says that Python would refuse the pattern too.
type badPattern struct {
	pattern string
	err     error
}

func (e *badPattern) Error() string {
	return fmt.Sprintf("Invalid regular expression '%s': %v", e.pattern, e.err)
}

func asBadPattern(err error, target **badPattern) bool { return errors.As(err, target) }

// compile compiles a pattern of Python. The error is a *badPattern, or a
// misuse when only podgrade cannot run it.
func (j *judging) compile(pattern string, flags int) (*python.Regex, error) {
	re, err := python.CompileRegex(pattern, flags)
	var unsupported *python.UnsupportedError
	switch {
	case errors.As(err, &unsupported):
		return nil, misusef("regular expression '%s': %v", pattern, unsupported)
	case err != nil:
		return nil, &badPattern{pattern, err}
	}
	if j.where.RegexTimeout > 0 {
		re.SetTimeout(j.where.RegexTimeout)
	}
	return re, nil
}

// search is re.search(pattern, text, flags). A search that takes too long, or
// a text that is too long, is a trouble.
func (j *judging) search(pattern string, flags int, text string) (matched string, found bool, err error) {
	re, err := j.compile(pattern, flags)
	if err != nil {
		return "", false, err
	}
	return find(re, pattern, text)
}

func find(re *python.Regex, pattern, text string) (matched string, found bool, err error) {
	matched, found, err = re.Search(text)
	switch {
	case errors.Is(err, python.ErrMatchTimeout):
		return "", false, troublef("TimeoutError", "the pattern '%s' backtracks too much: %v", pattern, err)
	case errors.Is(err, python.ErrTextTooLong):
		return "", false, troublef("OverflowError", "%v", err)
	case err != nil:
		return "", false, misusef("regular expression '%s': %v; write it in another way", pattern, err)
	}
	return matched, found, nil
}
