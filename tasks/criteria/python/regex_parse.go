package python

import (
	"fmt"
	"strconv"
	"unicode"
)

// regexParser reads the pattern syntax of Python 3.11's re module for text.
type regexParser struct {
	text   []rune
	pos    int
	flags  int // global: the argument's and those of a leading (?flags)
	groups []*widthRange
	names  map[string]int
	// behindGroups is the number of groups that existed when the outermost
	// look-behind began; -1 outside of one.
	behindGroups int
	// conditions are group numbers that a condition names, with the place,
	// checked at the end: the group may come later.
	conditions []condition
}

type condition struct{ group, offset int }

// scope is what a group hands to its contents.
type scope struct {
	flags int // with local flags applied; global ones are added at each leaf
	clear int // flags that a local group turned off
	depth int
}

// errVerbose restarts the parse: a leading (?x) changes how the text before
// it reads, too.
var errVerbose = fmt.Errorf("verbose")

// parsed is a pattern that was read: its tree, and the groups that it has.
type parsed struct {
	tree   *node
	groups int            // capturing groups, numbered from 1
	names  map[string]int // of groups
}

// parseRegex parses text. Errors are those of CompileRegex.
func parseRegex(text []rune, flags int) (*parsed, error) {
	for range 2 {
		p := &regexParser{text: text, flags: flags, groups: []*widthRange{nil}, names: map[string]int{}, behindGroups: -1}
		tree, err := p.parse()
		if err == errVerbose {
			flags |= FlagVerbose
			continue
		}
		return &parsed{tree, len(p.groups) - 1, p.names}, err
	}
	return nil, &SyntaxError{Reason: "the verbose flag is set twice", Offset: 0}
}

func (p *regexParser) parse() (*node, error) {
	if p.flags&FlagLocale != 0 {
		return nil, &SyntaxError{Reason: "cannot use LOCALE flag with a str pattern", Offset: -1}
	}
	tree, err := p.branches(scope{}, true)
	if err != nil {
		return nil, err
	}
	if p.pos < len(p.text) {
		return nil, p.errorAt(p.pos, "unbalanced parenthesis")
	}
	if p.flags&FlagASCII != 0 && p.flags&FlagUnicode != 0 {
		return nil, &SyntaxError{Reason: "ASCII and UNICODE flags are incompatible", Offset: -1}
	}
	for _, c := range p.conditions {
		if c.group >= len(p.groups) {
			return nil, p.errorAt(c.offset, fmt.Sprintf("invalid group reference %d", c.group))
		}
	}
	return tree, nil
}

func (p *regexParser) errorAt(offset int, reason string) error {
	return &SyntaxError{Reason: reason, Offset: offset}
}

// peek gives the next character, or -1 at the end.
func (p *regexParser) peek() rune { return p.peekAt(0) }

func (p *regexParser) peekAt(n int) rune {
	if p.pos+n >= len(p.text) {
		return -1
	}
	return p.text[p.pos+n]
}

func (p *regexParser) accept(r rune) bool {
	if p.peek() != r {
		return false
	}
	p.pos++
	return true
}

// effective are the flags in force at a leaf.
func (p *regexParser) effective(s scope) int {
	flags := p.flags
	if s.flags&(FlagASCII|FlagUnicode) != 0 {
		flags &^= FlagASCII | FlagUnicode
	}
	return (flags | s.flags) &^ s.clear
}

// branches reads alternatives up to a closing parenthesis or the end. Only the
// first one of the whole pattern may begin with global flags.
func (p *regexParser) branches(s scope, first bool) (*node, error) {
	if s.depth > MaxNesting {
		return nil, &UnsupportedError{Reason: fmt.Sprintf("the pattern is nested deeper than %d", MaxNesting)}
	}
	var kids []*node
	for {
		kid, err := p.sequence(s, first && len(kids) == 0)
		if err != nil {
			return nil, err
		}
		kids = append(kids, kid)
		if !p.accept('|') {
			break
		}
	}
	if len(kids) == 1 {
		return kids[0], nil
	}
	return &node{kind: nodeBranch, kids: kids}, nil
}

// sequence reads what stands between two bars.
func (p *regexParser) sequence(s scope, first bool) (*node, error) {
	seq := &node{kind: nodeConcat}
	for {
		if p.effective(s)&FlagVerbose != 0 && p.skipVerbose() {
			continue
		}
		c := p.peek()
		if c == -1 || c == '|' || c == ')' {
			return seq, nil
		}
		start := p.pos
		if ok, err := p.quantifier(seq); ok || err != nil {
			if err != nil {
				return nil, err
			}
			continue
		}
		item, err := p.item(s, first && len(seq.kids) == 0)
		if err != nil {
			return nil, err
		}
		if item != nil {
			seq.kids = append(seq.kids, item)
		}
		if p.pos == start {
			return nil, p.errorAt(p.pos, "the pattern cannot be read")
		}
	}
}

// skipVerbose passes white space or a comment of the verbose flag.
func (p *regexParser) skipVerbose() bool {
	switch p.peek() {
	case ' ', '\t', '\n', '\r', '\v', '\f':
		p.pos++
		return true
	case '#':
		for p.pos < len(p.text) && p.text[p.pos] != '\n' {
			p.pos++
		}
		p.accept('\n')
		return true
	}
	return false
}

// item reads one thing that a quantifier could follow. It is nil for what
// leaves nothing behind: a comment, global flags.
func (p *regexParser) item(s scope, first bool) (*node, error) {
	flags := p.effective(s)
	c := p.text[p.pos]
	switch c {
	case '\\':
		return p.escape(flags)
	case '(':
		return p.group(s, first)
	case '[':
		return p.class(flags)
	case '.':
		p.pos++
		return &node{kind: nodeAny, all: flags&FlagDotAll != 0}, nil
	case '^', '$':
		p.pos++
		return &node{kind: nodeAnchor, anchor: c, flags: flags}, nil
	}
	p.pos++
	return literalNode(c, flags), nil
}

func literalNode(r rune, flags int) *node {
	return setNode(&charSet{ranges: []runeRange{{r, r}}}, flags)
}

// setNode applies the case flag to a set.
func setNode(s *charSet, flags int) *node {
	s.ascii = flags&FlagASCII != 0
	if flags&FlagIgnoreCase != 0 && len(s.ranges) > 0 {
		s.ranges = ignoreCase(s.ranges, s.ascii)
	}
	return &node{kind: nodeSet, set: s}
}

// quantifier applies a quantifier to the last item of seq. It says no, and
// moves nothing, when no quantifier comes next.
func (p *regexParser) quantifier(seq *node) (bool, error) {
	start := p.pos
	low, high, ok, err := p.counts()
	if !ok || err != nil {
		return false, err
	}
	if len(seq.kids) == 0 || seq.kids[len(seq.kids)-1].kind == nodeAnchor {
		return false, p.errorAt(start, "nothing to repeat")
	}
	last := seq.kids[len(seq.kids)-1]
	if last.kind == nodeRepeat {
		return false, p.errorAt(start, "multiple repeat")
	}
	repeat := &node{kind: nodeRepeat, kids: []*node{last}, min: low, max: high}
	switch {
	case p.accept('?'):
		repeat.mode = lazy
	case p.accept('+'):
		repeat.mode = possessive
	}
	seq.kids[len(seq.kids)-1] = repeat
	return true, nil
}

// counts reads the quantifier itself. A brace that is no quantifier is a
// literal.
func (p *regexParser) counts() (low, high int64, ok bool, err error) {
	start := p.pos
	switch p.peek() {
	case '*':
		p.pos++
		return 0, maxRepeat, true, nil
	case '+':
		p.pos++
		return 1, maxRepeat, true, nil
	case '?':
		p.pos++
		return 0, 1, true, nil
	case '{':
		p.pos++
	default:
		return 0, 0, false, nil
	}
	if p.peek() == '}' {
		p.pos = start
		return 0, 0, false, nil
	}
	lowText := p.digits()
	highText, comma := lowText, p.accept(',')
	if comma {
		highText = p.digits()
	}
	if !p.accept('}') {
		p.pos = start
		return 0, 0, false, nil
	}
	low, high = 0, maxRepeat
	if lowText != "" {
		if low, err = p.count(lowText, start); err != nil {
			return 0, 0, false, err
		}
	}
	if highText != "" {
		if high, err = p.count(highText, start); err != nil {
			return 0, 0, false, err
		}
		if high < low {
			return 0, 0, false, p.errorAt(start, "min repeat greater than max repeat")
		}
	}
	return low, high, true, nil
}

func (p *regexParser) digits() string {
	start := p.pos
	for c := p.peek(); c >= '0' && c <= '9'; c = p.peek() {
		p.pos++
	}
	return string(p.text[start:p.pos])
}

func (p *regexParser) count(text string, at int) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n >= maxRepeat {
		return 0, p.errorAt(at, "the repetition number is too large")
	}
	return n, nil
}

// isIdentifier is str.isidentifier, near enough for group names: a letter or
// underscore, then letters, digits, marks and connectors.
func isIdentifier(name string) bool {
	if name == "" {
		return false
	}
	for i, r := range name {
		start := r == '_' || unicode.IsLetter(r) || unicode.Is(unicode.Nl, r) || unicode.Is(unicode.Other_ID_Start, r)
		inside := unicode.In(r, unicode.Mn, unicode.Mc, unicode.Nd, unicode.Pc, unicode.Other_ID_Continue)
		if !start && !(inside && i > 0) {
			return false
		}
	}
	return true
}
