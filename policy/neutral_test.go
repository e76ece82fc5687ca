package policy

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestNeutral(t *testing.T) {
	tests := []struct{ in, line, text string }{
		{"plain ~!@#", "plain ~!@#", "plain ~!@#"},
		{"日本 é 😀", "日本 é 😀", "日本 é 😀"},
		{"a\nb\tc", `a\nb\tc`, "a\nb\tc"},
		{"a\r\nb", `a\r\nb`, "a\\r\nb"},
		{"\x1b[31mred\x1b[0m", `\x1b[31mred\x1b[0m`, `\x1b[31mred\x1b[0m`},
		{"\x1b]0;title\x07", `\x1b]0;title\x07`, `\x1b]0;title\x07`},
		{"\u009b31m", `\u009b31m`, `\u009b31m`},
		{"\u202eabc\u202c\u2066x\u2069", `\u202eabc\u202c\u2066x\u2069`, `\u202eabc\u202c\u2066x\u2069`},
		{"a\u200bb\ufeffc\u00ad", `a\u200bb\ufeffc\u00ad`, `a\u200bb\ufeffc\u00ad`},
		{"a\u2028b\u2029c\u0085", `a\u2028b\u2029c\u0085`, `a\u2028b\u2029c\u0085`},
		{"\xff\xc0\xafx", `\xff\xc0\xafx`, `\xff\xc0\xafx`},
		{"\x00\x7f", `\x00\x7f`, `\x00\x7f`},
		{"\U000e0041", `\ue0041`, `\ue0041`},
	}
	for _, test := range tests {
		if got := Neutral(test.in); got != test.line {
			t.Errorf("Neutral(%q) = %q, want %q", test.in, got, test.line)
		}
		if got := NeutralText(test.in); got != test.text {
			t.Errorf("NeutralText(%q) = %q, want %q", test.in, got, test.text)
		}
	}
}

// TestNeutralField: nothing that a spreadsheet shows is a formula of the text.
func TestNeutralField(t *testing.T) {
	for in, want := range map[string]string{
		"":                           "",
		"plain; a=b, c-d":            "plain; a=b, c-d",
		"=HYPERLINK(\"http://e\")":   "'=HYPERLINK(\"http://e\")",
		"+1":                         "'+1",
		"-1+cmd|' /C calc'!A0":       "'-1+cmd|' /C calc'!A0",
		"@SUM(A1)":                   "'@SUM(A1)",
		"  =1":                       "'  =1",
		"\"=1\"":                     "'\"=1\"",
		"a;=1":                       "a;'=1",
		"a; \"-1;b;+2":               "a;' \"-1;b;'+2",
		"＝1":                         "'＝1",
		"\t=1":                       `\t=1`,
		"\r=1":                       `\r=1`,
		"\n=1\x1b[2J\u202e":          `\n=1\x1b[2J\u202e`,
		"'=1":                        "'=1",
		"no formula in it at all \n": `no formula in it at all \n`,
	} {
		if got := NeutralField(in); got != want {
			t.Errorf("NeutralField(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestClip(t *testing.T) {
	if got := Clip("ééééé", 5); got != "ééééé" {
		t.Errorf("%q", got)
	}
	if got := Clip("éééééé\x1b", 5); got != "ééééé... (2 more characters)" {
		t.Errorf("%q", got)
	}
}

func FuzzNeutral(f *testing.F) {
	for _, seed := range []string{"a", "\x1b[2J", "\u202e", "\xff", "\r\n", "\u2028", "\U000e0001", "=1;+2", "; \"@"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, part := range strings.Split(NeutralField(s), ";") {
			if first := strings.TrimLeft(part, ` "`); first != "" && strings.ContainsAny(first[:1], "=+-@") {
				t.Fatalf("%q is a formula", part)
			}
		}
		for _, out := range []string{Neutral(s), NeutralField(s), Clip(s, 10)} {
			if !utf8.ValidString(out) {
				t.Fatalf("%q is not UTF-8", out)
			}
			for _, r := range out {
				if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
					t.Fatalf("%q keeps %U", out, r)
				}
			}
		}
		if text := NeutralText(s); strings.ContainsAny(text, "\x1b\r\x00\u202e") {
			t.Fatalf("%q", text)
		}
	})
}
