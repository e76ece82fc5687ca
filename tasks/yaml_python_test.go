package tasks

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"podgrade/tasks/internal/peer"
)

// yamlScript loads texts as upstream does and shows each tree as lists: the
// name of a type and str() of the value, a list of values, a list of pairs.
const yamlScript = `
import json, sys, yaml
def show(v):
    if isinstance(v, list):
        return ["list"] + [show(x) for x in v]
    if isinstance(v, dict):
        return ["dict"] + sorted([str(k), show(x)] for k, x in v.items())
    return [type(v).__name__, str(v)]
results = []
for text in json.load(sys.stdin):
    try:
        results.append({"tree": show(yaml.safe_load(text))})
    except Exception as error:
        results.append({"error": str(error) or "error"})
json.dump(results, sys.stdout)
`

type yamlResult struct {
	Error string
	Tree  any
}

// pythonTypes are the names of Python's types by kind.
var pythonTypes = map[kind]string{
	nullNode: "NoneType", boolNode: "bool", intNode: "int", floatNode: "float", stringNode: "str",
}

// shown is what yamlScript makes of a tree.
func shown(n *node) []any {
	switch n.kind {
	case listNode:
		out := []any{"list"}
		for _, item := range n.items {
			out = append(out, shown(item))
		}
		return out
	case mapNode:
		out := []any{}
		for _, p := range n.pairs {
			out = append(out, []any{p.key, shown(p.value)})
		}
		sortPairs(out)
		return append([]any{"dict"}, out...)
	case timeNode:
		name := "date"
		if strings.Contains(string(n.scalar.(Timestamp)), ":") {
			name = "datetime"
		}
		return []any{name, string(n.scalar.(Timestamp))}
	}
	text, _ := Str(n.value())
	return []any{pythonTypes[n.kind], text}
}

// yamlScalars are plain scalars: some by hand, the others of pieces that mean
// something in YAML 1.1.
func yamlScalars(g *rand.Rand, count int) []string {
	list := strings.Fields(`yes no on off y n true True TRUE tRUE null Null ~ 0 -0 +0 00 010 0o10 0x1F 0x 0b11 0b2 0b_ 09 1_000 1__0 _1 1_
		1:30 1:60 1:59 190:20:30 00:10 -1:30 +1:30 1:30.5 1:30:00.5 1:2:3:4 0:0 1e3 1.5e3 1.5e+3 1.5E-3 1.e+3 .5 5. . .. -.5 +.5 -.inf +.INF .iNF .nan .NaN -.nan
		.5e+3 685_230.15 1_._5 ._5 _.5 0.1.2 1.0.0 08.5 0.0 -0.0 1e400 1.0e+400 1.0e-400 = << 2001-01-01 2001-1-1 2001-12-14T21:59:43Z 2001-12-14t21:59:43.10-05:00
		2001-12-14T21:59:43.1234567Z 2001-12-14T1:59:43+1:30 2001-12-14T21:59:43+00:00 2001-13-01 0000-01-01 9999-12-31 2001-01-01T 20010-01-01 123456789012345678901234567890
		0x_f 0xfg -0x1f +0b1 0_7 0_8 1_:30 :1 a:b 1:a http://x a#b #`)
	list = append(list, "2001-12-14 21:59:43", "2001-12-14 21:59:43 +1", "2001-12-14  21:59:43.", "2001-12-14 21:59", "a b", "a: b", "- a", "? a", "a #b", "é", "日本", "\u2028", "a\tb", "0.1 ", "", "1 2", "@a", "`a", "%a", "&a 1", "*a", "!a 1", "!!str 1", "!!int \"1\"", "!!float 1", "!!bool yes", "!!null ''", "!!int a", "|", ">", "-", "--", "---", "...", "[", "{", "]", "}", ",", "a, b", "a]", "{a}", "[a", "'a", "\"a", "'a'b", "'a' b", "\"\\x41\\u00e9\\U0001F600\"", `"\e\0\a\b\t\n\v\f\r\N\_\L\P\/\\\""`, `"\q"`, `"\x4"`, `'it''s'`, `"a\
 b"`)
	alphabet := []string{"0", "1", "7", "9", "_", ".", ":", "-", "+", "e", "E", "x", "b", "o", "T", "Z", " ", "inf", "nan", "yes", "no", "2001-01-01", "12:30:45", "~", "a"}
	for len(list) < count {
		var b strings.Builder
		for range 1 + g.IntN(5) {
			b.WriteString(alphabet[g.IntN(len(alphabet))])
		}
		list = append(list, b.String())
	}
	return list
}

// yamlDocuments are documents of the shapes that task files have.
func yamlDocuments(g *rand.Rand, count int) []string {
	list := []string{
		"", "# only a comment\n", "---\n", "--- a\n", "a\n...\n", "%YAML 1.1\n---\na: 1\n", "%YAML 1.2\n---\na: 1\n", "---\na: 1\n---\nb: 2\n", "\ufeffa: 1\n",
		"a: 1\na: 2\n", "a: &x {p: 1}\nb: {<<: *x, q: 2}\n", "a: &x {p: 1}\nb:\n  <<: [*x, {p: 3, r: 4}]\n  r: 5\n", "<<: {a: 1}\nb: 2\n", "a: {<<: 1}\n", "<<: [1]\n", "a: *x\n", "a: &a [*a]\n",
		"? a\n: b\n", "? [a]\n: b\n", "? a\n", "{a, b: 1}\n", "{a: , b: }\n", "[a: 1, b]\n", "[a, , b]\n", "[a, b,]\n", "{a: 1,}\n", "[? a : b]\n", "{\"a\":1}\n", "{a:1}\n", "[a:1]\n", "[a :]\n", "[1 :, b]\n", "[yes\t:]\n", "[a b  :, {c :}]\n", "[a ::]\n", "[:]\n", "[ :]\n", "{'a':1, \"b\":2}\n", "{a : 1}\n",
		"a:\n- 1\n- 2\n", "a:\n  - b: 1\n    c: 2\n  -\n    - x\n  - - y\n    - z\n", "- - - a\n", "-\n-\n", "a:\n\tb: 1\n", "a:\tb\n", "- \ta\n", "a: b: c\n", "a: 'b': c\n", "a: - b\n", "a\nb: 1\n", "a: b\n c: d\n", "a: b\n c\n", "  a: 1\n b: 2\n",
		"a: |\n  x\n   y\n\n  z\n\n\nb: 1\n", "a: |-\n  x\n\n", "a: |+\n  x\n\n", "a: >\n  x\n  y\n\n  z\n   w\n  v\n", "a: >-\n  x\n", "a: >+\n  x\n\n", "a: |2\n   x\n", "a: |1-\n x\n", "a: |\n\n  x\n", "a: |\n   x\n  y\n", "a: | # c\n  x\n", "a: |x\n  y\n", "a: |0\n x\n", "a: |\nb: 1\n", "a: >\n\n\n", "- |\n x\n- >\n y\n", "a: |\n  #no comment\n  b\n", "|\n a\n", "a: |\n  x\n # c\nb: 1\n", "a: |\r\n  x\r\n  y\r\n", "a: |\n  x\\n\n",
		"a: 'x\n  y\n\n  z'\n", "a: \"x\n  y\\n\\\n   z \\\n  w\"\n", "a: x\n  y\n\n  z # c\n  w\n", "a: x\n  # c\n  y\n", "a: \"x\ny\"\n", "a: [x\n  y, z]\n", "a: [\nx,\ny\n]\n", "a: {\nx: 1\n}\n", "a: {x: 1\n}\n", "{\n# c\na: 1 # d\n}\n", "a: # c\n  b\n", "a: #\n", "a: 1 #b\n", "a: 1#b\n", "a: \"1\"#b\n", "#\n#\na: 1", "a: 1\n# end", "a: 1\n   \n", "a: 1\n\t\n", "a: \"\\\t\"\n",
		"a: !!str yes\n", "- \"\\/\\/\" # \\/\n- {a: x\\/y, 'b': '\\/', c: \"\\\\/ \\/z\"}\n- \"q\n  \\/w\"\n", "a: !!str\nb: 1\n", "a: !!seq [1]\n", "a: !!map {b: 1}\n", "a: ! 1\n", "a: !!int 010\n", "a: !!float .5\n", "a: !!null x\n", "a: &x\nb: *x\n", "a: &x y\n*x : z\n", "&k a: *k\n", "a: &a-b_c 1\nb: *a-b_c\n", "a: &é 1\nb: *é\n",
		"yes: 1\nno: 2\n010: 3\n~: 4\n1.5: 5\n2001-01-01: 6\n", "\"yes\": 1\n'no': 2\n", "a b: 1\n", "a:b: 1\n", "a\\b: 1\n", "'a\\b': 1\n", "a'b: 1\n", "a\"b: c\"d\n", "-a: -b\n", "?a: ?b\n", ":a: :b\n", "a: b,c\n", "a: [b]c\n", "a: x{y}\n", "a: *\n", "a: &\n", "a: !\n", "a: %x\n", "a: @x\n", "a: `x`\n", "a: - \n", "a: -1\n", "a: \\n\n", "a: x: \n", "a: 'x' 'y'\n", "a: ~\nb: \nc: null\n",
		"a: \"\\ud83d\\ude00\"\n", "a: \"\\ud83d\"\n", "a: \x01\n", "a: \x7f\n", "a: \u0085b\n", "a: \u00a0b\n", "a: x\u2028y\n", "a: \ufeffb\n", "a: \U0001F600\n", "a: \"\U0001F600\"\n", "\ta: 1\n", "a: 1\r\nb: 2\r\n", "a: 1\rb: 2\r", "a: 'x\r\n  y'\n",
	}
	pieces := []func(indent string, depth int) string{}
	scalars := []string{"yes", "x y", "010", "'a: b'", "\"\\n\"", "[a, 'b', {c: 1}]", "{k: v, l: [1, 2.5]}", "~", "1:30", "2001-01-01", "", "a#b", "x # c", "|\n%s  one\n%s   two\n", ">-\n%s  one\n%s  two\n\n%s  three\n", "'it''s\n%s  folded'", "plain\n%s  folded", "!!str 5", "http://x/y?z=1", "${row.x} $HOME", "*", "echo \"a\" && b", "- x", "a: b"}
	scalar := func(indent string) string {
		return strings.ReplaceAll(scalars[g.IntN(len(scalars))], "%s", indent)
	}
	block := func(indent string, depth int) string { return pieces[g.IntN(len(pieces))](indent, depth) }
	pieces = append(pieces,
		func(indent string, depth int) string { // mapping
			var b strings.Builder
			for i := range 1 + g.IntN(4) {
				key := []string{"key", "'quoted'", "\"q2\"", "on", "with space", "x.y", "2", "k-1"}[g.IntN(8)]
				if g.IntN(3) > 0 {
					key = fmt.Sprintf("k%d", i)
				}
				if depth > 0 && g.IntN(3) == 0 {
					fmt.Fprintf(&b, "%s%s:%s\n%s", indent, key, []string{"", " # c", " &a" + fmt.Sprint(g.IntN(100))}[g.IntN(3)], block(indent+"  ", depth-1))
					continue
				}
				fmt.Fprintf(&b, "%s%s: %s\n", indent, key, scalar(indent))
			}
			return b.String()
		},
		func(indent string, depth int) string { // list
			var b strings.Builder
			for range 1 + g.IntN(4) {
				if depth > 0 && g.IntN(3) == 0 {
					inner := block(indent+"  ", depth-1)
					fmt.Fprintf(&b, "%s- %s", indent, strings.TrimPrefix(inner, indent+"  "))
					continue
				}
				fmt.Fprintf(&b, "%s- %s\n", indent, scalar(indent))
			}
			return b.String()
		})
	for len(list) < count {
		list = append(list, block("", 3))
	}
	return list
}

// TestYAMLAgreesWithPython compares whole trees with what PyYAML makes of the
// same text.
func TestYAMLAgreesWithPython(t *testing.T) {
	g := rand.New(rand.NewPCG(11, 12))
	var texts []string
	for _, scalar := range yamlScalars(g, 800) {
		texts = append(texts, "v: "+scalar+"\n", "- "+scalar+"\n", "["+scalar+"]\n", scalar+": v\n")
	}
	texts = append(texts, yamlDocuments(g, 1500)...)
	var want []yamlResult
	peer.Ask(t, yamlScript, texts, &want)
	trees, wrong := 0, 0
	for i, text := range texts {
		r := &report{}
		n := parseYAML([]byte(text), &source{file: "x"}, r)
		problem := ""
		switch {
		case len(r.problems) > 0 && strings.Contains(text, `\ud83d`): // text that no file can hold
		case len(r.problems) > 0 && want[i].Error == "":
			problem = fmt.Sprintf("refused: %v\nPython: %v", r.problems[0], want[i].Tree)
		case len(r.problems) == 0 && lenient(want[i].Error):
		case len(r.problems) == 0 && want[i].Error != "":
			problem = fmt.Sprintf("loads: %v\nPython: %.300s", shown(n), want[i].Error)
		case want[i].Error != "":
		default:
			trees++
			ours := jsonRound(t, shown(n))
			if !reflect.DeepEqual(ours, want[i].Tree) {
				problem = fmt.Sprintf("%v\nPython: %v", ours, want[i].Tree)
			}
		}
		if problem != "" {
			wrong++
			t.Errorf("%q: %s", text, problem)
		}
	}
	t.Logf("%d texts, %d trees, %d wrong", len(texts), trees, wrong)
	if trees < 1500 {
		t.Errorf("%d trees compared, want at least 1500", trees)
	}
}

// lenient tells what Python refuses and we read in the one way that it can
// be meant.
func lenient(refusal string) bool {
	return strings.Contains(refusal, `found character '\t' that cannot start any token`) || strings.Contains(refusal, "found duplicate anchor")
}

// jsonRound gives a value the types that JSON decodes into.
func jsonRound(t *testing.T, v any) (out any) {
	t.Helper()
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func sortPairs(pairs []any) {
	for i := range pairs {
		for j := i; j > 0 && pairs[j].([]any)[0].(string) < pairs[j-1].([]any)[0].(string); j-- {
			pairs[j], pairs[j-1] = pairs[j-1], pairs[j]
		}
	}
}
