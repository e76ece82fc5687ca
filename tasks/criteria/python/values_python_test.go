package python_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"podgrade/tasks/criteria/python"
	"podgrade/tasks/internal/peer"
)

const floatScript = `
import json, sys, math
cases = json.load(sys.stdin)
def parse(text, kind):
    try:
        return repr(kind(text))
    except Exception:
        return "error"
json.dump({
    "floats": [parse(t, float) for t in cases["texts"]],
    "ints": [parse(t, int) for t in cases["texts"]],
    "reprs": [repr(float.fromhex(t)) for t in cases["numbers"]],
}, sys.stdout)
`

// numberTexts are texts that are, or look like, numbers.
func numberTexts(g *rand.Rand, count int) []string {
	fixed := []string{
		"", " ", "0", "-0", "+1", "1.", ".5", ".", "-.5e1", "1e5", "1E+5", "1e", "e1", "1e1.5", "1_000", "1__0", "_1", "1_", "1_.5", "1._5", "1e1_0",
		"inf", "-Infinity", "+INF", "nan", "-NaN", "infinit", "nan1", "0x10", "1 2", " 1\n", "\u00a01\u3000", "\x1c1", "\u200b1", "٣", "٣.٥", "१२", "²", "½", "1e400", "-1e400", "1e-400",
		"0.1", "1e16", "123456789012345678901234567890", "9007199254740993", "--1", "+-1", "1+", "1,5", "0b1", "00012", "1e٣", "𝟗", "12\x00", "１２",
	}
	alphabet := []string{"0", "1", "9", "5", ".", "e", "E", "+", "-", "_", " ", "٣", "\t", "n", "i"}
	texts := fixed
	for len(texts) < count {
		var b strings.Builder
		for range 1 + g.IntN(7) {
			b.WriteString(alphabet[g.IntN(len(alphabet))])
		}
		texts = append(texts, b.String())
	}
	return texts
}

// TestNumbersAgreeWithPython compares float(), int() and repr() of floats.
func TestNumbersAgreeWithPython(t *testing.T) {
	g := rand.New(rand.NewPCG(5, 6))
	texts := numberTexts(g, 800)
	var numbers []float64
	var hexadecimal []string
	for _, f := range []float64{0, math.Copysign(0, -1), 1, 0.1, 1e16, 1e15, 9999999999999998, 1e-4, 1e-5, 123456.789, 5e-324, math.MaxFloat64, 1e22, 1e23, 2.5} {
		numbers = append(numbers, f, -f)
	}
	for len(numbers) < 800 {
		if f := math.Float64frombits(g.Uint64()); !math.IsNaN(f) && !math.IsInf(f, 0) {
			numbers = append(numbers, f)
		}
		numbers = append(numbers, math.Round(g.NormFloat64()*1e6)/1e3, float64(g.Int64N(1<<60)))
	}
	for _, f := range numbers {
		hexadecimal = append(hexadecimal, strconv.FormatFloat(f, 'x', -1, 64))
	}
	var want struct {
		Floats []string `json:"floats"`
		Ints   []string `json:"ints"`
		Reprs  []string `json:"reprs"`
	}
	peer.Ask(t, floatScript, map[string]any{"texts": texts, "numbers": hexadecimal}, &want)
	for i, text := range texts {
		got := "error"
		if f, err := python.ParseFloat(text); err == nil {
			got = python.FormatFloat(f)
		}
		if got != want.Floats[i] {
			t.Errorf("float(%q) is %s, and in Python %s", text, got, want.Floats[i])
		}
		got = "error"
		if v, err := python.ParseInt(text); err == nil {
			got = fmt.Sprint(v)
		}
		if got != want.Ints[i] {
			t.Errorf("int(%q) is %s, and in Python %s", text, got, want.Ints[i])
		}
	}
	for i, f := range numbers {
		if got := python.FormatFloat(f); got != want.Reprs[i] {
			t.Errorf("repr(%g) is %s, and in Python %s", f, got, want.Reprs[i])
		}
	}
}

const jsonScript = `
import json, operator, sys
sys.setrecursionlimit(5000)
def load(text):
    try:
        return json.loads(text, parse_constant=float), True
    except Exception:
        return None, False
def attempt(function, *arguments):
    try:
        return "yes" if function(*arguments) else "no"
    except Exception:
        return "error"
cases, out = json.load(sys.stdin), []
for first, second in cases:
    a, ok = load(first)
    b, also = load(second)
    row = {"ok": ok, "also": also, "dump": "", "compact": "", "answers": None}
    if ok:
        row["dump"] = json.dumps(a)
        row["compact"] = json.dumps(a, separators=(",", ":"))
    if ok and also:
        row["answers"] = [attempt(f, a, b) for f in (operator.eq, operator.lt, operator.le, operator.gt, operator.ge, operator.contains)]
    out.append(row)
json.dump(out, sys.stdout)
`

// jsonText writes a JSON text, or something near to one.
func jsonText(g *rand.Rand, depth int) string {
	scalars := []string{
		"null", "true", "false", "0", "1", "1.0", "-0", "-0.0", "2", "10", "1e2", "100", "0.1", "1E400", "-1e400", "NaN", "Infinity", "-Infinity",
		"9007199254740993", "9007199254740992.0", "9007199254740993.0", "123456789012345678901234567890", "1e30", "1000000000000000019884624838656",
		`""`, `"a"`, `"b"`, `"ab"`, `"é"`, `"\u00e9"`, `"😀"`, `"\ud83d\ude00"`, `"\/\b\f\n\r\t\"\\"`, `"\u007f"`, `"a\u0000"`, `"１"`, "\"\x7f\"",
	}
	wrong := []string{"", " ", "01", "1.", ".5", "+1", "-", "1e", "tru", "'a'", "{a:1}", "[1,]", "{,}", "[1 2]", `{"a" 1}`, `"\x"`, `"\u12"`, "\"\n\"", "nan", "inf", "\ufeff1", "1 1", "[", `{"a":`, `"`, "--1", "0x1", "\v1", "\u00a01"}
	switch n := g.IntN(20); {
	case n == 0:
		return wrong[g.IntN(len(wrong))]
	case n < 12 || depth > 3:
		return scalars[g.IntN(len(scalars))]
	case n < 16:
		var parts []string
		for range g.IntN(4) {
			parts = append(parts, jsonText(g, depth+1))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	var parts []string
	for range g.IntN(4) {
		parts = append(parts, []string{`"a"`, `"b"`, `"c"`, `""`}[g.IntN(4)]+":\t"+jsonText(g, depth+1))
	}
	return "{" + strings.Join(parts, "\n,") + "}"
}

// TestJSONAgreesWithPython compares loading, writing, equality, order and
// membership of JSON values.
func TestJSONAgreesWithPython(t *testing.T) {
	g := rand.New(rand.NewPCG(7, 8))
	var cases [][2]string
	for len(cases) < 3000 {
		a, b := jsonText(g, 0), jsonText(g, 0)
		if g.IntN(6) == 0 {
			b = a
		}
		cases = append(cases, [2]string{a, b})
	}
	cases = append(cases, [2]string{`{"a":1,"a":2}`, `{"a":2}`}, [2]string{`{"b":1,"a":2,"b":3}`, `{"a":2,"b":3}`},
		[2]string{`["\ud800"]`, "1"}, [2]string{strings.Repeat("[", 300) + strings.Repeat("]", 300), "[]"})
	var want []struct {
		OK      bool     `json:"ok"`
		Also    bool     `json:"also"`
		Dump    string   `json:"dump"`
		Compact string   `json:"compact"`
		Answers []string `json:"answers"`
	}
	peer.Ask(t, jsonScript, cases, &want)
	compared := 0
	for i, c := range cases {
		a, errA := python.LoadJSON(c[0])
		b, errB := python.LoadJSON(c[1])
		if (errA == nil) != want[i].OK || (errB == nil) != want[i].Also {
			t.Errorf("loads(%q), loads(%q): %v, %v, and Python %v, %v", c[0], c[1], errA, errB, want[i].OK, want[i].Also)
			continue
		}
		if errA != nil {
			continue
		}
		if !strings.Contains(c[0], "ud800") { // a lone surrogate is no text of Go
			for _, compact := range []bool{false, true} {
				got, err := python.DumpJSON(a, compact, python.MaxJSON)
				if expected := map[bool]string{false: want[i].Dump, true: want[i].Compact}[compact]; got != expected || err != nil {
					t.Errorf("dumps(%q) is %q (%v), and in Python %q", c[0], got, err, expected)
				}
			}
		}
		if errB != nil {
			continue
		}
		compared++
		if got := answers(a, b); fmt.Sprint(got) != fmt.Sprint(want[i].Answers) {
			t.Errorf("%q against %q: ==, <, <=, >, >=, in: %v, and in Python %v", c[0], c[1], got, want[i].Answers)
		}
	}
	t.Logf("%d pairs compared", compared)
	if compared < 500 {
		t.Errorf("%d pairs compared, want at least 500", compared)
	}
}

// answers are what jsonScript asks.
func answers(a, b any) []string {
	word := func(holds bool, err error) string {
		switch {
		case errors.Is(err, python.ErrUnorderable):
			return "error"
		case holds:
			return "yes"
		}
		return "no"
	}
	out := []string{word(python.Equal(a, b), nil)}
	for _, operator := range []string{python.Less, python.LessEqual, python.Greater, python.GreaterEqual} {
		out = append(out, word(python.Ordered(a, operator, b)))
	}
	return append(out, word(python.Contains(a, b)))
}

const textScript = `
import base64, difflib, json, shlex, sys, io
cases, out = json.load(sys.stdin), {}
def attempt(function, argument):
    try:
        return function(argument)
    except Exception as error:
        return None
out["shlex"] = [attempt(shlex.split, t) for t in cases["lines"]]
raw = [base64.b64decode(t) for t in cases["bytes"]]
def strict(data):
    try:
        return [data.decode("utf-8"), ""]
    except UnicodeDecodeError as error:
        return ["", str(error)]
out["strict"] = [strict(d) for d in raw]
out["replace"] = [io.TextIOWrapper(io.BytesIO(d), "utf-8", "replace").read() for d in raw]
out["strip"] = [t.strip() for t in out["replace"]]
out["lower"] = [t.lower() for t in out["replace"]]
out["cut"] = [t[:5] for t in out["replace"]]
out["ratio"] = [difflib.SequenceMatcher(None, a, b).ratio() for a, b in cases["pairs"]]
json.dump(out, sys.stdout)
`

// TestTextsAgreeWithPython compares shlex.split, decoding with universal
// newlines, strip, lower, slices and difflib's ratio.
func TestTextsAgreeWithPython(t *testing.T) {
	g := rand.New(rand.NewPCG(9, 10))
	from := func(alphabet []string, length int) string {
		var b strings.Builder
		for range g.IntN(length + 1) {
			b.WriteString(alphabet[g.IntN(len(alphabet))])
		}
		return b.String()
	}
	shell := []string{"a", "b", " ", " ", "'", "\"", "\\", "\t", "\n", "\r", "#", "$x", "é", ";", "\u00a0", "-c", "sh", "''", "\"\""}
	bytesOf := []string{"a", "é", "日", "😀", "\r\n", "\r", "\n", "\xff", "\xc3", "\xe2\x82", "\xf0\x9f\x98", "\xed\xa0\x80", "\xc0\x80", "\x80", " ", "\x1c", "\u3000", "Σ", "ΑΣ", "İ", "\ufeff", "\xf4\x90\x80\x80", "\xe0\x80", "ΟΔΥΣΣΕΥΣ.", "'"}
	kinds := []string{"Name", "Load", "Call", "Constant", "Assign", "Expr", "Attribute", "If", "For", "Return"}
	var input struct {
		Lines []string      `json:"lines"`
		Bytes [][]byte      `json:"bytes"`
		Pairs [][2][]string `json:"pairs"`
	}
	for range 800 {
		input.Lines = append(input.Lines, from(shell, 10))
		input.Bytes = append(input.Bytes, []byte(from(bytesOf, 8)))
	}
	for i := range 500 {
		size := []int{3, 12, 60, 250, 400}[i%5]
		var pair [2][]string
		for side := range pair {
			pair[side] = []string{}
			for range g.IntN(size + 1) {
				kind := kinds[g.IntN(len(kinds))]
				if g.IntN(3) == 0 {
					kind += strconv.Itoa(g.IntN(80))
				}
				pair[side] = append(pair[side], kind)
			}
		}
		if g.IntN(3) == 0 {
			pair[1] = append(append([]string{}, pair[0][len(pair[0])/2:]...), pair[1]...)
		}
		input.Pairs = append(input.Pairs, pair)
	}
	var want struct {
		Shlex   []*[]string `json:"shlex"`
		Strict  [][2]string `json:"strict"`
		Replace []string    `json:"replace"`
		Strip   []string    `json:"strip"`
		Lower   []string    `json:"lower"`
		Cut     []string    `json:"cut"`
		Ratio   []float64   `json:"ratio"`
	}
	peer.Ask(t, textScript, input, &want)
	for i, line := range input.Lines {
		words, err := python.SplitShell(line)
		if expected := want.Shlex[i]; (err == nil) != (expected != nil) || expected != nil && fmt.Sprintf("%q", words) != fmt.Sprintf("%q", *expected) {
			t.Errorf("shlex.split(%q) is %q (%v), and in Python %v", line, words, err, expected)
		}
	}
	for i, data := range input.Bytes {
		text, err := python.DecodeStrict(data)
		if err != nil && err.Error() != strings.NewReplacer("bytes", "byte").Replace(want.Strict[i][1]) && !strings.Contains(want.Strict[i][1], "-") || (err == nil) != (want.Strict[i][1] == "") || text != want.Strict[i][0] {
			t.Errorf("decode(%q) is %q (%v), and in Python %q", data, text, err, want.Strict[i])
		}
		got := python.Newlines(python.DecodeReplace(data))
		cut, _ := python.Cut(got, 5)
		for _, pair := range [][2]string{{got, want.Replace[i]}, {python.Strip(got), want.Strip[i]}, {python.Lower(got), want.Lower[i]}, {cut, want.Cut[i]}} {
			if pair[0] != pair[1] {
				t.Errorf("of %q: %q, and in Python %q", data, pair[0], pair[1])
			}
		}
	}
	for i, pair := range input.Pairs {
		if got, err := python.SequenceRatio(pair[0], pair[1]); got != want.Ratio[i] || err != nil {
			t.Errorf("ratio of %d and %d elements is %v (%v), and in Python %v", len(pair[0]), len(pair[1]), got, err, want.Ratio[i])
		}
	}
}
