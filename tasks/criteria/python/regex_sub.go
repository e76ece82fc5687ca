package python

import (
	"fmt"
	"strings"
	"time"

	"github.com/dlclark/regexp2"
)

// Sub is re.sub(pattern, replacement, text) with the pattern's own flags: all
// matches from left to right, an empty one too where it does not stand at the
// end of an empty one. The replacement is Python's template: \1, \g<1>,
// \g<name>, octal and letter escapes. The error is a *SyntaxError or an
// *UnsupportedError of the pattern, a *SyntaxError of the template, or wraps
// ErrMatchTimeout or ErrTextTooLong; the time-out and the length bound the
// whole call.
func Sub(pattern, replacement, text string) (string, error) {
	re, err := CompileRegex(pattern, 0)
	if err != nil {
		return "", err
	}
	pieces, err := parseTemplate([]rune(replacement), re)
	if err != nil {
		return "", err
	}
	// After an empty match the next one that starts at the same place must not
	// be empty: it may not end where its search began.
	after, err := regexp2.Compile("(?:"+re.re.String()+`)(?!\G)`, regexp2.None)
	if err != nil {
		return "", &UnsupportedError{Reason: fmt.Sprintf("the pattern cannot be used to replace (%v)", err)}
	}
	s := &substitution{plain: re.re, after: after, pieces: pieces, text: []rune(text), deadline: time.Now().Add(DefaultMatchTimeout)}
	if len(s.text) > MaxText {
		return "", fmt.Errorf("replace in %d characters: %w: the limit is %d", len(s.text), ErrTextTooLong, MaxText)
	}
	if err := s.run(); err != nil {
		return "", err
	}
	return s.out.String(), nil
}

// substitution is one call of Sub under way.
type substitution struct {
	plain, after *regexp2.Regexp
	pieces       []piece
	text         []rune
	deadline     time.Time
	out          strings.Builder
}

func (s *substitution) run() error {
	from, at, re := 0, 0, s.plain
	for at <= len(s.text) {
		left := time.Until(s.deadline)
		if left <= 0 {
			return fmt.Errorf("%w: the limit is %s", ErrMatchTimeout, DefaultMatchTimeout)
		}
		re.MatchTimeout = left
		m, err := re.FindRunesMatchStartingAt(s.text, at)
		if err != nil {
			return fmt.Errorf("%w: the limit is %s", ErrMatchTimeout, DefaultMatchTimeout)
		}
		if m == nil {
			break
		}
		s.copy(s.text[from:m.Index])
		s.expand(m)
		if s.out.Len() > MaxText {
			return fmt.Errorf("replace: %w: the result has more than %d bytes", ErrTextTooLong, MaxText)
		}
		from = m.Index + m.Length
		at, re = from, s.plain
		if m.Length == 0 {
			re = s.after
		}
	}
	s.copy(s.text[from:])
	return nil
}

func (s *substitution) copy(text []rune) {
	for _, r := range text {
		s.out.WriteRune(r)
	}
}

// expand writes the replacement of one match; a group without a match is
// empty.
func (s *substitution) expand(m *regexp2.Match) {
	for _, p := range s.pieces {
		if p.group < 0 {
			s.out.WriteString(p.text)
			continue
		}
		if group := m.GroupByNumber(p.group); group != nil {
			s.out.WriteString(group.String())
		}
	}
}

// piece is a part of a template: a text, or a group when group is not
// negative.
type piece struct {
	text  string
	group int
}

// templateParser reads a replacement.
type templateParser struct {
	text   []rune
	pos    int
	regex  *Regex
	pieces []piece
	texts  strings.Builder // what follows the last piece
}

func parseTemplate(text []rune, re *Regex) ([]piece, error) {
	p := &templateParser{text: text, regex: re}
	for p.pos < len(p.text) {
		r := p.text[p.pos]
		p.pos++
		if r != '\\' {
			p.literal(string(r))
			continue
		}
		if err := p.escape(); err != nil {
			return nil, err
		}
	}
	p.flush()
	return p.pieces, nil
}

func (p *templateParser) literal(text string) { p.texts.WriteString(text) }

// flush makes a piece of the text since the last one.
func (p *templateParser) flush() {
	if p.texts.Len() > 0 {
		p.pieces = append(p.pieces, piece{p.texts.String(), -1})
		p.texts.Reset()
	}
}

// peek gives the next character, or -1 at the end.
func (p *templateParser) peek(n int) rune {
	if p.pos+n >= len(p.text) {
		return -1
	}
	return p.text[p.pos+n]
}

func (p *templateParser) fail(format string, args ...any) error {
	return &SyntaxError{Reason: "in the replacement: " + fmt.Sprintf(format, args...), Offset: p.pos}
}

// templateEscapes are the letters that a template turns into a character.
var templateEscapes = map[rune]string{'a': "\a", 'b': "\b", 'f': "\f", 'n': "\n", 'r': "\r", 't': "\t", 'v': "\v", '\\': `\`}

// escape reads what follows a backslash.
func (p *templateParser) escape() error {
	r := p.peek(0)
	switch {
	case r == -1:
		return p.fail("bad escape (end of pattern)")
	case r == 'g':
		return p.named()
	case r >= '0' && r <= '9':
		return p.number()
	}
	p.pos++
	switch text, known := templateEscapes[r]; {
	case known:
		p.literal(text)
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z':
		return p.fail(`bad escape \%c`, r)
	default:
		p.literal(`\` + string(r))
	}
	return nil
}

// number reads \0, \012, \123 (three octal digits: a character) or a group of
// one or two digits.
func (p *templateParser) number() error {
	a, b, c := p.peek(0), p.peek(1), p.peek(2)
	switch {
	case a == '0' && isOctal(b) && isOctal(c):
		p.pos += 3
		p.literal(string((b-'0')<<3 | (c - '0')))
	case a == '0' && isOctal(b):
		p.pos += 2
		p.literal(string(b - '0'))
	case a == '0':
		p.pos++
		p.literal("\x00")
	case isOctal(a) && isOctal(b) && isOctal(c):
		p.pos += 3
		code := (a-'0')<<6 | (b-'0')<<3 | (c - '0')
		if code > 0o377 {
			return p.fail(`octal escape value \%o outside of range 0-0o377`, code)
		}
		p.literal(string(code))
	case b >= '0' && b <= '9':
		p.pos += 2
		return p.group(int(a-'0')*10 + int(b-'0'))
	default:
		p.pos++
		return p.group(int(a - '0'))
	}
	return nil
}

// mostDigits is more than any group number has.
const mostDigits = 9

// named reads \g<name> or \g<number>.
func (p *templateParser) named() error {
	p.pos++
	if p.peek(0) != '<' {
		return p.fail("missing <")
	}
	p.pos++
	start := p.pos
	for p.peek(0) != '>' {
		if p.peek(0) == -1 {
			return p.fail("missing >, unterminated name")
		}
		p.pos++
	}
	name := string(p.text[start:p.pos])
	p.pos++
	if name == "" {
		return p.fail("missing group name")
	}
	if isIdentifier(name) {
		number, ok := p.regex.names[name]
		if !ok {
			return p.fail("unknown group name %q", name)
		}
		return p.group(number)
	}
	number := 0
	for i, r := range name {
		if r < '0' || r > '9' || i > mostDigits {
			return p.fail("bad character in group name %q", name)
		}
		number = number*10 + int(r-'0')
	}
	return p.group(number)
}

func (p *templateParser) group(number int) error {
	if number > p.regex.groups {
		return p.fail("invalid group reference %d", number)
	}
	p.flush()
	p.pieces = append(p.pieces, piece{"", number})
	return nil
}
