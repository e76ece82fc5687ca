package python

import (
	"strings"

	"podgrade/tasks"
)

// The dialect "excel", which Python's csv module reads and writes unless it is
// told otherwise.
const (
	csvDelimiter = ','
	csvQuote     = `"`
	csvLineEnd   = "\r\n"
)

// csvQuoted are the characters that a field is quoted for. Go's encoding/csv
// quotes more (a leading space, \.), and changes the line breaks of a field
// where lines end as they do here.
const csvQuoted = string(csvDelimiter) + csvQuote + csvLineEnd

// CSVLine is the line that csv.writer writes for a row of scalars: nil is an
// empty field, every other one its str().
func CSVLine(row []any) string {
	var b strings.Builder
	for i, value := range row {
		if i > 0 {
			b.WriteByte(csvDelimiter)
		}
		b.WriteString(csvField(value))
	}
	// A line of nothing would be a row without fields.
	if len(row) == 1 && b.Len() == 0 {
		b.WriteString(csvQuote + csvQuote)
	}
	b.WriteString(csvLineEnd)
	return b.String()
}

// csvField is one field, quoted only where it has to be.
func csvField(value any) string {
	if value == nil {
		return ""
	}
	text, _ := tasks.Str(value)
	if !strings.ContainsAny(text, csvQuoted) {
		return text
	}
	return csvQuote + strings.ReplaceAll(text, csvQuote, csvQuote+csvQuote) + csvQuote
}
