package criteria

import (
	"errors"

	"podgrade/tasks"
	"podgrade/tasks/criteria/python"
)

// Validate finds the author errors that need no cell, so that plan, run and
// evaluate can refuse before anything starts: patterns that podgrade cannot
// translate, and what it does not offer. A pattern that Python refuses too is
// no error here: the format scores it when it is checked (task-file 7.5), but
// for cli_called, whose patterns are compiled at load (task-file 7.10).
func Validate(list []tasks.Criterion) []*AuthorError {
	var found []*AuthorError
	for i, criterion := range list {
		common := criterion.Common()
		for _, reason := range reasonsAgainst(criterion) {
			found = append(found, &AuthorError{i, common.Type, common.Description, reason})
		}
	}
	return found
}

// patternUse is a pattern of a criterion.
type patternUse struct {
	pattern string
	flags   int
	atLoad  bool // a bad one is an error at load
}

func reasonsAgainst(criterion tasks.Criterion) []string {
	var reasons []string
	if c, ok := criterion.(*tasks.ReferenceComparison); ok && c.ComparisonMethod == methodComplexity {
		reasons = append(reasons, noComplexity)
	}
	j := &judging{}
	for _, use := range patternsOf(criterion) {
		_, err := j.compile(use.pattern, use.flags)
		var bad *badPattern
		if err != nil && (use.atLoad || !errors.As(err, &bad)) {
			reasons = append(reasons, err.Error())
		}
	}
	return reasons
}

// patternsOf lists the regular expressions of a criterion.
func patternsOf(criterion tasks.Criterion) []patternUse {
	var uses []patternUse
	add := func(pattern string, flags int) { uses = append(uses, patternUse{pattern, flags, false}) }
	switch c := criterion.(type) {
	case *tasks.FileMatchesRegex:
		add(c.Pattern, c.Flags)
	case *tasks.FileCheck:
		for _, p := range c.Patterns {
			add(p.Pattern, p.Flags)
		}
	case *tasks.RunCommand:
		if c.ExpectedStdout != nil && c.StdoutMatch == "regex" {
			add(*c.ExpectedStdout, 0)
		}
	case *tasks.JSONCheck:
		for _, a := range c.Assertions {
			if pattern, ok := a.Expected.(string); ok && a.Operator == tasks.OpRegex {
				add(pattern, 0)
			}
		}
	case *tasks.CommandExecuted:
		add(c.CommandPattern, python.FlagDotAll)
		add(c.ExcludePattern, python.FlagDotAll)
	case *tasks.CLICalled:
		for _, p := range c.Flags {
			if p.MatchesRegex != nil {
				uses = append(uses, patternUse{*p.MatchesRegex, p.Flags, true})
			}
		}
	}
	return uses
}
