package tasks

import (
	"bytes"
	"sort"
	"strings"
	"unicode/utf8"
)

// yamlHints say what to do about what the parser says, by a part of it.
var yamlHints = []struct{ part, hint string }{
	{"mapping values are not allowed", "a text with a colon and a blank in it needs quotation marks, and the keys of one block begin in one column"},
	{"did not find expected key", "look at the quotation marks before this place, and begin the keys of one block in one column"},
	{"did not find expected '-' indicator", "begin the entries of one list in one column"},
	{"block sequence entries are not allowed", "a list begins in the line below its key"},
	{"cannot start any token", "a text that begins with @, ` or % needs quotation marks"},
	{badEscape, `in double quotes a \ begins an escape: use single quotes`},
	{badHex, `in double quotes a \ begins an escape: use single quotes`},
	{"did not find expected ',' or", "close the bracket, and quote a text in brackets that holds one of ? [ ] { }"},
	{"did not find expected node content", "something is missing before this place, or the bracket is not closed"},
	{"found unexpected end of stream", "a quotation mark is not closed"},
	{"found unexpected document indicator", "a quotation mark is not closed"},
	{"could not find expected ':'", "a line must be KEY: VALUE; indent the lines of a longer text"},
	{"tab character", "indent with blanks"},
	{"unknown anchor", "an alias, *NAME, needs an anchor, &NAME, above it; a text that begins with * needs quotation marks"},
	{"did not find expected <document start>", "begin all keys of the file in one column"},
	{"did not find expected alphabetic or numeric character", "a text that begins with *, & or ! needs quotation marks"},
}

// yamlFault says what is wrong with a text that is no YAML, and where.
func yamlFault(data []byte, err error) (line, column int, text string) {
	line, text = yamlError(err)
	text = strings.TrimPrefix(text, "yaml: ")
	column = 1
	if text == secondDocument {
		return line, column, text
	}
	if at, ok := locate(data, err); ok {
		if strings.Contains(text, "unknown anchor") {
			at = max(bytes.LastIndexByte(data[:at+1], '*'), 0)
		}
		line, column = placeOf(data, at)
	}
	for _, known := range yamlHints {
		if strings.Contains(text, known.part) {
			return line, column, quoteBare(text) + "; " + known.hint
		}
	}
	return line, column, quoteBare(text)
}

// locate finds the place of an error, which the parser says badly: it reads
// from the front, so the shortest beginning of the text with the same error
// ends there. Large texts are not read that often.
func locate(data []byte, err error) (at int, ok bool) {
	const most = 256 << 10
	if len(data) == 0 || len(data) > most {
		return 0, false
	}
	same := func(length int) bool {
		for length < len(data) && !utf8.RuneStart(data[length]) {
			length++
		}
		_, now := composeYAML(data[:length])
		return now != nil && now.Error() == err.Error()
	}
	length := 1 + sort.Search(len(data)-1, func(i int) bool { return same(i + 1) })
	return length - 1, same(length)
}

// placeOf returns line and column of a byte, both from 1; a column is a
// character.
func placeOf(data []byte, at int) (line, column int) {
	before := data[:min(at, len(data))]
	start := bytes.LastIndexByte(before, '\n') + 1
	return 1 + bytes.Count(before, []byte("\n")), 1 + utf8.RuneCount(before[start:])
}

// badUTF8 returns where the first byte is that is no UTF-8.
func badUTF8(data []byte) (line, column int) {
	at := 0
	for at < len(data) {
		r, size := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && size <= 1 {
			break
		}
		at += size
	}
	return placeOf(data, at)
}
