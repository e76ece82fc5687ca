package python_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"podgrade/tasks/criteria/python"
	"podgrade/tasks/internal/peer"
)

// subCase is one call of re.sub.
type subCase struct {
	Pattern     string `json:"pattern"`
	Replacement string `json:"replacement"`
	Text        string `json:"text"`
}

const subScript = `
import json, re, sys
results = []
for case in json.load(sys.stdin):
    try:
        results.append(re.sub(case["pattern"], case["replacement"], case["text"]))
    except Exception as error:
        results.append(None)
json.dump(results, sys.stdout)
`

// Parts of the cases: patterns with at most three groups, and replacements
// that name groups that are there and others that are not.
var (
	subPatterns = []string{
		"a", "(a)(b)?", "(?P<x>a|b)", "|a", "a|", "x*", "a*?", "(?=a)", "(?<=a)", "^", "$", `\b`, "(?m)^", "(?m)$", "(?i)A", `(\w)(\W?)(\w*)`,
		"(?P<x>a)(?P<y>b*)", "(a|)(b|)", "(?:)", `\A`, `\Z`, "a++", "[^a]*", "(?s).", "(a*)*", "(?=(a))", "(",
	}
	subReplacements = []string{
		"", "-", `<\g<0>>`, `\1`, `\2`, `[\1|\2|\3]`, `\g<x>`, `\g<1>!`, `\n`, `\t\\`, `\0`, `\07`, `\012`, `\101`, `\377`, `\400`, `\18`, `\08`, `\q`, `\.`, `\`, `\g`, `\g<`, `\g<>`,
		`\g<nope>`, `\g<9>`, `\g<01>`, `\g<-1>`, `\g<1x>`, `é\g<0>`, `\g<y>`, `\11`, `\é`,
	}
	subTexts = []string{"", "a", "ab", "aab ba\nab", "AbAb", "xaxbx", "é日a😀b", "\n\n", "aaa\n"}
)

// TestSubAgreesWithPython compares generated calls.
func TestSubAgreesWithPython(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 2))
	var cases []subCase
	for _, pattern := range subPatterns {
		for _, replacement := range subReplacements {
			cases = append(cases, subCase{pattern, replacement, subTexts[random.IntN(len(subTexts))]})
		}
		for _, text := range subTexts {
			cases = append(cases, subCase{pattern, `<\g<0>>`, text})
		}
	}
	var want []*string
	peer.Ask(t, subScript, cases, &want)
	if len(cases) < 500 || len(want) != len(cases) {
		t.Fatalf("%d cases, %d answers", len(cases), len(want))
	}
	for i, c := range cases {
		got, err := python.Sub(c.Pattern, c.Replacement, c.Text)
		switch {
		case (err != nil) != (want[i] == nil):
			t.Errorf("re.sub(%q, %q, %q): %v, Python refuses: %v", c.Pattern, c.Replacement, c.Text, err, want[i] == nil)
		case err == nil && got != *want[i]:
			t.Errorf("re.sub(%q, %q, %q) is %q, want %q", c.Pattern, c.Replacement, c.Text, got, *want[i])
		}
	}
}

func TestSubIsBounded(t *testing.T) {
	for _, c := range []subCase{
		{"a", strings.Repeat("x", 1<<20), strings.Repeat("a", 1000)},
		{"a", "b", strings.Repeat("c", python.MaxText+1)},
	} {
		if _, err := python.Sub(c.Pattern, c.Replacement, c.Text); !errors.Is(err, python.ErrTextTooLong) {
			t.Errorf("a text of %d bytes: %v", len(c.Text), err)
		}
	}
}

// FuzzSub: no call breaks, and a replacement by the match itself changes
// nothing.
func FuzzSub(f *testing.F) {
	for _, pattern := range subPatterns {
		f.Add(pattern, `\1`, "aab ba")
	}
	for _, replacement := range subReplacements {
		f.Add("(a)|b", replacement, "ab")
	}
	f.Fuzz(func(t *testing.T, pattern, replacement, text string) {
		if len(pattern) > 200 || len(text) > 200 {
			return // the search is what FuzzRegex is for
		}
		python.Sub(pattern, replacement, text)
		text = strings.ToValidUTF8(text, "?")
		if same, err := python.Sub(pattern, `\g<0>`, text); err == nil && same != text {
			t.Errorf("re.sub(%q, %q, %q) is %q", pattern, `\g<0>`, text, same)
		}
	})
}
