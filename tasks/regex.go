package tasks

import (
	"errors"
	"strings"
	"unicode"
)

// ErrUntranslatable is wrapped by the error of Loader.Regex for a pattern that
// is right in Python but that podgrade cannot run. Such a pattern is an author
// error when the task is loaded, never a score.
var ErrUntranslatable = errors.New("this regular expression cannot be run")

// pattern asks about a Python regular expression. A wrong one scores 0.0 when
// it is checked (task-file 7.5), so it only warns here, except where upstream
// compiles it at load (strict).
func (d *decoder) pattern(n *node, path, text string, flags int, strict bool) {
	if d.regex == nil {
		return
	}
	err := d.regex(text, flags)
	switch {
	case err == nil:
	case strict || errors.Is(err, ErrUntranslatable):
		d.fail(n, path, "%s: %s", quote(text), reasonText(err))
	default:
		d.warn(n, path, "%s is not a regular expression and will score 0.0: %s", quote(text), reasonText(err))
	}
}

// reasonText is what an error of Loader.Regex says, in bounds and on one line;
// it may quote the pattern.
func reasonText(err error) string {
	const limit = 300 // characters
	text := []rune(err.Error())
	cut := ""
	if len(text) > limit {
		text, cut = text[:limit], "..."
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, string(text)) + cut
}
