package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf16"
)

// printJSON prints a value as indented JSON of ASCII only: whatever stands in
// a string of a task file reaches a terminal as an escape, and a reader of JSON
// as it was.
func printJSON(w io.Writer, value any) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return err
	}
	_, err := w.Write(asciiJSON(text.String()))
	return err
}

// asciiJSON escapes what is not printable ASCII; in JSON that stands in
// strings only, but for line feeds.
func asciiJSON(text string) []byte {
	out := make([]byte, 0, len(text))
	for _, r := range text {
		switch {
		case r < 0x7f:
			out = append(out, byte(r))
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}
