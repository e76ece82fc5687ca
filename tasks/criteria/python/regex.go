package python

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/dlclark/regexp2"
)

// Flags of Python's re module, with its numbers.
const (
	FlagIgnoreCase = 2
	FlagLocale     = 4
	FlagMultiline  = 8
	FlagDotAll     = 16
	FlagUnicode    = 32
	FlagVerbose    = 64
	FlagASCII      = 256
)

// Bounds of a regular expression: of the pattern in code points, of its
// nesting, of the text in code points, and of one search.
const (
	MaxPattern          = 64 << 10
	MaxNesting          = 100
	MaxText             = 16 << 20
	DefaultMatchTimeout = 10 * time.Second
)

// Errors of Regex.Search. They are wrapped.
var (
	ErrMatchTimeout = errors.New("the search took too long")
	ErrTextTooLong  = errors.New("the text is too long for a regular expression")
	ErrFault        = errors.New("the regular expression library failed")
)

// SyntaxError says that Python refuses the pattern too.
type SyntaxError struct {
	Reason string
	Offset int // in code points; -1: of the pattern as a whole
}

func (e *SyntaxError) Error() string {
	if e.Offset < 0 {
		return e.Reason
	}
	return fmt.Sprintf("%s at position %d", e.Reason, e.Offset)
}

// UnsupportedError says that Python may take the pattern, and that it cannot
// be translated. It is the author's to change.
type UnsupportedError struct{ Reason string }

func (e *UnsupportedError) Error() string {
	return e.Reason + ", which podgrade cannot translate from Python; write the pattern without it"
}

// Regex is a compiled regular expression of Python's re module.
type Regex struct {
	re     *regexp2.Regexp
	groups int            // capturing groups, numbered from 1
	names  map[string]int // of groups
}

// CompileRegex translates a pattern of Python's re module for text (3.11
// syntax, flags as its integers). The error is a *SyntaxError or an
// *UnsupportedError.
func CompileRegex(pattern string, flags int) (*Regex, error) {
	translated, p, err := translate(pattern, flags)
	if err != nil {
		return nil, err
	}
	re, err := compileTranslated(translated)
	if err != nil {
		return nil, &UnsupportedError{Reason: fmt.Sprintf("the pattern holds a construct that the regular expression library refuses (%v)", err)}
	}
	re.MatchTimeout = DefaultMatchTimeout
	return &Regex{re: re, groups: p.groups, names: p.names}, nil
}

// compileTranslated compiles with the library. A fault of it must not end the
// program: patterns come from records.
func compileTranslated(pattern string) (re *regexp2.Regexp, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("fault of the library: %v", fault)
		}
	}()
	return regexp2.Compile(pattern, regexp2.None)
}

// translate gives the pattern in the syntax of package regexp2, to be compiled
// without options. Errors are those of CompileRegex.
func translate(pattern string, flags int) (string, *parsed, error) {
	if !utf8.ValidString(pattern) {
		return "", nil, &SyntaxError{Reason: "the pattern is not valid UTF-8", Offset: -1}
	}
	runes := []rune(pattern)
	if len(runes) > MaxPattern {
		return "", nil, &UnsupportedError{Reason: fmt.Sprintf("the pattern has %d characters, more than %d", len(runes), MaxPattern)}
	}
	p, err := parseRegex(runes, flags)
	if err != nil {
		return "", nil, err
	}
	translated, err := emitRegex(p.tree)
	return translated, p, err
}

// SetTimeout bounds each search; the default is DefaultMatchTimeout.
func (r *Regex) SetTimeout(limit time.Duration) { r.re.MatchTimeout = limit }

// Search is re.search: it gives the first match anywhere in text. Errors wrap
// ErrMatchTimeout, ErrTextTooLong or ErrFault.
func (r *Regex) Search(text string) (match string, found bool, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			match, found, err = "", false, fmt.Errorf("%w: %v", ErrFault, fault)
		}
	}()
	if len(text) > MaxText && utf8.RuneCountInString(text) > MaxText {
		return "", false, fmt.Errorf("search in %d bytes: %w: the limit is %d characters", len(text), ErrTextTooLong, MaxText)
	}
	m, err := r.re.FindStringMatch(text)
	if err != nil {
		return "", false, fmt.Errorf("%w: the limit is %s", ErrMatchTimeout, r.re.MatchTimeout)
	}
	if m == nil {
		return "", false, nil
	}
	return m.String(), true, nil
}
