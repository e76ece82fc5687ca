package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// null is the JSON value that stands for nothing.
var null = []byte("null")

// IsNull tells whether the value is null, or no value at all.
func (r Raw) IsNull() bool { return len(r) == 0 || bytes.Equal(r, null) }

// errNoArray is made once: most values that are asked for elements are null.
var errNoArray = fmt.Errorf("%w: an array should be here", ErrJSON)

// isObject tells whether the value is an object.
func (r Raw) isObject() bool { return len(r) > 0 && r[0] == '{' }

// isArray tells whether the value is an array.
func (r Raw) isArray() bool { return len(r) > 0 && r[0] == '[' }

// Text returns the string that the value is; a lone surrogate becomes U+FFFD.
func (r Raw) Text() (string, bool) {
	if len(r) < 2 || r[0] != '"' {
		return "", false
	}
	return unquote(r), true
}

// Bool returns the boolean that the value is.
func (r Raw) Bool() (value, ok bool) {
	switch string(r) {
	case "true":
		return true, true
	case "false":
		return false, true
	}
	return false, false
}

// Number returns the number that the value is. NaN and the infinities are
// numbers here, as they are in Python.
func (r Raw) Number() (float64, bool) {
	switch string(r) {
	case "NaN":
		return math.NaN(), true
	case "Infinity":
		return math.Inf(1), true
	case "-Infinity":
		return math.Inf(-1), true
	}
	if len(r) == 0 || r[0] != '-' && (r[0] < '0' || r[0] > '9') {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(r), 64)
	// A number beyond the range of float64 is an infinity, as in Python.
	return f, err == nil || math.IsInf(f, 0)
}

// Int returns the whole number that the value is.
func (r Raw) Int() (int64, bool) {
	n, err := strconv.ParseInt(string(r), 10, 64)
	if err != nil {
		return 0, false // a number beyond the range would be its end
	}
	return n, true
}

// Object returns the members of the object that the value is.
func (r Raw) Object() (*Object, error) { return parseObject(r) }

// Elements returns the values of the array that the value is.
func (r Raw) Elements() ([]Raw, error) {
	s := scanner{data: r}
	if !r.isArray() {
		return nil, errNoArray
	}
	var all []Raw
	err := s.array(0, func(value Raw) { all = append(all, value) })
	return all, err
}

// Length is the number of elements of an array; 0 for anything else.
func (r Raw) Length() int {
	n := 0
	s := scanner{data: r}
	if s.peek() != '[' || s.array(0, func(Raw) { n++ }) != nil {
		return 0
	}
	return n
}

// Decode fills a Go value. The tokens that only Python knows become null.
func (r Raw) Decode(into any) error { return json.Unmarshal(r.standard(), into) }

// standard replaces NaN, Infinity and -Infinity outside of strings by null.
// In checked text no other value starts with one of these capitals.
func (r Raw) standard() []byte {
	if !bytes.Contains(r, []byte("NaN")) && !bytes.Contains(r, []byte("Infinity")) {
		return r
	}
	out := make([]byte, 0, len(r))
	s := scanner{data: r}
	for s.pos < len(r) {
		start := s.pos
		switch {
		case r[start] == '"':
			if _, err := s.text(); err != nil {
				return r
			}
			out = append(out, r[start:s.pos]...)
		case r[start] == 'N':
			s.pos += len("NaN")
			out = append(out, null...)
		case r[start] == 'I':
			s.pos += len("Infinity")
			out = append(bytes.TrimSuffix(out, []byte("-")), null...)
		default:
			out = append(out, r[start])
			s.pos++
		}
	}
	return out
}

// unquote decodes a checked string with its quotes.
func unquote(quoted []byte) string {
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		return ""
	}
	return s
}
