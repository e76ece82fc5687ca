package tasks

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
)

// kind is the kind of a node.
type kind uint8

const (
	nullNode kind = iota
	boolNode
	intNode
	floatNode
	stringNode
	timeNode
	listNode
	mapNode
)

// names of kinds as messages say them.
func (k kind) String() string {
	return [...]string{"null", "a boolean", "an integer", "a number", "a string", "a date", "a list", "a mapping"}[k]
}

// source is where a node was read from, and the layer that it stands for.
type source struct {
	file   string // as the user named it; "-D" for the command line
	dir    string // directory that relative paths start from
	layer  string // one of the Layer constants
	detail string // what lineage says instead of a place in the file
}

// node is one value of a document, from YAML and JSON alike. A node is never
// changed once its document is read, since aliases share it; changes are copies.
type node struct {
	kind   kind
	scalar any    // bool, int64, *big.Int, float64, string or Timestamp
	text   string // as written, for messages
	items  []*node
	pairs  []pair
	src    *source
	line   int // 1-based; 0: not from a file
	column int
}

// pair is one key of a mapping. Keys are strings; keyNode is where it stands.
type pair struct {
	key     string
	keyNode *node
	value   *node
}

// Timestamp is a date or a date and time that YAML 1.1 reads from an unquoted
// scalar, as Python's str() shows it. It equals no string.
type Timestamp string

// place returns the position for messages.
func (n *node) place() Place {
	if n == nil || n.src == nil {
		return Place{}
	}
	return Place{File: n.src.file, Line: n.line, Column: n.column}
}

// get returns the value of a key, nil when there is none.
func (n *node) get(key string) *node {
	if n == nil {
		return nil
	}
	for i := range n.pairs {
		if n.pairs[i].key == key {
			return n.pairs[i].value
		}
	}
	return nil
}

// at returns the value below several keys, nil when there is none.
func (n *node) at(keys ...string) *node {
	for _, key := range keys {
		n = n.get(key)
	}
	return n
}

// with returns a copy of a mapping in which the keys have the value.
func (n *node) with(value *node, keys ...string) *node {
	c := *n
	c.kind = mapNode
	c.pairs = slices.Clone(n.pairs)
	for i := range c.pairs {
		if c.pairs[i].key == keys[0] {
			if len(keys) > 1 {
				value = c.pairs[i].value.with(value, keys[1:]...)
			}
			c.pairs[i].value = value
			return &c
		}
	}
	if len(keys) > 1 {
		value = (&node{kind: mapNode, src: value.src, line: value.line, column: value.column}).with(value, keys[1:]...)
	}
	c.pairs = append(c.pairs, pair{key: keys[0], keyNode: value, value: value})
	return &c
}

// without returns a copy of a mapping that lacks the key.
func (n *node) without(key string) *node {
	if n.get(key) == nil {
		return n
	}
	c := *n
	c.pairs = slices.DeleteFunc(slices.Clone(n.pairs), func(p pair) bool { return p.key == key })
	return &c
}

// str returns a string node at the place of n.
func (n *node) str(text string) *node {
	return &node{kind: stringNode, scalar: text, text: text, src: n.src, line: n.line, column: n.column}
}

// isString reports whether n is a string, and which.
func (n *node) isString() (string, bool) {
	if n == nil || n.kind != stringNode {
		return "", false
	}
	return n.scalar.(string), true
}

// isTrue reports whether n is a boolean that is true, in the lax reading.
func (n *node) isTrue() bool {
	if n == nil {
		return false
	}
	value, ok := laxBool(n)
	return ok && value
}

// value returns what n holds: nil, bool, int64, *big.Int (outside of int64),
// float64, string, Timestamp, []any or map[string]any.
func (n *node) value() any {
	switch n.kind {
	case nullNode:
		return nil
	case listNode:
		list := make([]any, len(n.items))
		for i, item := range n.items {
			list[i] = item.value()
		}
		return list
	case mapNode:
		m := make(map[string]any, len(n.pairs))
		for _, p := range n.pairs {
			m[p.key] = p.value.value()
		}
		return m
	}
	return n.scalar
}

// show returns n for a message: short, on one line, nothing unprintable.
func (n *node) show() string {
	switch n.kind {
	case nullNode, listNode, mapNode:
		return n.kind.String()
	case stringNode:
		return quote(n.scalar.(string))
	}
	return fmt.Sprintf("%s (%s)", quoteBare(n.text), n.kind)
}

// quote makes a string of a file safe to print, and short.
func quote(s string) string {
	const limit = 80
	if len(s) > limit {
		return strconv.Quote(s[:limit]) + "..."
	}
	return strconv.Quote(s)
}

// quoteBare is quote without the quotation marks.
func quoteBare(s string) string {
	q := quote(s)
	if q[len(q)-1] == '"' {
		return q[1 : len(q)-1]
	}
	return q[1:]
}

// intScalar returns the smallest of the two forms of an integer.
func intScalar(i *big.Int) any {
	if i.IsInt64() {
		return i.Int64()
	}
	return i
}
