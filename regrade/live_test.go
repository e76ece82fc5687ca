package regrade

import (
	"slices"
	"strings"
	"testing"
)

func TestLinesAreTold(t *testing.T) {
	var told []string
	l := &lines{tell: func(line string) { told = append(told, line) }}
	for _, part := range []string{"one\ntw", "o\r\n\nthr", "ee\xff"} {
		if n, err := l.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	l.end()
	l.end()
	if want := []string{"one", "two", "", "three\ufffd"}; !slices.Equal(told, want) {
		t.Errorf("%q, want %q", told, want)
	}
	// Who prints without a line feed takes no memory for it.
	told = nil
	for range 3 {
		l.Write([]byte(strings.Repeat("x", mostLine)))
	}
	l.Write([]byte("y\n"))
	if len(told) != 4 || told[3] != "y" || strings.Join(told, "") != strings.Repeat("x", 3*mostLine)+"y" {
		t.Errorf("%d lines", len(told))
	}
}
