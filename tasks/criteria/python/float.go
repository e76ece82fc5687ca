package python

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"unicode"

	"podgrade/tasks"
)

// ErrNotFloat is the error of ParseFloat for a text that is no number.
var ErrNotFloat = errors.New("could not convert string to float")

// ParseFloat is float(text): white space around, single underscores between
// digits, any Unicode decimal digits, "inf", "infinity" and "nan" in any case;
// no hexadecimal. A number that is too large is infinity, without an error.
func ParseFloat(text string) (float64, error) {
	ascii, ok := asciiDigits(stripNumber(text))
	if !ok {
		return 0, ErrNotFloat
	}
	ascii, ok = dropUnderscores(ascii)
	if !ok {
		return 0, ErrNotFloat
	}
	unsigned := strings.ToLower(strings.TrimLeft(ascii, "+-"))
	if len(ascii)-len(unsigned) > 1 {
		return 0, ErrNotFloat
	}
	switch unsigned {
	case "inf", "infinity", "nan":
	default:
		if !decimalLiteral(unsigned) {
			return 0, ErrNotFloat
		}
	}
	value, err := strconv.ParseFloat(ascii, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		// Go takes no sign before nan; Python does.
		if unsigned == "nan" {
			return math.NaN(), nil
		}
		return 0, ErrNotFloat
	}
	return value, nil
}

// stripNumber strips what Python strips of a number: of an ASCII text the white
// space of C only, without the separators U+001C to U+001F.
func stripNumber(text string) string {
	for i := range len(text) {
		if text[i] >= 0x80 {
			return Strip(text)
		}
	}
	return strings.Trim(text, " \t\n\v\f\r")
}

// asciiDigits replaces every decimal digit by its ASCII one. It says no when
// a character remains that is not ASCII.
func asciiDigits(text string) (string, bool) {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r < 0x80:
			b.WriteRune(r)
		case unicode.Is(unicode.Nd, r):
			b.WriteByte(byte('0' + decimalValue(r)))
		default:
			return "", false
		}
	}
	return b.String(), true
}

// decimalValue is the value of a decimal digit. Unicode keeps such digits in
// runs of ten that start with zero; a run may follow another directly.
func decimalValue(r rune) int {
	start := r
	for unicode.Is(unicode.Nd, start-1) {
		start--
	}
	return int(r-start) % 10
}

func dropUnderscores(text string) (string, bool) {
	if !strings.Contains(text, "_") {
		return text, true
	}
	digit := func(i int) bool { return i >= 0 && i < len(text) && text[i] >= '0' && text[i] <= '9' }
	for i := range len(text) {
		if text[i] == '_' && !(digit(i-1) && digit(i+1)) {
			return "", false
		}
	}
	return strings.ReplaceAll(text, "_", ""), true
}

// decimalLiteral says whether text is digits with an optional fraction and
// exponent, at least one digit before the exponent.
func decimalLiteral(text string) bool {
	rest, whole := skipDigits(text)
	fraction := 0
	if strings.HasPrefix(rest, ".") {
		rest, fraction = skipDigits(rest[1:])
	}
	if whole+fraction == 0 {
		return false
	}
	if rest == "" {
		return true
	}
	if rest[0] != 'e' && rest[0] != 'E' {
		return false
	}
	rest = rest[1:]
	if rest != "" && (rest[0] == '+' || rest[0] == '-') {
		rest = rest[1:]
	}
	rest, digits := skipDigits(rest)
	return digits > 0 && rest == ""
}

func skipDigits(text string) (rest string, count int) {
	for count < len(text) && text[count] >= '0' && text[count] <= '9' {
		count++
	}
	return text[count:], count
}

// FormatFloat is repr(value) and str(value).
func FormatFloat(value float64) string { return tasks.FloatStr(value) }
