package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Raw is one JSON value as it stands in its file, without the space around
// it. A Raw that this package returns has been checked: it is JSON, in strict
// UTF-8, no deeper than MaxDepth, without a key that stands twice in one
// object. It may hold the tokens NaN, Infinity and -Infinity, which Python
// writes.
type Raw []byte

// ErrJSON is wrapped by every error about text that is not the JSON that this
// package accepts.
var ErrJSON = errors.New("not valid JSON")

// parseValue checks data, which must be one JSON value and nothing else.
func parseValue(data []byte) (Raw, error) {
	if !utf8.Valid(data) {
		return nil, fmt.Errorf("%w: byte %d is not UTF-8", ErrJSON, invalidAt(data))
	}
	s := scanner{data: data}
	s.space()
	start := s.pos
	if err := s.value(0); err != nil {
		return nil, err
	}
	end := s.pos
	s.space()
	if s.pos != len(data) {
		return nil, s.fail("more text after the value")
	}
	return Raw(data[start:end:end]), nil
}

func invalidAt(data []byte) int {
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(data)
}

// scanner walks JSON text without making anything of it, so that a record
// costs no more memory than its bytes.
type scanner struct {
	data []byte
	pos  int
}

func (s *scanner) fail(format string, args ...any) error {
	line := 1 + bytes.Count(s.data[:min(s.pos, len(s.data))], []byte{'\n'})
	return fmt.Errorf("%w: line %d, byte %d: %s", ErrJSON, line, s.pos, fmt.Sprintf(format, args...))
}

func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// peek returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

func (s *scanner) value(depth int) error {
	if depth > MaxDepth {
		return s.fail("nested deeper than %d", MaxDepth)
	}
	switch c := s.peek(); {
	case c == '{':
		return s.object(depth, nil)
	case c == '[':
		return s.array(depth, nil)
	case c == '"':
		_, err := s.text()
		return err
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	default:
		return s.word()
	}
}

func (s *scanner) word() error {
	for _, w := range [...]string{"true", "false", "null", "NaN", "Infinity"} {
		if bytes.HasPrefix(s.data[s.pos:], []byte(w)) {
			s.pos += len(w)
			return nil
		}
	}
	if s.pos >= len(s.data) {
		return s.fail("the text ends where a value should be")
	}
	return s.fail("no value starts with %q", s.data[s.pos:s.pos+1])
}

// object scans an object; visit, if not nil, is given each member: the key as
// written with its quotes, its decoded name, and the value.
func (s *scanner) object(depth int, visit func(key []byte, name string, value Raw)) error {
	s.pos++ // {
	var seen keySet
	s.space()
	if s.peek() == '}' {
		s.pos++
		return nil
	}
	for {
		key, name, err := s.key(&seen)
		if err != nil {
			return err
		}
		start := s.pos
		if err := s.value(depth + 1); err != nil {
			return err
		}
		if visit != nil {
			visit(key, string(name), Raw(s.data[start:s.pos:s.pos]))
		}
		if done, err := s.next('}'); done || err != nil {
			return err
		}
	}
}

// key scans a key up to the value that follows it.
func (s *scanner) key(seen *keySet) (key, name []byte, err error) {
	start := s.pos
	if s.peek() != '"' {
		return nil, nil, s.fail("a key in quotes should be here")
	}
	plain, err := s.text()
	if err != nil {
		return nil, nil, err
	}
	key = s.data[start:s.pos:s.pos]
	name = key[1 : len(key)-1]
	if !plain {
		name = []byte(unquote(key))
	}
	if !seen.add(name) {
		return nil, nil, s.fail("the key %q stands twice in one object; which one counts would depend on the reader", clip(string(name)))
	}
	s.space()
	if s.peek() != ':' {
		return nil, nil, s.fail("a colon should follow the key %q", clip(string(name)))
	}
	s.pos++
	s.space()
	return key, name, nil
}

func (s *scanner) array(depth int, visit func(value Raw)) error {
	s.pos++ // [
	s.space()
	if s.peek() == ']' {
		s.pos++
		return nil
	}
	for {
		start := s.pos
		if err := s.value(depth + 1); err != nil {
			return err
		}
		if visit != nil {
			visit(Raw(s.data[start:s.pos:s.pos]))
		}
		if done, err := s.next(']'); done || err != nil {
			return err
		}
	}
}

// next goes past a comma to the next member, or past the closing byte.
func (s *scanner) next(closing byte) (done bool, err error) {
	s.space()
	switch s.peek() {
	case closing:
		s.pos++
		return true, nil
	case ',':
		s.pos++
		s.space()
		return false, nil
	}
	return false, s.fail("a comma or %q should be here", closing)
}

// text scans a string in quotes; plain tells that it holds no escape.
func (s *scanner) text() (plain bool, err error) {
	s.pos++ // "
	plain = true
	for {
		s.pos += ordinary(s.data[s.pos:])
		switch c := s.peek(); {
		case s.pos >= len(s.data):
			return false, s.fail("the text ends inside a string")
		case c == '"':
			s.pos++
			return plain, nil
		case c == '\\':
			plain = false
			if err := s.escape(); err != nil {
				return false, err
			}
		default:
			return false, s.fail("a control character in a string")
		}
	}
}

// ordinary counts the bytes up to the first quote, backslash or control
// character. Most of a record is what a tool printed, so eight are looked at at
// once.
func ordinary(data []byte) int {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	at := 0
	for ; at+8 <= len(data); at += 8 {
		word := binary.LittleEndian.Uint64(data[at:])
		quote, slash := word^(ones*'"'), word^(ones*'\\')
		// A byte below n sets its high bit in (word - ones*n) &^ word; one above it
		// may too, after a byte that did, which costs only a closer look.
		if ((word-ones*0x20)&^word|(quote-ones)&^quote|(slash-ones)&^slash)&highs != 0 {
			break
		}
	}
	for ; at < len(data); at++ {
		if c := data[at]; c == '"' || c == '\\' || c < 0x20 {
			return at
		}
	}
	return at
}

func (s *scanner) escape() error {
	if s.pos+1 >= len(s.data) {
		return s.fail("the text ends inside a string")
	}
	switch s.data[s.pos+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.pos += 2
		return nil
	case 'u':
		if s.pos+6 <= len(s.data) {
			if _, err := strconv.ParseUint(string(s.data[s.pos+2:s.pos+6]), 16, 16); err == nil {
				s.pos += 6
				return nil
			}
		}
	}
	return s.fail("an unknown escape in a string")
}

func (s *scanner) digits() bool {
	start := s.pos
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.pos++
	}
	return s.pos > start
}

func (s *scanner) number() error {
	if s.peek() == '-' {
		s.pos++
		if s.peek() == 'I' {
			return s.word()
		}
	}
	leadingZero := s.peek() == '0'
	start := s.pos
	if !s.digits() || leadingZero && s.pos > start+1 {
		return s.fail("a number is written wrongly")
	}
	if s.peek() == '.' {
		s.pos++
		if !s.digits() {
			return s.fail("a number is written wrongly")
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.pos++
		if c := s.peek(); c == '+' || c == '-' {
			s.pos++
		}
		if !s.digits() {
			return s.fail("a number is written wrongly")
		}
	}
	return nil
}

// keySet notices a key that stands twice. Most objects have few keys, so the
// map is made late.
type keySet struct {
	few  [48][]byte
	n    int
	many map[string]struct{}
}

func (k *keySet) add(name []byte) bool {
	if k.many == nil {
		for _, other := range k.few[:k.n] {
			if bytes.Equal(other, name) {
				return false
			}
		}
		if k.n < len(k.few) {
			k.few[k.n] = name
			k.n++
			return true
		}
		k.many = make(map[string]struct{}, 2*len(k.few))
		for _, other := range k.few {
			k.many[string(other)] = struct{}{}
		}
	}
	before := len(k.many)
	k.many[string(name)] = struct{}{}
	return len(k.many) > before
}
