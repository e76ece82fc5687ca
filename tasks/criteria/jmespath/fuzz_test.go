package jmespath_test

import (
	"strings"
	"testing"

	"podgrade/tasks/criteria/jmespath"
	"podgrade/tasks/criteria/python"
)

// FuzzSearch: every expression is evaluated or refused, within its bounds.
func FuzzSearch(f *testing.F) {
	for _, expression := range wholes {
		f.Add(strings.ReplaceAll(expression, "~", "`"), documents[0])
	}
	f.Add(strings.Repeat("[@,@]|", 60)+"to_string(@)", "1")
	f.Add(strings.Repeat("[@,@][]|", 60)+"length(@)", "1")
	f.Add(strings.Repeat("!", 500)+"a", "1")
	f.Add(strings.Repeat("(", 500), "1")
	f.Fuzz(func(t *testing.T, expression, document string) {
		value, err := python.LoadJSON(document)
		if err != nil {
			return
		}
		parsed, err := jmespath.Parse(expression)
		if err != nil {
			return
		}
		result, err := parsed.Search(value)
		if err == nil && jmespath.TypeName(result) == "" {
			t.Errorf("%q gives a value without a type", expression)
		}
	})
}
