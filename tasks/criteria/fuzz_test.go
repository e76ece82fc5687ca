package criteria

import (
	"strings"
	"testing"
	"time"

	"podgrade/tasks"
	"podgrade/tasks/criteria/python"
)

// FuzzArgv: no argv breaks the splitter, and it makes nothing up.
func FuzzArgv(f *testing.F) {
	for _, seed := range []string{"", "a b", "--x=1 -", "-- -a", "-abc -n5 --name v", "--output json get", "-1 -1.5 -x=1", "--- --= -=", "--name", "-é"} {
		f.Add(seed)
	}
	value := "v"
	match := tasks.CLIMatch{ValueFlags: []string{"output"}, Flags: map[string]tasks.FlagPredicate{"name": {Equals: &value, Aliases: []string{"n"}}, "--force": {Present: true}}}
	rules := rulesOf(match, []string{"output", "q"})
	f.Fuzz(func(t *testing.T, line string) {
		argv := strings.Split(line, " ")
		call := rules.split(argv)
		values := 0
		for _, list := range call.flags {
			values += len(list)
		}
		if len(call.positional) > len(argv) || values > len(line) {
			t.Errorf("%q gives %d positionals and %d flags", argv, len(call.positional), values)
		}
		if call.flags["output"] != nil || call.flags["q"] != nil {
			t.Errorf("%q keeps an ignored flag", argv)
		}
	})
}

// FuzzCallLog: a line is either a call or has a reason why not.
func FuzzCallLog(f *testing.F) {
	for _, seed := range []string{`{"argv": ["a"], "tool": "x"}`, `{"argv": [1]}`, `{`, `[]`, `{"argv": [], "rule_error": 1}`, `{"argv": null}`, `{"tool": 3, "argv": []}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		call, reason := parseCall(line)
		if reason == "" && len(call.argv) > len(line) {
			t.Errorf("%q has %d words", line, len(call.argv))
		}
	})
}

// FuzzVerdict: a verdict that is taken has a score from 0 to 1.
func FuzzVerdict(f *testing.F) {
	for _, seed := range []string{`{"score": 0.5, "rationale": "r", "findings": ["a", {}]}`, `{"score": -0}`, `{"score": 1e999}`, `{"score": NaN}`, `[]`, `{"score": []}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if v, err := parseVerdict(raw); err == nil && !(v.score >= 0 && v.score <= 1) {
			t.Errorf("%q gives the score %v", raw, v.score)
		}
	})
}

// FuzzJSONSchema: no schema and document break the validation, and none takes
// for ever.
func FuzzJSONSchema(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"type": "object", "required": ["a"]}`, `{"a": 1}`}, {`{"$ref": "#"}`, `{}`}, {`{"$ref": "http://x/y"}`, `1`}, {`{"pattern": "(a+)+$"}`, `"aaaa!"`},
		{`{"multipleOf": 0}`, `1`}, {`{"multipleOf": 1e-300}`, `1e300`}, {`{"enum": [1e308]}`, `NaN`}, {`{"$schema": "http://json-schema.org/draft-04/schema#", "format": "email"}`, `"x"`},
		{`{"$dynamicRef": "#a", "$id": "x", "$defs": {"a": {"$dynamicAnchor": "a"}}}`, `[]`}, {`{"uniqueItems": true}`, `[1, 1.0, true]`}, {`true`, `null`}, {`{"minLength": 1e10}`, `"a"`},
	} {
		f.Add(seed[0], seed[1])
	}
	j := &judging{where: Surroundings{RegexTimeout: 50 * time.Millisecond}}
	f.Fuzz(func(t *testing.T, schemaText, documentText string) {
		schema, err := python.LoadJSON(schemaText)
		if err != nil {
			return
		}
		document, err := python.LoadJSON(documentText)
		if err != nil {
			return
		}
		problem, err := j.validate(schema, document)
		if problem != "" && err != nil {
			t.Errorf("%q and %q: both a problem %q and an error %v", schemaText, documentText, problem, err)
		}
		if python.Length(problem) > 1000 {
			t.Errorf("the problem has %d characters", python.Length(problem))
		}
	})
}
