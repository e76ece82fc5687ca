package jmespath

import (
	"fmt"
	"math/big"
)

// kind tells what a node does.
type kind int

const (
	kindIdentity   kind = iota // the value itself
	kindField                  // name
	kindLiteral                // value
	kindChain                  // kids one after another, each on the last one's result
	kindIndexed                // like kindChain, made by brackets
	kindIndex                  // value: the number
	kindSlice                  // slice
	kindProjection             // kids[1] on each element of kids[0]
	kindValues                 // kids[1] on each value of kids[0]
	kindFilter                 // kids[1] on each element of kids[0] where kids[2] holds
	kindFlatten                // kids[0]
	kindList                   // kids as a list
	kindHash                   // kids under names
	kindCompare                // kids by name, the operator
	kindOr                     // kids
	kindAnd                    // kids
	kindNot                    // kids[0]
	kindCall                   // function name on kids
	kindExpression             // kids[0] as a value
)

// node is one node of an expression.
type node struct {
	kind  kind
	name  string
	names []string
	value any
	slice [3]any // int64, *big.Int or nil
	kids  []*node
}

// How strongly tokens bind to what stands before them; 0: not at all. Tokens
// below projectionStop end a projection.
var binding = map[tokenKind]int{
	"|": 1, "||": 2, "&&": 3,
	"==": 5, "!=": 5, "<": 5, ">": 5, "<=": 5, ">=": 5,
	"[]": 9, "*": 20, "[?": 21, ".": 40, "!": 45, "{": 50, "[": 55, "(": 60,
}

const projectionStop = 10

// Bounds of an expression, in bytes and in nesting.
const (
	maxExpression = 64 << 10
	maxNesting    = 200
)

// Expression is a parsed JMESPath expression.
type Expression struct{ root *node }

// Parse parses an expression. The error is a *SyntaxError.
func Parse(text string) (*Expression, error) {
	if len(text) > maxExpression {
		return nil, &SyntaxError{fmt.Sprintf("the expression has %d bytes, more than %d", len(text), maxExpression), 0}
	}
	tokens, err := tokenize(text)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens}
	root, err := p.expression(0)
	if err != nil {
		return nil, err
	}
	if p.kind() != tokenEnd {
		return nil, p.unexpected()
	}
	return &Expression{root}, nil
}

// parser is a top-down operator precedence parser.
type parser struct {
	tokens []token
	pos    int
	depth  int
}

func (p *parser) kind() tokenKind { return p.tokens[p.pos].kind }

// after is the kind of the token after the current one.
func (p *parser) after() tokenKind {
	if p.pos+1 >= len(p.tokens) {
		return tokenEnd
	}
	return p.tokens[p.pos+1].kind
}

func (p *parser) unexpected() error {
	t := p.tokens[p.pos]
	return &SyntaxError{fmt.Sprintf("unexpected %s", t.kind), t.start}
}

// take passes a token of the kind, or fails.
func (p *parser) take(kind tokenKind) error {
	if p.kind() != kind {
		return p.unexpected()
	}
	p.pos++
	return nil
}

// expression reads as far as tokens bind more strongly than power.
func (p *parser) expression(power int) (*node, error) {
	if p.depth++; p.depth > maxNesting {
		return nil, &SyntaxError{fmt.Sprintf("the expression is nested deeper than %d", maxNesting), p.tokens[p.pos].start}
	}
	defer func() { p.depth-- }()
	left, err := p.prefix()
	for err == nil && power < binding[p.kind()] {
		left, err = p.infix(left)
	}
	return left, err
}

// prefix reads what an expression begins with.
func (p *parser) prefix() (*node, error) {
	t := p.tokens[p.pos]
	if t.kind != tokenEnd {
		p.pos++
	}
	switch t.kind {
	case tokenValue:
		return &node{kind: kindLiteral, value: t.value}, nil
	case tokenName:
		return &node{kind: kindField, name: t.text}, nil
	case tokenQuoted:
		if p.kind() == "(" {
			return nil, p.unexpected()
		}
		return &node{kind: kindField, name: t.text}, nil
	case "@":
		// Not a chain of its own: the same as no step at all.
		return &node{kind: kindIdentity}, nil
	case "*":
		if p.kind() == "]" {
			return &node{kind: kindValues, kids: []*node{{}, {}}}, nil
		}
		return p.project(kindValues, &node{}, binding["*"])
	case "[?":
		return p.filter(&node{})
	case "[]":
		return p.project(kindProjection, &node{kind: kindFlatten, kids: []*node{{}}}, binding["[]"])
	case "[":
		return p.bracket()
	case "{":
		return p.hash()
	case "(":
		inner, err := p.expression(0)
		if err != nil {
			return nil, err
		}
		return inner, p.take(")")
	case "!":
		return p.unary(kindNot, binding["!"])
	case "&":
		return p.unary(kindExpression, 0)
	}
	if t.kind != tokenEnd {
		p.pos--
	}
	return nil, p.unexpected()
}

func (p *parser) unary(kind kind, power int) (*node, error) {
	inner, err := p.expression(power)
	return &node{kind: kind, kids: []*node{inner}}, err
}

// infix reads what may follow left.
func (p *parser) infix(left *node) (*node, error) {
	kind := p.kind()
	p.pos++
	switch kind {
	case ".":
		return p.dot(left)
	case "|":
		return p.binary(kindChain, "", left, binding[kind])
	case "||":
		return p.binary(kindOr, "", left, binding[kind])
	case "&&":
		return p.binary(kindAnd, "", left, binding[kind])
	case "==", "!=", "<", ">", "<=", ">=":
		return p.binary(kindCompare, string(kind), left, binding[kind])
	case "(":
		return p.call(left)
	case "[?":
		return p.filter(left)
	case "[]":
		return p.project(kindProjection, &node{kind: kindFlatten, kids: []*node{left}}, binding[kind])
	case "[":
		return p.indexOf(left)
	}
	p.pos--
	return nil, p.unexpected()
}

func (p *parser) binary(kind kind, name string, left *node, power int) (*node, error) {
	right, err := p.expression(power)
	return &node{kind: kind, name: name, kids: []*node{left, right}}, err
}

func (p *parser) dot(left *node) (*node, error) {
	if p.kind() == "*" {
		p.pos++
		return p.project(kindValues, left, binding["."])
	}
	right, err := p.afterDot(binding["."])
	return &node{kind: kindChain, kids: []*node{left, right}}, err
}

// afterDot reads what may stand after a dot.
func (p *parser) afterDot(power int) (*node, error) {
	switch p.kind() {
	case tokenName, tokenQuoted, "*":
		return p.expression(power)
	case "[":
		p.pos++
		return p.list()
	case "{":
		p.pos++
		return p.hash()
	}
	return nil, p.unexpected()
}

// project reads the right-hand side of a projection of base.
func (p *parser) project(kind kind, base *node, power int) (*node, error) {
	right, err := p.projected(power)
	return &node{kind: kind, kids: []*node{base, right}}, err
}

func (p *parser) projected(power int) (*node, error) {
	switch k := p.kind(); {
	case binding[k] < projectionStop:
		return &node{}, nil
	case k == "[", k == "[?":
		return p.expression(power)
	case k == ".":
		p.pos++
		return p.afterDot(power)
	}
	return nil, p.unexpected()
}

// filter reads a condition and what is projected, after "[?".
func (p *parser) filter(base *node) (*node, error) {
	condition, err := p.expression(0)
	if err != nil {
		return nil, err
	}
	if err := p.take("]"); err != nil {
		return nil, err
	}
	right := &node{}
	if p.kind() != "[]" {
		if right, err = p.projected(binding["[?"]); err != nil {
			return nil, err
		}
	}
	return &node{kind: kindFilter, kids: []*node{base, right, condition}}, nil
}

// bracket reads an index, a slice, a projection or a list, after a "[" that an
// expression begins with.
func (p *parser) bracket() (*node, error) {
	switch {
	case p.kind() == tokenNumber, p.kind() == ":":
		return p.indexed(&node{})
	case p.kind() == "*" && p.after() == "]":
		p.pos += 2
		return p.project(kindProjection, &node{}, binding["*"])
	}
	return p.list()
}

// indexOf reads an index, a slice or a projection of left, after its "[".
func (p *parser) indexOf(left *node) (*node, error) {
	if p.kind() != tokenNumber && p.kind() != ":" {
		if err := p.take("*"); err != nil {
			return nil, err
		}
		if err := p.take("]"); err != nil {
			return nil, err
		}
		return p.project(kindProjection, left, binding["*"])
	}
	if left.kind != kindIndexed {
		return p.indexed(left)
	}
	// A slice after an index is not projected, in Python's implementation.
	right, err := p.index()
	left.kids = append(left.kids, right)
	return left, err
}

func (p *parser) indexed(left *node) (*node, error) {
	right, err := p.index()
	if err != nil {
		return nil, err
	}
	whole := &node{kind: kindIndexed, kids: []*node{left, right}}
	if right.kind == kindSlice {
		return p.project(kindProjection, whole, binding["*"])
	}
	return whole, nil
}

// index reads a number or a slice and the closing bracket.
func (p *parser) index() (*node, error) {
	if p.kind() != ":" && p.after() != ":" {
		n := &node{kind: kindIndex, value: p.tokens[p.pos].value}
		p.pos++
		return n, p.take("]")
	}
	n := &node{kind: kindSlice}
	part := 0
	for p.kind() != "]" {
		switch {
		case p.kind() == tokenNumber:
			n.slice[part] = p.tokens[p.pos].value
		case p.kind() == ":" && part < 2:
			part++
		default:
			return nil, p.unexpected()
		}
		p.pos++
	}
	return n, p.take("]")
}

// list reads a multi-select list after its "[".
func (p *parser) list() (*node, error) {
	n := &node{kind: kindList}
	for {
		kid, err := p.expression(0)
		if err != nil {
			return nil, err
		}
		n.kids = append(n.kids, kid)
		if p.kind() == "]" {
			return n, p.take("]")
		}
		if err := p.take(","); err != nil {
			return nil, err
		}
	}
}

// hash reads a multi-select hash after its "{".
func (p *parser) hash() (*node, error) {
	n := &node{kind: kindHash}
	for {
		key := p.tokens[p.pos]
		if key.kind != tokenName && key.kind != tokenQuoted {
			return nil, p.unexpected()
		}
		p.pos++
		if err := p.take(":"); err != nil {
			return nil, err
		}
		kid, err := p.expression(0)
		if err != nil {
			return nil, err
		}
		n.names, n.kids = append(n.names, key.text), append(n.kids, kid)
		switch p.kind() {
		case ",":
			p.pos++
		case "}":
			p.pos++
			return n, nil
		}
	}
}

// call reads the arguments of a function after "(".
func (p *parser) call(left *node) (*node, error) {
	if left.kind != kindField {
		p.pos--
		return nil, p.unexpected()
	}
	n := &node{kind: kindCall, name: left.name}
	for p.kind() != ")" {
		kid, err := p.expression(0)
		if err != nil {
			return nil, err
		}
		n.kids = append(n.kids, kid)
		if p.kind() == "," {
			p.pos++
		}
	}
	return n, p.take(")")
}

// index64 gives an integer of the expression within int64, clamped.
func index64(v any) int64 {
	switch v := v.(type) {
	case int64:
		return v
	case *big.Int:
		if v.Sign() < 0 {
			return -1 << 62
		}
		return 1 << 62
	}
	return 0
}
