package criteria_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"podgrade/tasks"
	"podgrade/tasks/criteria"
)

func TestJSONCheck(t *testing.T) { check(t, jsonCheckTable()) }

func jsonCheckTable() []expectation {
	of := func(document, schema string, assertions ...tasks.JSONAssertion) (*tasks.JSONCheck, criteria.Surroundings) {
		texts := map[string]string{"doc.json": document}
		c := &tasks.JSONCheck{Base: common(tasks.TypeJSONCheck), Path: "doc.json", Assertions: assertions}
		if schema != "" {
			c.JSONSchema = "schema.json"
			texts["schema.json"] = schema
		}
		return c, criteria.Surroundings{Cell: newCell(texts), RegexTimeout: 200 * time.Millisecond}
	}
	a := func(expression, operator string, expected any) tasks.JSONAssertion {
		return tasks.JSONAssertion{Expression: expression, Operator: operator, Expected: expected}
	}
	document := `{"b": {"z": 1, "y": 2}, "n": 1.0, "t": true, "s": "héllo", "l": [1, "a", null], "nil": null, "big": 9007199254740993, "nan": NaN}`
	holds := []tasks.JSONAssertion{
		a("n", tasks.OpEquals, 1), a("t", tasks.OpEquals, 1), a("n", tasks.OpEquals, true), a("big", tasks.OpEquals, int64(9007199254740993)),
		a("big", tasks.OpNotEquals, 9007199254740992.0), a("nan", tasks.OpNotEquals, math.NaN()), a("b", tasks.OpEquals, map[string]any{"y": 2, "z": 1.0}),
		a("keys(b)", tasks.OpEquals, []any{"z", "y"}), a("b.*", tasks.OpEquals, []any{1, 2}), a("nil", tasks.OpEquals, nil), a("none", tasks.OpEquals, nil),
		a("s", tasks.OpContains, "éll"), a("l", tasks.OpContains, "a"), a("l", tasks.OpContains, 1.0), a("b", tasks.OpContains, "z"),
		a("n", tasks.OpGT, 0), a("n", tasks.OpGTE, true), a("s", tasks.OpLT, "i"), a("l[:1]", tasks.OpLTE, []any{1, 2}),
		a("s", tasks.OpType, "string"), a("n", tasks.OpType, "number"), a("t", tasks.OpType, "boolean"), a("l", tasks.OpType, "array"), a("b", tasks.OpType, "object"), a("nil", tasks.OpType, "null"),
		a("s", tasks.OpRegex, "^h.l+o$"), a("s", tasks.OpExists, nil), a("length(s)", tasks.OpEquals, 5),
	}
	fails := []tasks.JSONAssertion{
		a("nan", tasks.OpEquals, math.NaN()), a("s", tasks.OpContains, 1), a("n", tasks.OpContains, "1"), a("b", tasks.OpContains, []any{}),
		a("s", tasks.OpGT, 1), a("nil", tasks.OpLT, 1), a("b", tasks.OpGT, map[string]any{}), a("t", tasks.OpType, "number"), a("n", tasks.OpType, "integer"), a("n", tasks.OpType, 1),
		a("n", tasks.OpRegex, "1"), a("s", tasks.OpRegex, "("), a("s", tasks.OpRegex, 1), a("nil", tasks.OpExists, nil), a("none", tasks.OpExists, nil),
		a("[", tasks.OpExists, nil), a("foo(s)", tasks.OpExists, nil), a("abs(s)", tasks.OpExists, nil), a("l", tasks.OpEquals, []any{1, "a"}),
		a("'"+strings.Repeat("a", 40)+"b'", tasks.OpRegex, "(a|aa|a?a)+$"),
	}
	var table []expectation
	add := func(name string, score float64, err, details string, c *tasks.JSONCheck, where criteria.Surroundings) {
		table = append(table, expectation{name: name, criterion: c, where: where, score: score, err: err, details: details})
	}
	for _, assertion := range holds {
		c, where := of(document, "", assertion)
		add("holds: "+assertion.Expression+" "+assertion.Operator, 1, "", "", c, where)
	}
	for _, assertion := range fails {
		c, where := of(document, "", assertion)
		add("fails: "+assertion.Expression+" "+assertion.Operator, 0, "", "0 of 1", c, where)
	}
	one, none := a("n", tasks.OpEquals, 1), a("n", tasks.OpEquals, 2)
	for _, row := range []struct {
		name, document, schema string
		assertions             []tasks.JSONAssertion
		score                  float64
		err, details           string
	}{
		{"nothing asked", document, "", nil, 1, "", ""},
		{"share", document, "", []tasks.JSONAssertion{one, none, one, none}, 0.5, "", "2 of 4"},
		{"bad JSON", "{", "", nil, 0, "Invalid JSON", ""},
		{"duplicate keys, the last wins", `{"n": 2, "n": 1}`, "", []tasks.JSONAssertion{one}, 1, "", ""},
		{"nested too deep", strings.Repeat("[", 5000) + strings.Repeat("]", 5000), "", nil, 0, "recursion", ""},
		{"integer of too many digits", strings.Repeat("9", 5000), "", nil, 0, "digits", ""},
		{"schema holds", `{"n": 1}`, `{"required": ["n"]}`, nil, 1, "", "Schema: valid"},
		{"schema violated", `{}`, `{"required": ["n"]}`, nil, 0, "", "Schema: violated"},
		{"schema violated, assertions skipped", `{"m": 1}`, `{"required": ["n"]}`, []tasks.JSONAssertion{a("m", tasks.OpEquals, 1)}, 0, "", "violated"},
		{"schema and assertions", `{"n": 1}`, `{"type": "object"}`, []tasks.JSONAssertion{one, none}, 0.75, "", ""},
		{"schema is no JSON", `{}`, `{`, nil, 0, "", "cannot be used"},
		{"schema is malformed", `{}`, `{"type": 7}`, nil, 0, "", "malformed"},
		{"schema is a list", `{}`, `[]`, nil, 0, "", "malformed"},
		{"schema from elsewhere", `{}`, `{"$ref": "https://example.org/s.json"}`, nil, 0, "", "not loaded from elsewhere"},
		{"schema of a file", `{}`, `{"$ref": "file:///etc/passwd"}`, nil, 0, "", "not loaded from elsewhere"},
		{"format is no assertion", `"x"`, `{"$schema": "http://json-schema.org/draft-07/schema#", "format": "email"}`, nil, 1, "", ""},
		{"pattern is Python's", `"ab1"`, `{"pattern": "^(?P<x>a)b\\d\\Z"}`, nil, 1, "", ""},
		{"large integers", `123456789012345678901234567890`, `{"const": 123456789012345678901234567890, "type": "integer"}`, nil, 1, "", ""},
		{"NaN and a schema", `NaN`, `{}`, nil, 0, "", "cannot be judged"},
		{"infinity in a schema", `1`, `{"maximum": Infinity}`, nil, 0, "", "not usable"},
	} {
		c, where := of(row.document, row.schema, row.assertions...)
		add(row.name, row.score, row.err, row.details, c, where)
	}

	missing, where := of(document, `{}`)
	missing.Path = "no.json"
	noSchema, _ := of(document, "")
	noSchema.JSONSchema = "none.json"
	outside, _ := of(document, "")
	outside.JSONSchema = "/etc/passwd"
	unsupported, _ := of(document, "", a("s", tasks.OpRegex, `(?ai:(a)\1)`))
	slow, slowWhere := of(`"`+strings.Repeat("a", 40)+`b"`, `{"pattern": "(a|aa|a?a)+$"}`)
	odd, oddWhere := of(`"a"`, `{"pattern": "(?ai:(a)\\1)"}`)
	linked, linkedWhere := of(document, "")
	linked.JSONSchema = "link.json"
	linkedWhere.Cell.(*fakeCell).add("link.json", fakeFile{kind: criteria.Symlink, target: "/etc/passwd"})
	directory, directoryWhere := of(document, "")
	directoryWhere.Cell.(*fakeCell).add("dir/x", fakeFile{kind: criteria.Regular})
	directory.Path = "dir"
	return append(table, []expectation{
		{name: "missing", criterion: missing, where: where, err: "File not found"},
		{name: "missing schema", criterion: noSchema, where: where, details: "File not found"},
		{name: "schema outside", criterion: outside, where: where, author: "outside of the sandbox"},
		{name: "schema behind a link outside", criterion: linked, where: linkedWhere, details: "A link leads out of the sandbox"},
		{name: "untranslatable pattern of a schema", criterion: odd, where: oddWhere, err: "NotImplementedError: the schema cannot be applied"},
		{name: "untranslatable pattern", criterion: unsupported, where: where, author: "cannot translate"},
		{name: "pattern of a schema that backtracks", criterion: slow, where: slowWhere, err: "TimeoutError"},
		{name: "directory", criterion: directory, where: directoryWhere, err: "IsADirectoryError"},
	}...)
}
