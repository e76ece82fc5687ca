package python

import (
	"fmt"
	"strconv"
	"strings"
)

// group reads what starts with an opening parenthesis.
func (p *regexParser) group(s scope, first bool) (*node, error) {
	start := p.pos
	p.pos++
	if !p.accept('?') {
		return p.capture(s, start, "")
	}
	c := p.peek()
	p.pos++
	switch c {
	case -1:
		return nil, p.errorAt(p.pos-1, "unexpected end of pattern")
	case 'P':
		return p.named(s, start)
	case ':':
		return p.enclosed(s, start)
	case '#':
		for !p.accept(')') {
			if p.peek() == -1 {
				return nil, p.errorAt(start, "missing ), unterminated comment")
			}
			p.pos++
		}
		return nil, nil
	case '=', '!':
		return p.look(s, start, false, c == '!')
	case '<':
		sign := p.peek()
		p.pos++
		if sign != '=' && sign != '!' {
			return nil, p.errorAt(start+1, "unknown extension ?<"+printable(sign))
		}
		return p.look(s, start, true, sign == '!')
	case '(':
		return p.condition(s, start)
	case '>':
		kid, err := p.enclosed(s, start)
		if err != nil {
			return nil, err
		}
		return &node{kind: nodeAtomic, kids: []*node{kid}}, nil
	}
	if c == '-' || flagOf(c) != 0 {
		p.pos--
		return p.inlineFlags(s, start, first)
	}
	return nil, p.errorAt(start+1, "unknown extension ?"+printable(c))
}

func printable(r rune) string {
	if r < 0 {
		return ""
	}
	return string(r)
}

// enclosed reads the contents of a group and its closing parenthesis. The node
// is never bare, so that a quantifier sees one item.
func (p *regexParser) enclosed(s scope, start int) (*node, error) {
	s.depth++
	kid, err := p.branches(s, false)
	if err != nil {
		return nil, err
	}
	if !p.accept(')') {
		return nil, p.errorAt(start, "missing ), unterminated subpattern")
	}
	return &node{kind: nodeConcat, kids: []*node{kid}}, nil
}

// capture reads a capturing group; name may be empty.
func (p *regexParser) capture(s scope, start int, name string) (*node, error) {
	number := len(p.groups)
	p.groups = append(p.groups, nil)
	if name != "" {
		if old, ok := p.names[name]; ok {
			return nil, p.errorAt(start, fmt.Sprintf("redefinition of group name %q as group %d; was group %d", name, number, old))
		}
		p.names[name] = number
	}
	kid, err := p.enclosed(s, start)
	if err != nil {
		return nil, err
	}
	width := kid.widthRange(p.groups)
	p.groups[number] = &width
	return &node{kind: nodeGroup, kids: []*node{kid}, group: number}, nil
}

// named reads (?P<name>...) and (?P=name), after the P.
func (p *regexParser) named(s scope, start int) (*node, error) {
	c := p.peek()
	p.pos++
	switch c {
	case '<':
		name, err := p.until('>', "group name")
		if err != nil {
			return nil, err
		}
		if !isIdentifier(name) {
			return nil, p.errorAt(start, fmt.Sprintf("bad character in group name %q", name))
		}
		return p.capture(s, start, name)
	case '=':
		name, err := p.until(')', "group name")
		if err != nil {
			return nil, err
		}
		if !isIdentifier(name) {
			return nil, p.errorAt(start, fmt.Sprintf("bad character in group name %q", name))
		}
		number, ok := p.names[name]
		if !ok {
			return nil, p.errorAt(start, fmt.Sprintf("unknown group name %q", name))
		}
		return p.reference(number, start, p.effective(s))
	case -1:
		return nil, p.errorAt(start, "unexpected end of pattern")
	}
	return nil, p.errorAt(start, "unknown extension ?P"+printable(c))
}

// until reads a name and the character that ends it.
func (p *regexParser) until(end rune, what string) (string, error) {
	start := p.pos
	for p.peek() != end {
		if p.peek() == -1 {
			if p.pos == start {
				return "", p.errorAt(start, "missing "+what)
			}
			return "", p.errorAt(start, "missing "+string(end)+", unterminated name")
		}
		p.pos++
	}
	name := string(p.text[start:p.pos])
	p.pos++
	if name == "" {
		return "", p.errorAt(start, "missing "+what)
	}
	return name, nil
}

// reference makes a backreference to a group that exists.
func (p *regexParser) reference(number, at, flags int) (*node, error) {
	if p.groups[number] == nil {
		return nil, p.errorAt(at, "cannot refer to an open group")
	}
	if err := p.checkBehind(number, at); err != nil {
		return nil, err
	}
	return &node{kind: nodeBackref, group: number, flags: flags}, nil
}

// checkBehind refuses what a look-behind cannot know yet.
func (p *regexParser) checkBehind(number, at int) error {
	if p.behindGroups < 0 {
		return nil
	}
	if number >= len(p.groups) || p.groups[number] == nil {
		return p.errorAt(at, "cannot refer to an open group")
	}
	if number >= p.behindGroups {
		return p.errorAt(at, "cannot refer to group defined in the same lookbehind subpattern")
	}
	return nil
}

// look reads a look-ahead or look-behind, after its sign.
func (p *regexParser) look(s scope, start int, behind, negated bool) (*node, error) {
	outermost := behind && p.behindGroups < 0
	if outermost {
		p.behindGroups = len(p.groups)
	}
	kid, err := p.enclosed(s, start)
	if outermost {
		p.behindGroups = -1
	}
	if err != nil {
		return nil, err
	}
	look := &node{kind: nodeLook, kids: []*node{kid}, behind: behind, negated: negated}
	if behind {
		width := kid.widthRange(p.groups)
		if width.min != width.max {
			return nil, p.errorAt(-1, "look-behind requires fixed-width pattern")
		}
		look.width = width.min
	}
	return look, nil
}

// condition reads (?(group)yes|no), after the second parenthesis.
func (p *regexParser) condition(s scope, start int) (*node, error) {
	at := p.pos
	name, err := p.until(')', "group name")
	if err != nil {
		return nil, err
	}
	number, err := p.conditionGroup(name, at)
	if err != nil {
		return nil, err
	}
	if err := p.checkBehind(number, at); err != nil {
		return nil, err
	}
	s.depth++
	if s.depth > MaxNesting {
		return nil, &UnsupportedError{Reason: fmt.Sprintf("the pattern is nested deeper than %d", MaxNesting)}
	}
	yes, err := p.sequence(s, false)
	if err != nil {
		return nil, err
	}
	no := &node{kind: nodeConcat}
	if p.accept('|') {
		if no, err = p.sequence(s, false); err != nil {
			return nil, err
		}
		if p.peek() == '|' {
			return nil, p.errorAt(p.pos, "conditional backref with more than two branches")
		}
	}
	if !p.accept(')') {
		return nil, p.errorAt(start, "missing ), unterminated subpattern")
	}
	return &node{kind: nodeCondition, kids: []*node{yes, no}, group: number}, nil
}

func (p *regexParser) conditionGroup(name string, at int) (int, error) {
	if isIdentifier(name) {
		number, ok := p.names[name]
		if !ok {
			return 0, p.errorAt(at, fmt.Sprintf("unknown group name %q", name))
		}
		return number, nil
	}
	number, err := strconv.Atoi(strings.TrimPrefix(Strip(name), "+"))
	if err != nil || number < 0 {
		return 0, p.errorAt(at, fmt.Sprintf("bad character in group name %q", name))
	}
	if number == 0 {
		return 0, p.errorAt(at, "bad group number")
	}
	p.conditions = append(p.conditions, condition{number, at})
	return number, nil
}
