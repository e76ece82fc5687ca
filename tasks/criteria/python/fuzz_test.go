package python_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"podgrade/tasks/criteria/python"
)

// FuzzCompileRegex: every pattern is translated or refused; a search ends in
// time and finds a part of the text.
func FuzzCompileRegex(f *testing.F) {
	for _, seed := range []string{
		`(?P<n>a)(?P=n)`, `a++b`, `(?>a|ab)c`, `x{,3}`, `(?<=a|b)c`, `(?<=a*)b`, `\N{BULLET}`, `[^\W\d]`, `(?i)[k-ſ]`, `(?a:\bé)`, `((a)?(?(2)b|c))+`, `[]-a]`, `(?x) a # b`, `(a|aa)+$`,
		`\141\08`, `[\ud800-\U0010ffff]`, `a{2147483648}`, `a{99999}{2}`, `(?:(?:a{1000}){1000}){1000}`, `(?-i:a)`, strings.Repeat("(", 200), strings.Repeat("a|", 100), `(?<!\b)\B`, "\xff",
	} {
		f.Add(seed, 0, "aab\n")
		f.Add(seed, python.FlagIgnoreCase|python.FlagMultiline, "ÀKſ aaaaaaaaaaaaaaaaaaaaaa!")
	}
	f.Fuzz(func(t *testing.T, pattern string, flags int, text string) {
		re, err := python.CompileRegex(pattern, flags)
		if err != nil {
			var syntax *python.SyntaxError
			var unsupported *python.UnsupportedError
			if !errors.As(err, &syntax) && !errors.As(err, &unsupported) {
				t.Errorf("%q: an error of another kind: %v", pattern, err)
			}
			return
		}
		re.SetTimeout(100 * time.Millisecond)
		started := time.Now()
		match, found, err := re.Search(text)
		if took := time.Since(started); took > 10*time.Second {
			t.Errorf("%q took %s", pattern, took)
		}
		if err == nil && found && utf8.ValidString(text) && !strings.Contains(text, match) {
			t.Errorf("%q found %q, which is not in %q", pattern, match, text)
		}
	})
}

// FuzzLoadJSON: what is read can be written, and reads back as equal.
func FuzzLoadJSON(f *testing.F) {
	for _, seed := range []string{`{"a": [1, 2.5, -0, 1e400, NaN, true, null, "\ud83d\ude00\u00e9"]}`, `[[[[`, `{"a":1,"a":2}`, "123456789012345678901234567890", `"\ud800"`, " 1 ", "01", "-", strings.Repeat("[", 2000), "\ufeff1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			return
		}
		value, err := python.LoadJSON(text)
		if err != nil {
			return
		}
		written, err := python.DumpJSON(value, false, python.MaxJSON)
		if err != nil {
			t.Fatalf("%q cannot be written: %v", text, err)
		}
		again, err := python.LoadJSON(written)
		if err != nil {
			t.Fatalf("%q was written as %q: %v", text, written, err)
		}
		if !strings.Contains(written, "NaN") && !python.Equal(value, again) {
			t.Errorf("%q reads back from %q as something else", text, written)
		}
		if _, err := python.Ordered(value, python.Less, again); err != nil && !errors.Is(err, python.ErrUnorderable) {
			t.Errorf("order of %q: %v", text, err)
		}
	})
}

// FuzzSplitShell: words are never longer together than the line.
func FuzzSplitShell(f *testing.F) {
	for _, seed := range []string{"", "a 'b c' \"d\\\"e\" f\\ g", "'", "\\", "\"\\x\"", "''", "a\tb\r\nc", "é'日'"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		words, err := python.SplitShell(line)
		if err == nil && utf8.ValidString(line) && len(strings.Join(words, "")) > len(line) {
			t.Errorf("%q splits into %q", line, words)
		}
	})
}

// FuzzNumbers: a float that is read is written so that it reads back.
func FuzzNumbers(f *testing.F) {
	for _, seed := range []string{"1", " -1_0.5e-3 ", "inf", "nan", "٣.٥", "0x1", "1__0", "1e999"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		value, err := python.ParseFloat(text)
		if err != nil {
			return
		}
		again, err := python.ParseFloat(python.FormatFloat(value))
		if err != nil || again != value && !(math.IsNaN(again) && math.IsNaN(value)) {
			t.Errorf("float(%q) is %v and reads back as %v (%v)", text, value, again, err)
		}
		if whole, err := python.ParseInt(text); err == nil && !math.IsInf(value, 0) && math.Abs(value) < 1<<53 && !python.Equal(whole, value) {
			t.Errorf("int(%q) is %v and float() is %v", text, whole, value)
		}
	})
}

// FuzzFnmatch: a name matches itself once its wildcards are in brackets.
func FuzzFnmatch(f *testing.F) {
	f.Add("a*b", "aXb")
	f.Add("[!a-]", "-")
	f.Add("[", "[")
	f.Add("***a***b", "aaaaaaaaaaaaaaaaaaac")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		python.Fnmatch(pattern, name)
		escaped := strings.NewReplacer("*", "[*]", "?", "[?]", "[", "[[]").Replace(name)
		if !python.Fnmatch(escaped, name) {
			t.Errorf("%q does not match %q", escaped, name)
		}
	})
}
