package tasks

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestYAMLTrees(t *testing.T) {
	for text, want := range map[string]string{
		"a: &x {p: 1, q: 2}\nb: {<<: *x, q: 3}":                      `{"a":{"p":1,"q":2},"b":{"p":1,"q":3}}`,
		"a: &x {p: 1}\nb: &y {p: 2, r: 4}\nc: {s: 1, <<: [*x, *y]}":  `{"a":{"p":1},"b":{"p":2,"r":4},"c":{"p":1,"r":4,"s":1}}`,
		"a: {q: 0, <<: {q: 1}}":                                      `{"a":{"q":0}}`,
		"a: 1\na: 2":                                                 `{"a":2}`,
		"a: 'yes'\nb: \"010\"\nc: !!str 5\nd: |\n  on\ne: !!float 3": `{"a":"yes","b":"010","c":"5","d":"on\n","e":3}`,
		"a: plain\n  folded on\n  lines":                             `{"a":"plain folded on lines"}`,
		"yes: 1\n2: x\n~: y":                                         `{"2":"x","None":"y","True":1}`,
		"{\"a\": \"\\U0001F600\"}":                                   `{"a":"😀"}`,
		"a: '<<'\n'<<': b":                                           `{"\u003c\u003c":"b","a":"\u003c\u003c"}`,
	} {
		r := &report{}
		n := parseYAML([]byte(text), &source{file: "x"}, r)
		if len(r.problems) > 0 {
			t.Errorf("%s: %v", text, r.problems)
			continue
		}
		got, err := json.Marshal(n.value())
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v, want %s", text, got, err, want)
		}
	}
	r := &report{}
	parseYAML([]byte("a: 1\nb: 2\na: 3"), &source{file: "x"}, r)
	if len(r.warnings) != 1 || r.warnings[0].Place.Line != 3 || !strings.Contains(r.warnings[0].Text, "written twice") {
		t.Errorf("warnings: %v", r.warnings)
	}
}

// TestYAMLFaults: what is no YAML is said with the place where the parser
// stops, and what to do.
func TestYAMLFaults(t *testing.T) {
	for text, want := range map[string]string{
		"a: b\nc: d: e\n":                 "x:2:5: not valid YAML: mapping values are not allowed in this context; a text with a colon and a blank",
		"a: 1\nb:\n  - c: 1\n     d: 2\n": "x:4:7: ",
		"a: [b, c\nd: 1\n":                "x:1:8: not valid YAML: did not find expected ',' or ']'; close the bracket",
		"a: {b: c?}\n":                    "x:1:9: not valid YAML: did not find expected ',' or '}'; close the bracket, and quote a text",
		"a: 1\n\tb: 2\n":                  "x:2:1: not valid YAML: found a tab character that violates indentation; indent with blanks",
		"a: 1\nb: @c\n":                   "x:2:4: not valid YAML: found character that cannot start any token; a text that begins with @",
		"a: \"\\d\"\n":                    "x:1:5: not valid YAML: found unknown escape character; in double quotes",
		"a: 1\nb: *none\n":                "x:2:4: not valid YAML: unknown anchor 'none' referenced; an alias",
		"a: 1\nb: 'c\nd: 2\n":             "x:2:4: not valid YAML: found unexpected end of stream; a quotation mark is not closed",
		"é: 1\nü: 'é' ö\n":                "x:2:8: not valid YAML: did not find expected key; look at the quotation marks",
		"a: 1\n---\nb: 2\n":               "x:2:1: not valid YAML: a second document begins here",
		"a: 1\nb: \xe9\n":                 "x:2:4: the file is not UTF-8 text from here on",
	} {
		r := &report{}
		parseYAML([]byte(text), &source{file: "x"}, r)
		if len(r.problems) != 1 || !strings.HasPrefix(r.problems[0].String(), want) {
			t.Errorf("%q: %v, want %s", text, r.problems, want)
		}
	}
}

func TestJSONTree(t *testing.T) {
	r := &report{}
	n := parseJSON([]byte("{\"a\": [1, -0, 1.0, 1e2,\n  \"\\ud83d\\ude00\\u0000\"], \"b\": 1, \"b\": {\"c\": null}}"), &source{file: "x"}, r)
	if n == nil {
		t.Fatal(r.problems)
	}
	want := map[string]any{"a": []any{int64(1), int64(0), 1.0, 100.0, "😀\x00"}, "b": map[string]any{"c": nil}}
	if !reflect.DeepEqual(n.value(), want) {
		t.Errorf("%#v", n.value())
	}
	if at := n.get("a").items[4]; at.line != 2 || at.column != 3 {
		t.Errorf("place %v", at.place())
	}
}
