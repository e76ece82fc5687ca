package policy

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Neutral makes a string of a record, an image or a cell safe to print on one
// line: control characters, escape sequences, invisible and direction-changing
// characters and bytes that are not UTF-8 are written as escapes.
func Neutral(s string) string { return neutral(s, false) }

// NeutralText is Neutral for a text of several lines: line feeds and tabs stay.
func NeutralText(s string) string { return neutral(s, true) }

func neutral(s string, lines bool) string {
	if isPlain(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case lines && (r == '\n' || r == '\t'):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x80 && unicode.IsControl(r):
			fmt.Fprintf(&b, `\x%02x`, r)
		case !visible(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// isPlain is the quick way out: printable ASCII only.
func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

// visible tells whether a character shows as itself and moves nothing around
// it. unicode.IsPrint leaves out controls, format characters (which hold the
// bidirectional ones), separators, private use and unassigned code points.
func visible(r rune) bool {
	return unicode.IsPrint(r) && !unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) &&
		!unicode.Is(unicode.Variation_Selector, r)
}

// Clip is Neutral, shortened to about the given number of characters with a
// note of how many are left out.
func Clip(s string, most int) string {
	kept, n := 0, 0
	for kept < len(s) && n < most {
		_, size := utf8.DecodeRuneInString(s[kept:])
		kept += size
		n++
	}
	if more := utf8.RuneCountInString(s[kept:]); more > 0 {
		return fmt.Sprintf("%s... (%d more characters)", Neutral(s[:kept]), more)
	}
	return Neutral(s)
}
