package python

import "errors"

// Errors of SplitShell: Python's ValueErrors.
var (
	ErrNoClosingQuotation = errors.New("no closing quotation")
	ErrNoEscapedCharacter = errors.New("no escaped character")
)

// SplitShell is shlex.split(text): words as a POSIX shell sees them, without
// expansions and comments.
func SplitShell(text string) ([]string, error) {
	s := &shellWords{}
	for _, r := range text {
		s.next(r)
	}
	switch {
	case s.escaped:
		return nil, ErrNoEscapedCharacter
	case s.quote != 0:
		return nil, ErrNoClosingQuotation
	case s.inWord:
		s.end()
	}
	return s.words, nil
}

// shellWords is a split under way.
type shellWords struct {
	words   []string
	word    []rune
	inWord  bool
	quote   rune // the quotation mark that is open; 0: none
	escaped bool // a backslash came before
}

func (s *shellWords) end() {
	s.words = append(s.words, string(s.word))
	s.word, s.inWord = s.word[:0], false
}

func (s *shellWords) next(r rune) {
	switch {
	case s.escaped:
		s.escaped = false
		// Between double quotes a backslash quotes only itself and the mark.
		if s.quote != 0 && r != '\\' && r != s.quote {
			s.word = append(s.word, '\\')
		}
		s.word = append(s.word, r)
	case s.quote != 0 && r == s.quote:
		s.quote = 0
	case s.quote == '\'':
		s.word = append(s.word, r)
	case r == '\\':
		s.escaped, s.inWord = true, true
	case s.quote != 0:
		s.word = append(s.word, r)
	case r == '\'' || r == '"':
		s.quote, s.inWord = r, true
	case r == ' ' || r == '\t' || r == '\r' || r == '\n':
		if s.inWord {
			s.end()
		}
	default:
		s.word, s.inWord = append(s.word, r), true
	}
}
