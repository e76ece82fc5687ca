package tasks

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// parseJSON reads one JSON value into the same tree as parseYAML. It does not
// go through YAML, whose escapes and numbers differ.
func parseJSON(data []byte, src *source, r *report) *node {
	n, _ := readJSON(data, src, maxNodes, r)
	return n
}

// readJSON is parseJSON with a bound on the number of values; it returns how
// many it has read.
func readJSON(data []byte, src *source, limit int, r *report) (root *node, count int) {
	whole := &node{src: src}
	if len(data) > maxJSONBytes {
		r.fail(whole, "", "the JSON text has %d bytes; at most %d are read", len(data), maxJSONBytes)
		return nil, 0
	}
	p := &jsonReader{data: data, src: src, limit: limit, decoder: json.NewDecoder(bytes.NewReader(data))}
	p.decoder.UseNumber()
	n, err := p.value(0)
	if err == nil {
		_, err = p.decoder.Token()
		if err == io.EOF {
			return n, p.count
		}
		err = errText("something follows the JSON value")
	}
	at := p.here()
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = errText("the text ends too early")
	}
	r.fail(&at, "", "not valid JSON: %s", quoteBare(err.Error()))
	return nil, p.count
}

// errText is an error that needs no type.
type errText string

func (e errText) Error() string { return string(e) }

// jsonReader reads tokens and knows where they stand.
type jsonReader struct {
	data    []byte
	src     *source
	decoder *json.Decoder
	lines   []int // offsets of line starts, made when first needed
	count   int   // values read
	limit   int
}

// here returns an empty node at the next token.
func (p *jsonReader) here() node {
	if p.lines == nil {
		p.lines = []int{0}
		for i, b := range p.data {
			if b == '\n' {
				p.lines = append(p.lines, i+1)
			}
		}
	}
	offset := int(p.decoder.InputOffset())
	for offset < len(p.data) && strings.IndexByte(" \t\r\n,:", p.data[offset]) >= 0 {
		offset++
	}
	line, found := slices.BinarySearch(p.lines, offset)
	if !found {
		line--
	}
	return node{src: p.src, line: line + 1, column: offset - p.lines[line] + 1}
}

func (p *jsonReader) value(depth int) (*node, error) {
	n := p.here()
	if depth > maxDepth {
		return nil, errText("values are nested more than " + strconv.Itoa(maxDepth) + " deep")
	}
	if p.count++; p.count > p.limit {
		return nil, errText("there are too many values; at most " + strconv.Itoa(maxNodes) + " are read")
	}
	token, err := p.decoder.Token()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case nil:
		n.kind, n.text = nullNode, "null"
	case bool:
		n.kind, n.scalar, n.text = boolNode, t, strconv.FormatBool(t)
	case string:
		n.kind, n.scalar, n.text = stringNode, t, t
	case json.Number:
		n.text = t.String()
		n.kind, n.scalar, err = jsonNumber(n.text)
		return &n, err
	case json.Delim:
		if t == '[' {
			return &n, p.list(&n, depth)
		}
		return &n, p.object(&n, depth)
	}
	return &n, nil
}

func (p *jsonReader) list(n *node, depth int) error {
	n.kind = listNode
	for p.decoder.More() {
		item, err := p.value(depth + 1)
		if err != nil {
			return err
		}
		n.items = append(n.items, item)
	}
	_, err := p.decoder.Token()
	return err
}

// object reads an object; the last of equal keys wins, as in Python.
func (p *jsonReader) object(n *node, depth int) error {
	n.kind = mapNode
	index := map[string]int{}
	for p.decoder.More() {
		key, err := p.value(depth + 1)
		if err != nil {
			return err
		}
		value, err := p.value(depth + 1)
		if err != nil {
			return err
		}
		next := pair{key.text, key, value}
		if i, ok := index[key.text]; ok {
			n.pairs[i] = next
			continue
		}
		index[key.text] = len(n.pairs)
		n.pairs = append(n.pairs, next)
	}
	_, err := p.decoder.Token()
	return err
}

// jsonNumber reads a number as Python does: without fraction and exponent it is
// an integer of any size, else a float.
func jsonNumber(text string) (kind, any, error) {
	if !strings.ContainsAny(text, ".eE") {
		const maxDigits = 4300 // Python refuses to convert longer integers
		i, ok := new(big.Int), len(text) <= maxDigits
		if ok {
			_, ok = i.SetString(text, 10)
		}
		if !ok {
			return 0, nil, errText("an integer of " + strconv.Itoa(len(text)) + " digits")
		}
		return intNode, intScalar(i), nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil && !math.IsInf(f, 0) {
		return 0, nil, err
	}
	return floatNode, f, nil
}
