package python_test

import (
	"math/rand/v2"
	"testing"
	"unicode"

	"podgrade/tasks/criteria/python"
	"podgrade/tasks/internal/peer"
)

const classScript = `
import json, re, sys, unicodedata
# What one version of Unicode has and the other has not cannot agree.
chars = [c for c in map(chr, json.load(sys.stdin)) if unicodedata.category(c) != "Cn"]
out = {"chars": "".join(chars)}
for name, text in [("word", "\\w"), ("digit", "\\d"), ("space", "\\s"), ("ascii_word", "(?a)\\w"), ("ascii_space", "(?a)\\s")]:
    pattern = re.compile(text)
    out[name] = "".join(c for c in chars if pattern.match(c))
out["isspace"] = "".join(c for c in chars if c.isspace())
out["lower"] = [c.lower() for c in chars]
json.dump(out, sys.stdout)
`

// TestClassesAgreeWithPython compares the classes, white space and lower case
// over all of Unicode.
func TestClassesAgreeWithPython(t *testing.T) {
	var points []int
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if !unicode.Is(unicode.Cs, r) && !unicode.Is(unicode.Co, r) && unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z, unicode.C) {
			points = append(points, int(r))
		}
	}
	var want struct {
		Chars      string   `json:"chars"`
		Word       string   `json:"word"`
		Digit      string   `json:"digit"`
		Space      string   `json:"space"`
		ASCIIWord  string   `json:"ascii_word"`
		ASCIISpace string   `json:"ascii_space"`
		IsSpace    string   `json:"isspace"`
		Lower      []string `json:"lower"`
	}
	peer.Ask(t, classScript, points, &want)
	for pattern, expected := range map[string]string{
		`\w`: want.Word, `\d`: want.Digit, `\s`: want.Space, `(?a)\w`: want.ASCIIWord, `(?a)\s`: want.ASCIISpace,
	} {
		re, err := python.CompileRegex(`\A(?:`+pattern+`)\Z`, 0)
		if pattern[0] == '(' {
			re, err = python.CompileRegex(pattern+`\Z`, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		members := map[rune]bool{}
		for _, r := range expected {
			members[r] = true
		}
		differ := 0
		for _, r := range want.Chars {
			_, found, err := re.Search(string(r))
			if err != nil {
				t.Fatal(err)
			}
			if found != members[r] && differ < 5 {
				differ++
				t.Errorf("%s and %U: %v, and Python %v", pattern, r, found, members[r])
			}
		}
	}
	spaces := map[rune]bool{}
	for _, r := range want.IsSpace {
		spaces[r] = true
	}
	for i, r := range []rune(want.Chars) {
		if python.IsSpace(r) != spaces[r] {
			t.Errorf("IsSpace(%U) is %v", r, !spaces[r])
		}
		if got := python.Lower(string(r)); got != want.Lower[i] {
			t.Errorf("Lower(%U) is %q, and in Python %q", r, got, want.Lower[i])
		}
	}
	t.Logf("%d characters", len(want.Lower))
}

const caseScript = `
import json, re, sys
pairs = json.load(sys.stdin)
json.dump([bool(re.fullmatch(re.escape(a), b, re.I)) for a, b in pairs], sys.stdout)
`

// TestIgnoreCaseAgreesWithPython compares each cased character with all that
// could be equal to it, and with some that are not.
func TestIgnoreCaseAgreesWithPython(t *testing.T) {
	var cased []rune
	byFold := map[rune][]rune{}
	for r := rune(0); r < 0x20000; r++ {
		if unicode.SimpleFold(r) == r && unicode.ToLower(r) == r && unicode.ToUpper(r) == r {
			continue
		}
		if unicode.Is(unicode.Cn, r) {
			continue
		}
		cased = append(cased, r)
		byFold[unicode.ToUpper(unicode.ToLower(r))] = append(byFold[unicode.ToUpper(unicode.ToLower(r))], r)
	}
	g := rand.New(rand.NewPCG(3, 4))
	var pairs [][2]string
	for _, r := range cased {
		others := append([]rune{unicode.ToLower(r), unicode.ToUpper(r), unicode.ToTitle(r), unicode.SimpleFold(r), cased[g.IntN(len(cased))]},
			byFold[unicode.ToUpper(unicode.ToLower(r))]...)
		for _, other := range others {
			pairs = append(pairs, [2]string{string(r), string(other)})
		}
	}
	for _, special := range []string{"\u0390\u1FD3", "\u03B0\u1FE3", "\uFB05\uFB06", "ßẞ", "iİ", "ıI", "kK", "sſ", "åÅ"} {
		pair := []rune(special)
		pairs = append(pairs, [2]string{string(pair[0]), string(pair[1])}, [2]string{string(pair[1]), string(pair[0])})
	}
	var want []bool
	peer.Ask(t, caseScript, pairs, &want)
	differ := 0
	for i, pair := range pairs {
		re, err := python.CompileRegex(`\A\`+pair[0]+`\Z`, python.FlagIgnoreCase)
		if pair[0][0] < 0x80 {
			re, err = python.CompileRegex(`\A`+pair[0]+`\Z`, python.FlagIgnoreCase)
		}
		if err != nil {
			t.Fatal(err)
		}
		_, found, err := re.Search(pair[1])
		if err != nil {
			t.Fatal(err)
		}
		if found != want[i] && differ < 20 {
			differ++
			t.Errorf("%q and %q are equal: %v, and in Python %v", pair[0], pair[1], found, want[i])
		}
	}
	t.Logf("%d pairs", len(pairs))
}
