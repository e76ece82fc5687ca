package python

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// DecodeError is Python's UnicodeDecodeError for the codec utf-8.
type DecodeError struct {
	Byte   byte   // the first byte that could not be decoded
	Offset int    // where it is, in bytes
	Reason string // Python's wording
}

func (e *DecodeError) Error() string {
	return fmt.Sprintf("'utf-8' codec can't decode byte 0x%02x in position %d: %s", e.Byte, e.Offset, e.Reason)
}

// DecodeStrict decodes data as Python's bytes.decode("utf-8") does: surrogates
// and overlong forms are errors, a byte order mark is kept. The error is a
// *DecodeError.
func DecodeStrict(data []byte) (string, error) {
	if utf8.Valid(data) {
		return string(data), nil
	}
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r != utf8.RuneError || n != 1 {
			i += n
			continue
		}
		_, reason := illFormed(data[i:])
		return "", &DecodeError{Byte: data[i], Offset: i, Reason: reason}
	}
	return string(data), nil
}

// DecodeReplace decodes data as bytes.decode("utf-8", "replace") does: each
// maximal ill-formed part becomes one U+FFFD.
func DecodeReplace(data []byte) string {
	if utf8.Valid(data) {
		return string(data)
	}
	var b strings.Builder
	b.Grow(len(data))
	for len(data) > 0 {
		r, n := utf8.DecodeRune(data)
		if r == utf8.RuneError && n == 1 {
			n, _ = illFormed(data)
			b.WriteRune(utf8.RuneError)
		} else {
			b.Write(data[:n])
		}
		data = data[n:]
	}
	return b.String()
}

// illFormed measures the maximal ill-formed part that data starts with
// (Unicode 3.9, table 3-7) and gives Python's reason for it.
func illFormed(data []byte) (length int, reason string) {
	first := data[0]
	if first < 0xC2 || first > 0xF4 {
		return 1, "invalid start byte"
	}
	want := 2
	if first >= 0xE0 {
		want = 3
	}
	if first >= 0xF0 {
		want = 4
	}
	for i := 1; i < want; i++ {
		if i >= len(data) {
			return i, "unexpected end of data"
		}
		low, high := byte(0x80), byte(0xBF)
		if i == 1 {
			low, high = secondByte(first)
		}
		if data[i] < low || data[i] > high {
			return i, "invalid continuation byte"
		}
	}
	return want, "invalid continuation byte"
}

// secondByte is the range of the byte that may follow a first byte.
func secondByte(first byte) (low, high byte) {
	switch first {
	case 0xE0:
		return 0xA0, 0xBF
	case 0xED:
		return 0x80, 0x9F
	case 0xF0:
		return 0x90, 0xBF
	case 0xF4:
		return 0x80, 0x8F
	}
	return 0x80, 0xBF
}

// Newlines turns CRLF and lone CR into LF, as Python's text mode does for
// files and captured output (spec/task-file.md 7.1).
func Newlines(text string) string {
	if !strings.Contains(text, "\r") {
		return text
	}
	text = strings.ReplaceAll(text, "\r\n", "\n")
	return strings.ReplaceAll(text, "\r", "\n")
}

// IsSpace is str.isspace of one character.
func IsSpace(r rune) bool {
	switch {
	case r >= 0x09 && r <= 0x0D, r >= 0x1C && r <= 0x20, r == 0x85, r == 0xA0,
		r == 0x1680, r >= 0x2000 && r <= 0x200A, r == 0x2028, r == 0x2029,
		r == 0x202F, r == 0x205F, r == 0x3000:
		return true
	}
	return false
}

// Strip is str.strip().
func Strip(text string) string { return strings.TrimFunc(text, IsSpace) }

// Lower is str.lower(): full lower case, with the final sigma.
func Lower(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	runes := []rune(text)
	for i, r := range runes {
		switch r {
		case 0x130:
			b.WriteString("i\u0307")
		case 0x3A3:
			b.WriteRune(lowerSigma(runes, i))
		default:
			b.WriteRune(unicode.ToLower(r))
		}
	}
	return b.String()
}

// lowerSigma picks the final form at the end of a word (Unicode 3.13,
// Final_Sigma): a cased character before, none after, ignorable ones skipped.
func lowerSigma(text []rune, at int) rune {
	before, after := at-1, at+1
	for before >= 0 && caseIgnorable(text[before]) {
		before--
	}
	for after < len(text) && caseIgnorable(text[after]) {
		after++
	}
	if before >= 0 && cased(text[before]) && !(after < len(text) && cased(text[after])) {
		return 0x3C2
	}
	return 0x3C3
}

func cased(r rune) bool {
	return unicode.In(r, unicode.Lu, unicode.Ll, unicode.Lt, unicode.Other_Lowercase, unicode.Other_Uppercase)
}

func caseIgnorable(r rune) bool {
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk) {
		return true
	}
	return strings.ContainsRune("'.:\u00B7\u0387\u055F\u05F4\u2018\u2019\u2024\u2027\uFE13\uFE52\uFE55\uFF07\uFF0E\uFF1A", r)
}

// Length is len() of a str: code points.
func Length(text string) int { return utf8.RuneCountInString(text) }

// Cut returns the first limit code points of text, and how many were dropped.
func Cut(text string, limit int) (kept string, dropped int) {
	if len(text) <= limit {
		return text, 0
	}
	n := 0
	for i := range text {
		if n == limit {
			return text[:i], utf8.RuneCountInString(text[i:])
		}
		n++
	}
	return text, 0
}
