package python

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// simpleEscapes are the letters that name one character.
var simpleEscapes = map[rune]rune{
	'a': '\a', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v', '\\': '\\',
}

// escape reads an escape outside of a class.
func (p *regexParser) escape(flags int) (*node, error) {
	start := p.pos
	p.pos++
	c := p.peek()
	if c == -1 {
		return nil, p.errorAt(start, "bad escape (end of pattern)")
	}
	switch c {
	case 'A', 'b', 'B', 'Z':
		p.pos++
		return &node{kind: nodeAnchor, anchor: c, flags: flags}, nil
	case 'd', 'D', 's', 'S', 'w', 'W':
		p.pos++
		return setNode(&charSet{categories: []rune{c}}, flags), nil
	}
	if c >= '1' && c <= '9' {
		return p.numberEscape(start, flags)
	}
	r, err := p.characterEscape(start)
	if err != nil {
		return nil, err
	}
	return literalNode(r, flags), nil
}

// numberEscape reads a backreference, or three octal digits.
func (p *regexParser) numberEscape(start, flags int) (*node, error) {
	c, second, third := p.peek(), p.peekAt(1), p.peekAt(2)
	if isOctal(c) && isOctal(second) && isOctal(third) {
		p.pos += 3
		value := (c-'0')<<6 | (second-'0')<<3 | (third - '0')
		if value > 0o377 {
			return nil, p.errorAt(start, "octal escape value outside of range 0-0o377")
		}
		return literalNode(value, flags), nil
	}
	number := int(c - '0')
	p.pos++
	if second >= '0' && second <= '9' {
		number = number*10 + int(second-'0')
		p.pos++
	}
	if number >= len(p.groups) {
		return nil, p.errorAt(start, fmt.Sprintf("invalid group reference %d", number))
	}
	return p.reference(number, start, flags)
}

func isOctal(r rune) bool { return r >= '0' && r <= '7' }

// characterEscape reads an escape that stands for one character, after the
// backslash.
func (p *regexParser) characterEscape(start int) (rune, error) {
	c := p.peek()
	p.pos++
	if r, ok := simpleEscapes[c]; ok {
		return r, nil
	}
	switch c {
	case 'x':
		return p.hexEscape(start, 2)
	case 'u':
		return p.hexEscape(start, 4)
	case 'U':
		return p.hexEscape(start, 8)
	case 'N':
		return p.nameEscape(start)
	case '0':
		value := rune(0)
		for n := 0; n < 2 && isOctal(p.peek()); n++ {
			value = value<<3 | (p.peek() - '0')
			p.pos++
		}
		return value, nil
	}
	if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
		return 0, p.errorAt(start, fmt.Sprintf("bad escape \\%c", c))
	}
	return c, nil
}

func (p *regexParser) hexEscape(start, digits int) (rune, error) {
	from := p.pos
	for p.pos-from < digits && strings.ContainsRune("0123456789abcdefABCDEF", p.peek()) && p.peek() != -1 {
		p.pos++
	}
	if p.pos-from < digits {
		return 0, p.errorAt(start, "incomplete escape "+string(p.text[start:p.pos]))
	}
	value, err := strconv.ParseInt(string(p.text[from:p.pos]), 16, 64)
	if err != nil || value > unicode.MaxRune {
		return 0, p.errorAt(start, "bad escape "+string(p.text[start:p.pos]))
	}
	return rune(value), nil
}

func (p *regexParser) nameEscape(start int) (rune, error) {
	if !p.accept('{') {
		return 0, p.errorAt(p.pos, "missing {")
	}
	name, err := p.until('}', "character name")
	if err != nil {
		return 0, err
	}
	r, ok := lookupName(name)
	if !ok {
		return 0, p.errorAt(start, fmt.Sprintf("undefined character name %q", name))
	}
	return r, nil
}

// class reads a character class.
func (p *regexParser) class(flags int) (*node, error) {
	start := p.pos
	p.pos++
	set := &charSet{negated: p.accept('^')}
	members := 0
	for {
		c := p.peek()
		if c == -1 {
			return nil, p.errorAt(start, "unterminated character set")
		}
		if c == ']' && members > 0 {
			p.pos++
			break
		}
		members++
		if err := p.classMember(set, start); err != nil {
			return nil, err
		}
	}
	set.ranges = sortRanges(set.ranges)
	return setNode(set, flags), nil
}

// classMember reads one member of a class: a character, a range, a category.
func (p *regexParser) classMember(set *charSet, start int) error {
	at := p.pos
	low, category, err := p.classAtom()
	if err != nil {
		return err
	}
	if p.peek() != '-' || p.peekAt(1) == ']' {
		set.add(low, low, category)
		return nil
	}
	p.pos++
	if p.peek() == -1 {
		return p.errorAt(start, "unterminated character set")
	}
	high, highCategory, err := p.classAtom()
	if err != nil {
		return err
	}
	if category != 0 || highCategory != 0 || high < low {
		return p.errorAt(at, "bad character range "+string(p.text[at:p.pos]))
	}
	set.add(low, high, 0)
	return nil
}

func (s *charSet) add(low, high, category rune) {
	if category != 0 {
		s.categories = append(s.categories, category)
		return
	}
	s.ranges = append(s.ranges, runeRange{low, high})
}

// classAtom reads a character or a category of a class.
func (p *regexParser) classAtom() (r, category rune, err error) {
	start := p.pos
	c := p.peek()
	p.pos++
	if c != '\\' {
		return c, 0, nil
	}
	c = p.peek()
	switch c {
	case -1:
		return 0, 0, p.errorAt(start, "bad escape (end of pattern)")
	case 'd', 'D', 's', 'S', 'w', 'W':
		p.pos++
		return 0, c, nil
	}
	if isOctal(c) {
		value := rune(0)
		for n := 0; n < 3 && isOctal(p.peek()); n++ {
			value = value<<3 | (p.peek() - '0')
			p.pos++
		}
		if value > 0o377 {
			return 0, 0, p.errorAt(start, "octal escape value outside of range 0-0o377")
		}
		return value, 0, nil
	}
	if c == '8' || c == '9' {
		return 0, 0, p.errorAt(start, fmt.Sprintf("bad escape \\%c", c))
	}
	r, err = p.characterEscape(start)
	return r, 0, err
}
