package tasks

import (
	"bytes"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

// Text that upstream's parser takes and yaml.v3 does not: the directive of
// another minor version, and the escape \/ of a double-quoted scalar.

var versionLine = regexp.MustCompile(`^(\x{feff})?%YAML 1\.[0-9]+`)

const (
	badEscape = "found unknown escape character"
	badHex    = "did not find expected hexdecimal number"
	// mostRepairs bounds how often one document is parsed.
	mostRepairs = 200
	// mostRepairedBytes bounds what is parsed that often.
	mostRepairedBytes = 256 << 10
)

// composeAgain tries a document once more without what yaml.v3 alone refuses.
// The error is the given one when that is not the cause.
func composeAgain(data []byte, err error) (*yaml.Node, error) {
	if len(data) > mostRepairedBytes {
		return nil, err
	}
	data = versionLine.ReplaceAll(data, []byte("${1}%YAML 1.1"))
	tries := mostRepairs
	for {
		root, now := composeYAML(data)
		if now == nil {
			return root, nil
		}
		line, text := yamlError(now)
		if !strings.Contains(text, badEscape) {
			return nil, now
		}
		if data = repairEscape(data, line, &tries); data == nil {
			return nil, err
		}
	}
}

// repairEscape writes the first \/ in double quotes as \x2F; the parser says in
// which line that scalar begins. Which one it is the parser knows too: made a
// wrong \x it is another error there, and no change elsewhere. nil: there is
// none.
func repairEscape(data []byte, line int, tries *int) []byte {
	for at := lineStart(data, line); at+1 < len(data); at++ {
		if data[at] != '\\' {
			continue
		}
		if data[at+1] != '/' {
			at++ // the next character is escaped, a backslash too
			continue
		}
		if *tries--; *tries < 0 {
			return nil
		}
		_, err := composeYAML(replaced(data, at, `\xZ`))
		if now, text := yamlError(err); now == line && strings.Contains(text, badHex) {
			return replaced(data, at, `\x2F`)
		}
	}
	return nil
}

// replaced returns data with other text for the two characters at a place.
func replaced(data []byte, at int, text string) []byte {
	return bytes.Join([][]byte{data[:at], data[at+2:]}, []byte(text))
}

// lineStart returns where a line begins, counted from 1.
func lineStart(data []byte, line int) (at int) {
	for ; line > 1; line-- {
		next := bytes.IndexByte(data[at:], '\n')
		if next < 0 {
			return len(data)
		}
		at += next + 1
	}
	return at
}
