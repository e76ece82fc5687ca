package criteria

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"podgrade/tasks"
	"podgrade/tasks/criteria/python"
)

// loggedCall is one record of a recorder's log.
type loggedCall struct {
	tool string
	argv []string
}

// cliCalled counts the calls in a recorder's log (task-file 7.10).
func (j *judging) cliCalled(ctx context.Context, c *tasks.CLICalled) (outcome, error) {
	calls, err := j.callLog(ctx, c.Log)
	var broken *brokenLog
	if errors.As(err, &broken) {
		return outcome{details: broken.Error(), err: broken.Error()}, nil
	}
	if err != nil {
		return outcome{}, err
	}
	matcher, err := j.cliMatcher(c)
	var bad *badPattern
	if errors.As(err, &bad) {
		return outcome{}, misusef("%v", bad) // refused at load; a record may still hold it
	}
	if err != nil {
		return outcome{}, err
	}
	count := 0
	for _, call := range calls {
		hit, err := matcher(call)
		if err != nil {
			return outcome{}, err
		}
		if hit {
			count++
		}
	}
	limit := "no maximum"
	if c.MaxCount != nil {
		limit = fmt.Sprintf("at most %d", *c.MaxCount)
	}
	return outcome{
		score:   binary(count >= c.MinCount && (c.MaxCount == nil || count <= *c.MaxCount)),
		details: fmt.Sprintf("%d of %d logged calls match; at least %d, %s.", count, len(calls), c.MinCount, limit),
	}, nil
}

// brokenLog says why a log proves nothing.
type brokenLog struct {
	reason string
	absent bool // there is none
}

func (e *brokenLog) Error() string { return e.reason }

func broken(format string, args ...any) error {
	return &brokenLog{reason: fmt.Sprintf(format, args...)}
}

// callLog are the calls in a recorder's log, as it was before the first command of the
// grade where it was read then. The error may be a *brokenLog.
func (j *judging) callLog(ctx context.Context, name string) ([]loggedCall, error) {
	if log, ok := j.where.Calls.of(name); ok {
		return log.calls, log.err
	}
	return j.readLog(ctx, name)
}

// readLog reads a recorder's log as it is now. The error may be a *brokenLog.
func (j *judging) readLog(ctx context.Context, name string) ([]loggedCall, error) {
	file, err := j.one(ctx, name)
	var none *missing
	if errors.As(err, &none) {
		return nil, &brokenLog{reason: fmt.Sprintf("There is no log of calls: '%s'", name), absent: true}
	}
	if err != nil {
		return nil, err
	}
	if _, err := j.where.Cell.Stat(ctx, file.name+".error"); err == nil || errors.Is(err, ErrEscapes) {
		return nil, broken("'%s.error' says that calls could not be logged", file.name)
	} else if !errors.Is(err, ErrNotExist) {
		return nil, fileTrouble(err, file.name+".error")
	}
	text, err := j.text(ctx, j.where.Cell, file.name)
	if err != nil {
		return nil, err
	}
	return parseLog(file.name, text)
}

// parseLog reads the text of a log. The error is a *brokenLog.
func parseLog(name, text string) ([]loggedCall, error) {
	var calls []loggedCall
	number := 0
	for line := range strings.SplitSeq(text, "\n") { // the agent may have written very many
		number++
		if python.Strip(line) == "" {
			continue
		}
		call, reason := parseCall(line)
		if reason != "" {
			return nil, broken("'%s' line %d %s", name, number, reason)
		}
		calls = append(calls, call)
	}
	return calls, nil
}

// parseCall reads one line; reason says why it cannot be used. A rule_error
// once made the row an ERROR and scores 0.0 in newer versions; it is 0.0 here,
// since the agent can write the log and must not be able to void a verdict
// (task-file 9).
func parseCall(line string) (call loggedCall, reason string) {
	value, err := python.LoadJSON(line)
	if err != nil {
		return call, "is no JSON: " + err.Error()
	}
	record, ok := value.(*python.Dict)
	if !ok {
		return call, "is no JSON object"
	}
	for _, key := range []string{"sidecar_error", "rule_error"} {
		if v, ok := record.Get(key); ok && v != nil {
			return call, "holds a " + key + ": " + show(v)
		}
	}
	argv, _ := record.Get("argv")
	words, ok := argv.([]any)
	if !ok {
		return call, "has no argv that is a list"
	}
	for _, word := range words {
		text, ok := word.(string)
		if !ok {
			return call, "has an argv with something that is no string"
		}
		call.argv = append(call.argv, text)
	}
	if tool, _ := record.Get("tool"); tool != nil {
		call.tool, _ = tool.(string)
	}
	return call, ""
}

// cliMatcher makes the test of one call.
func (j *judging) cliMatcher(c *tasks.CLICalled) (func(loggedCall) (bool, error), error) {
	rules := rulesOf(c.CLIMatch, c.IgnoreFlags)
	var verbs [][]string
	if c.Verb != "" {
		verbs = append(verbs, strings.Fields(c.Verb))
	}
	for _, verb := range c.VerbAnyOf {
		verbs = append(verbs, strings.Fields(verb))
	}
	predicates := make([]flagTest, 0, len(c.Flags))
	for name, p := range c.Flags {
		test, err := j.flagTest(name, p)
		if err != nil {
			return nil, err
		}
		predicates = append(predicates, test)
	}
	return func(call loggedCall) (bool, error) {
		if c.Tool != "" && c.Tool != call.tool {
			return false, nil
		}
		split := rules.split(call.argv)
		if !matchesWords(split.positional, verbs, c.Positional) {
			return false, nil
		}
		for _, test := range predicates {
			if holds, err := test(split.flags); !holds || err != nil {
				return false, err
			}
		}
		return true, nil
	}, nil
}

// matchesWords: one verb is a prefix of the words, and wanted a prefix of what
// follows it.
func matchesWords(words []string, verbs [][]string, wanted []string) bool {
	if len(verbs) == 0 {
		return hasPrefix(words, wanted)
	}
	for _, verb := range verbs {
		if hasPrefix(words, verb) && hasPrefix(words[len(verb):], wanted) {
			return true
		}
	}
	return false
}

func hasPrefix(words, prefix []string) bool {
	return len(words) >= len(prefix) && slices.Equal(words[:len(prefix)], prefix)
}

// flagTest is a condition on the flags of a call.
type flagTest func(flags map[string][]string) (bool, error)

// flagTest makes the condition of one flag: any value under its name or an
// alias suffices.
func (j *judging) flagTest(name string, p tasks.FlagPredicate) (flagTest, error) {
	holds, err := j.valueTest(p)
	if err != nil {
		return nil, err
	}
	names := append([]string{name}, p.Aliases...)
	return func(flags map[string][]string) (bool, error) {
		var values []string
		for _, name := range names {
			values = append(values, flags[bareFlag(name)]...)
		}
		if p.Absent {
			return len(values) == 0, nil
		}
		for _, value := range values {
			if ok, err := holds(value); ok || err != nil {
				return ok, err
			}
		}
		return false, nil
	}, nil
}

// valueTest makes the condition on one value.
func (j *judging) valueTest(p tasks.FlagPredicate) (func(string) (bool, error), error) {
	switch {
	case p.Equals != nil:
		return func(v string) (bool, error) { return v == *p.Equals, nil }, nil
	case p.Contains != nil:
		return func(v string) (bool, error) { return strings.Contains(v, *p.Contains), nil }, nil
	case p.AnyOf != nil:
		return func(v string) (bool, error) { return slices.Contains(p.AnyOf, v), nil }, nil
	case p.MatchesRegex != nil:
		re, err := j.compile(*p.MatchesRegex, p.Flags)
		if err != nil {
			return nil, err
		}
		return func(v string) (bool, error) {
			_, found, err := find(re, *p.MatchesRegex, v)
			return found, err
		}, nil
	}
	return func(string) (bool, error) { return true, nil }, nil
}
