package python

import (
	"strconv"
	"strings"
	"sync"
	"unicode"

	"golang.org/x/text/unicode/runenames"
)

// lookupName is unicodedata.lookup for names of single characters.
func lookupName(name string) (rune, bool) {
	name = strings.ToUpper(name)
	if digits, ok := strings.CutPrefix(name, "CJK UNIFIED IDEOGRAPH-"); ok {
		value, err := strconv.ParseUint(digits, 16, 32)
		if len(digits) < 4 || len(digits) > 5 || err != nil || !unicode.Is(unicode.Unified_Ideograph, rune(value)) {
			return 0, false
		}
		return rune(value), true
	}
	if syllable, ok := strings.CutPrefix(name, "HANGUL SYLLABLE "); ok {
		return hangulSyllable(syllable)
	}
	r, ok := characterNames()[name]
	return r, ok
}

// characterNames maps the names of Unicode to their characters. Only a pattern
// with \N{} pays for it.
var characterNames = sync.OnceValue(func() map[string]rune {
	names := map[string]rune{}
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if name := runenames.Name(r); name != "" && !strings.HasPrefix(name, "<") {
			names[name] = r
		}
	}
	for name, r := range controlNames {
		names[name] = r
	}
	return names
})

// controlNames are aliases of characters without a name of their own, and the
// usual abbreviations (NameAliases.txt).
var controlNames = map[string]rune{
	"NULL": 0x00, "NUL": 0x00, "ALERT": 0x07, "BEL": 0x07, "BACKSPACE": 0x08,
	"CHARACTER TABULATION": 0x09, "HORIZONTAL TABULATION": 0x09, "TAB": 0x09,
	"LINE FEED": 0x0A, "NEW LINE": 0x0A, "LF": 0x0A, "NL": 0x0A,
	"LINE TABULATION": 0x0B, "VERTICAL TABULATION": 0x0B, "FORM FEED": 0x0C, "FF": 0x0C,
	"CARRIAGE RETURN": 0x0D, "CR": 0x0D, "ESCAPE": 0x1B, "ESC": 0x1B, "DELETE": 0x7F, "DEL": 0x7F,
	"NEXT LINE": 0x85, "NEL": 0x85, "NBSP": 0xA0, "ZWNJ": 0x200C, "ZWJ": 0x200D,
	"BYTE ORDER MARK": 0xFEFF, "BOM": 0xFEFF, "ZWNBSP": 0xFEFF,
}

// Parts of the names of Hangul syllables, in the order of their code points
// (Unicode 3.12).
var (
	hangulLeads  = []string{"G", "GG", "N", "D", "DD", "R", "M", "B", "BB", "S", "SS", "", "J", "JJ", "C", "K", "T", "P", "H"}
	hangulVowels = []string{"A", "AE", "YA", "YAE", "EO", "E", "YEO", "YE", "O", "WA", "WAE", "OE", "YO", "U", "WEO", "WE", "WI", "YU", "EU", "YI", "I"}
	hangulTails  = []string{"", "G", "GG", "GS", "N", "NJ", "NH", "D", "L", "LG", "LM", "LB", "LS", "LT", "LP", "LH", "M", "B", "BS", "S", "SS", "NG", "J", "C", "K", "T", "P", "H"}
)

// hangulSyllable finds a syllable by the end of its name.
func hangulSyllable(name string) (rune, bool) {
	for lead, l := range hangulLeads {
		for vowel, v := range hangulVowels {
			tail, ok := strings.CutPrefix(name, l+v)
			if !ok {
				continue
			}
			for i, t := range hangulTails {
				if tail == t {
					return rune(0xAC00 + (lead*len(hangulVowels)+vowel)*len(hangulTails) + i), true
				}
			}
		}
	}
	return 0, false
}
