package protocol

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// JSON cannot carry bytes that are no UTF-8, and encoding/json silently
// replaces them. File names, arguments and variables may be any bytes but NUL,
// so they travel escaped: a backslash is doubled, a byte that is no part of
// valid UTF-8 becomes \xNN. Ordinary text stays as it is.

// escape makes s valid UTF-8 without losing a byte.
func escape(s string) string {
	if utf8.ValidString(s) && !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\\':
			b.WriteString(`\\`)
		default:
			b.WriteString(s[i : i+size])
		}
		i += size
	}
	return b.String()
}

// unescape is the inverse of escape.
func unescape(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] != '\\':
			b = append(b, s[i])
		case strings.HasPrefix(s[i:], `\\`):
			b = append(b, '\\')
			i++
		case strings.HasPrefix(s[i:], `\x`) && len(s) >= i+4:
			n, err := strconv.ParseUint(s[i+2:i+4], 16, 8)
			if err != nil {
				return "", fmt.Errorf("%w: escape %q is no byte", ErrFrame, s[i:i+4])
			}
			b = append(b, byte(n))
			i += 3
		default:
			return "", fmt.Errorf("%w: a backslash starts no escape", ErrFrame)
		}
	}
	return string(b), nil
}

// escapeAll escapes each string of a list; nil stays nil.
func escapeAll(list []string) []string {
	if list == nil {
		return nil
	}
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = escape(s)
	}
	return out
}

// unescapeAll is the inverse of escapeAll, in place.
func unescapeAll(list []string) error {
	for i, s := range list {
		u, err := unescape(s)
		if err != nil {
			return err
		}
		list[i] = u
	}
	return nil
}

// unescapeEach replaces each string by what it stood for.
func unescapeEach(fields ...*string) error {
	for _, f := range fields {
		u, err := unescape(*f)
		if err != nil {
			return err
		}
		*f = u
	}
	return nil
}
