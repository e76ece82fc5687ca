package policy

import (
	"strings"
	"unicode/utf8"
)

// formulaStarts are what a spreadsheet takes for the beginning of a formula,
// some of them in its full-width form too.
const formulaStarts = "=+-@＝＋－＠"

// NeutralField is Neutral for a field of a table that a spreadsheet may open:
// what would be a formula there, after spaces and quotes too, gets an apostrophe
// before it. Where semicolons are what separates fields, one of ours is several.
func NeutralField(s string) string {
	s = Neutral(s)
	if !strings.ContainsAny(s, formulaStarts) {
		return s
	}
	parts := strings.Split(s, ";")
	for i, part := range parts {
		if first, _ := utf8.DecodeRuneInString(strings.TrimLeft(part, ` "`)); strings.ContainsRune(formulaStarts, first) {
			parts[i] = "'" + part
		}
	}
	return strings.Join(parts, ";")
}
