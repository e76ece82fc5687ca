package tasks

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// Bounds of one document. A document past them is an error, never a slow load.
const (
	maxYAMLBytes  = 4 << 20
	maxJSONBytes  = 16 << 20
	maxDepth      = 200
	maxNodes      = 1_000_000 // with every alias expanded
	maxStructural = 500_000   // characters that can begin a node of YAML
)

// parseYAML reads one YAML document into a node tree, with the meaning that
// YAML 1.1 gives it. Problems end up in r; the result is nil when there is no
// tree at all.
func parseYAML(data []byte, src *source, r *report) *node {
	whole := &node{src: src}
	switch {
	case len(data) > maxYAMLBytes:
		r.fail(whole, "", "the file has %d bytes; at most %d are read", len(data), maxYAMLBytes)
		return nil
	case !utf8.Valid(data):
		line, column := badUTF8(data)
		r.fail(&node{src: src, line: line, column: column}, "", "the file is not UTF-8 text from here on; save it as UTF-8")
		return nil
	case countStructural(data) > maxStructural:
		r.fail(whole, "", "the document has more than %d values; split it, or put dataset rows into a JSONL file", maxStructural)
		return nil
	}
	root, err := composeYAML(data)
	if err != nil {
		root, err = composeAgain(data, err)
	}
	if err != nil {
		line, column, text := yamlFault(data, err)
		r.fail(&node{src: src, line: line, column: column}, "", "not valid YAML: %s", text)
		return nil
	}
	c := &converter{src: src, report: r, done: map[*yaml.Node]sized{}, open: map[*yaml.Node]bool{}}
	if root == nil {
		return &node{kind: nullNode, src: src}
	}
	n, _ := c.convert(root, 0)
	if c.stopped {
		return nil
	}
	return n
}

// countStructural bounds the number of nodes that the YAML parser would make,
// before it makes them.
func countStructural(data []byte) (count int) {
	for _, b := range data {
		switch b {
		case ',', '[', '{', ':', '\n', '-', '?':
			count++
		}
	}
	return count
}

// composeYAML parses one document. yaml.v3 panics on some malformed input, so
// a panic of the parser is an error of the file.
func composeYAML(data []byte) (root *yaml.Node, err error) {
	defer func() {
		if p := recover(); p != nil {
			root, err = nil, fmt.Errorf("the parser gave up: %v", p)
		}
	}()
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, second yaml.Node
	if err := decoder.Decode(&document); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, err
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		if err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("line %d: "+secondDocument, second.Line)
	}
	if len(document.Content) == 0 {
		return nil, nil
	}
	return document.Content[0], nil
}

const secondDocument = "a second document begins here; one file holds one task"

var (
	yamlMessage = regexp.MustCompile(`^(?:yaml: )?line ([0-9]+): (.*)$`)
	// fromParser are the messages in which yaml.v3 counts lines from 0.
	fromParser = regexp.MustCompile(`^did not find expected (?:<|',' or|'-' indicator|key|node content)`)
)

// yamlError splits an error of yaml.v3 into its line and the rest.
func yamlError(err error) (line int, text string) {
	m := yamlMessage.FindStringSubmatch(err.Error())
	if m == nil {
		return 1, err.Error()
	}
	line, _ = strconv.Atoi(m[1])
	if fromParser.MatchString(m[2]) {
		line++
	}
	return line, m[2]
}

// sized is a converted node with the number of nodes that it expands to.
type sized struct {
	node *node
	size int
}

// converter turns a tree of yaml.v3 into ours.
type converter struct {
	src     *source
	report  *report
	done    map[*yaml.Node]sized // anchored nodes
	open    map[*yaml.Node]bool  // anchored nodes being converted, to see cycles
	total   int
	stopped bool
}

func (c *converter) at(y *yaml.Node) node {
	return node{src: c.src, line: y.Line, column: y.Column}
}

// stop ends the conversion: one more problem and no tree.
func (c *converter) stop(y *yaml.Node, format string, args ...any) (*node, int) {
	at := c.at(y)
	if !c.stopped {
		c.report.fail(&at, "", format, args...)
	}
	c.stopped = true
	return &at, 1
}

func (c *converter) convert(y *yaml.Node, depth int) (*node, int) {
	if c.stopped {
		n := c.at(y)
		return &n, 1
	}
	if depth > maxDepth {
		return c.stop(y, "values are nested more than %d deep", maxDepth)
	}
	if y.Kind == yaml.AliasNode {
		return c.alias(y, depth)
	}
	if y.Anchor != "" {
		c.open[y] = true
		defer delete(c.open, y)
	}
	n := c.at(y)
	size := 1
	switch y.Kind {
	case yaml.ScalarNode:
		c.scalar(&n, y)
	case yaml.SequenceNode:
		n.kind = listNode
		if y.Style&yaml.TaggedStyle != 0 && y.Tag != "!!seq" {
			c.report.fail(&n, "", "the tag %s is not allowed on a list", quote(y.Tag))
		}
		for _, child := range y.Content {
			if key := endsInColon(y, child); key != nil {
				child = &yaml.Node{Kind: yaml.MappingNode, Line: child.Line, Column: child.Column, Content: []*yaml.Node{key, {Kind: yaml.ScalarNode, Line: child.Line, Column: child.Column}}}
			}
			item, s := c.convert(child, depth+1)
			n.items = append(n.items, item)
			size += s
		}
	case yaml.MappingNode:
		n.kind = mapNode
		size += c.mapping(&n, y, depth)
	}
	if c.total += 1; c.total > maxNodes || size > maxNodes {
		return c.stop(y, "the document has more than %d values", maxNodes)
	}
	if y.Anchor != "" {
		c.done[y] = sized{&n, size}
	}
	return &n, size
}

// alias shares the anchored node, and counts it as often as it is used: a few
// lines of aliases of aliases stand for billions of values.
func (c *converter) alias(y *yaml.Node, depth int) (*node, int) {
	target := y.Alias
	if target == nil || c.open[target] {
		return c.stop(y, "the alias *%s stands inside of its own anchor", quoteBare(y.Value))
	}
	known, ok := c.done[target]
	if !ok {
		return c.stop(y, "the alias *%s has no anchor", quoteBare(y.Value))
	}
	if c.total += known.size; c.total > maxNodes {
		return c.stop(y, "aliases expand to more than %d values", maxNodes)
	}
	if depth+height(known.node) > maxDepth {
		return c.stop(y, "values are nested more than %d deep", maxDepth)
	}
	return known.node, known.size
}

// height is how deep a tree is; its cost is part of what alias has counted.
func height(n *node) (h int) {
	for _, item := range n.items {
		h = max(h, height(item))
	}
	for _, p := range n.pairs {
		h = max(h, height(p.value))
	}
	return h + 1
}

// mapping converts the pairs of a mapping: merge keys first, as YAML 1.1 wants
// them, and the last of equal keys wins, as upstream's loader does it.
func (c *converter) mapping(n *node, y *yaml.Node, depth int) (size int) {
	if y.Style&yaml.TaggedStyle != 0 && y.Tag != "!!map" {
		c.report.fail(n, "", "the tag %s is not allowed on a mapping", quote(y.Tag))
	}
	index := make(map[string]int, len(y.Content)/2)
	put := func(p pair, merged bool) {
		if i, ok := index[p.key]; ok {
			if !merged {
				n.pairs[i] = p
			}
			return
		}
		index[p.key] = len(n.pairs)
		n.pairs = append(n.pairs, p)
	}
	own := map[string]bool{}
	for i := 0; i+1 < len(y.Content); i += 2 {
		key, value := y.Content[i], y.Content[i+1]
		if whole := endsInColon(y, key); whole != nil {
			key = whole
		}
		if isMergeKey(key) {
			v, s := c.convert(value, depth+1)
			size += s + 1 + c.merge(v, put)
			continue
		}
		if key.Kind == yaml.ScalarNode && key.Style == 0 && key.Value == "=" {
			quoted := *key // special as a value only
			quoted.Style = yaml.DoubleQuotedStyle
			key = &quoted
		}
		k, _ := c.convert(key, depth+1) // first: its anchor may be used by the value
		v, s := c.convert(value, depth+1)
		size += s + 1
		name, ok := Str(k.value())
		if k.kind == listNode || k.kind == mapNode || !ok {
			c.report.fail(k, "", "a key must be a string, not %s", k.kind)
			continue
		}
		if own[name] {
			c.report.warn(k, "", "the key %s is written twice; the last one counts", quote(name))
		}
		own[name] = true
		put(pair{name, k, v}, false)
	}
	return size
}

// endsInColon returns a key for a plain scalar of a flow list or flow mapping
// that ends in a colon: upstream reads [a:] as [{a: null}], yaml.v3 as ["a:"].
// It is nil for all others.
func endsInColon(parent, y *yaml.Node) *yaml.Node {
	if parent.Style&yaml.FlowStyle == 0 || y.Kind != yaml.ScalarNode || y.Style != 0 || !strings.HasSuffix(y.Value, ":") {
		return nil
	}
	key := *y
	key.Value = strings.TrimRight(strings.TrimSuffix(y.Value, ":"), " \t")
	return &key
}

func isMergeKey(key *yaml.Node) bool {
	return key.Kind == yaml.ScalarNode && key.Value == "<<" && key.Style&^yaml.TaggedStyle == 0 && key.Tag == "!!merge"
}

// merge adds the pairs of a merge key's value, which never replace a key.
func (c *converter) merge(v *node, put func(pair, bool)) (size int) {
	sources := []*node{v}
	if v.kind == listNode {
		sources = v.items
	}
	for _, m := range sources {
		if m.kind != mapNode {
			c.report.fail(m, "", "a merge key (<<) takes a mapping or a list of mappings, not %s", m.kind)
			continue
		}
		size += len(m.pairs)
		for _, p := range m.pairs {
			put(p, true)
		}
	}
	if c.total += size; c.total > maxNodes && !c.stopped {
		c.stopped = true
		c.report.fail(v, "", "merge keys expand to more than %d values", maxNodes)
	}
	return size
}

// scalar fills in a scalar, by its tag when it has one.
func (c *converter) scalar(n *node, y *yaml.Node) {
	n.text = y.Value
	n.kind, n.scalar = stringNode, y.Value
	tagged := y.Style&yaml.TaggedStyle != 0
	switch {
	case tagged && y.Tag == "!!str", tagged && y.Tag == "!":
		return
	case tagged:
		c.tagged(n, y)
	case y.Style == 0:
		k, value, err := resolvePlain(y.Value)
		if err != nil {
			c.report.fail(n, "", "%s", err)
			return
		}
		n.kind, n.scalar = k, value
	}
}

// tagged resolves a scalar that names its own type.
func (c *converter) tagged(n *node, y *yaml.Node) {
	want, ok := map[string]kind{"!!null": nullNode, "!!bool": boolNode, "!!int": intNode, "!!float": floatNode, "!!timestamp": timeNode}[y.Tag]
	if !ok {
		c.report.fail(n, "", "the tag %s is not allowed here; write the plain value", quote(y.Tag))
		return
	}
	if want == nullNode {
		n.kind, n.scalar = nullNode, nil // upstream does not look at the text
		return
	}
	k, value, err := resolvePlain(y.Value)
	if i, isInt := value.(int64); isInt && want == floatNode {
		k, value = floatNode, float64(i)
	}
	if err != nil || k != want {
		c.report.fail(n, "", "%s is not %s, which its tag says", quote(y.Value), want)
		return
	}
	n.kind, n.scalar = k, value
}
