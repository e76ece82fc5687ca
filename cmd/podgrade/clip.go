package main

import (
	"errors"
	"fmt"
	"strings"

	"podgrade/policy"
)

// What is kept of a line of an error that is longer than a screen, as one that
// repeats a huge argument is, in characters: its beginning, and the end with the
// one thing to do.
const (
	mostHead = 3000
	mostTail = 1000
)

// errorText is an error as the program ends with it, safe to print. A refusal is
// whole: what is accepted after it is what it shows.
func errorText(err error) string {
	text := policy.NeutralText(err.Error())
	var refusal *policy.Refusal
	if errors.As(err, &refusal) {
		return text
	}
	return clipLines(text)
}

// clipLines leaves out the middle of each line that is too long to be read.
func clipLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if len(line) <= mostHead+mostTail {
			continue
		}
		runes := []rune(line)
		if more := len(runes) - mostHead - mostTail; more > 0 {
			lines[i] = fmt.Sprintf("%s... (%d more characters) ...%s", string(runes[:mostHead]), more, string(runes[len(runes)-mostTail:]))
		}
	}
	return strings.Join(lines, "\n")
}
