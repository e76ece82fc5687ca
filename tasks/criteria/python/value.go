package python

import (
	"errors"
	"math"
	"math/big"
	"strings"
)

// A value of a JSON document is one of: nil, bool, int64, *big.Int (only what
// int64 does not hold), float64, string, []any, *Dict.

// Dict is a mapping that keeps the order in which its keys first came.
type Dict struct {
	keys   []string
	values map[string]any
}

// NewDict returns an empty Dict.
func NewDict() *Dict { return &Dict{values: map[string]any{}} }

// Set sets a key; a key that is there keeps its place.
func (d *Dict) Set(key string, value any) {
	if _, ok := d.values[key]; !ok {
		d.keys = append(d.keys, key)
	}
	d.values[key] = value
}

// Get returns the value of a key, nil when there is none.
func (d *Dict) Get(key string) (value any, ok bool) {
	value, ok = d.values[key]
	return value, ok
}

// Keys returns the keys in order. The slice must not be changed.
func (d *Dict) Keys() []string { return d.keys }

// Len returns the number of keys.
func (d *Dict) Len() int { return len(d.keys) }

// ErrUnorderable is the TypeError of an ordering between values that have none.
var ErrUnorderable = errors.New("values of these types have no order")

// number gives a value as one kind of number; a bool is 0 or 1.
func number(v any) (i *big.Int, f float64, isFloat, ok bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return big.NewInt(1), 0, false, true
		}
		return new(big.Int), 0, false, true
	case int64:
		return big.NewInt(v), 0, false, true
	case *big.Int:
		return v, 0, false, true
	case float64:
		return nil, v, true, true
	}
	return nil, 0, false, false
}

// compareNumbers orders exactly, as Python does between int and float. NaN
// has no order.
func compareNumbers(a, b any) (order int, ordered, ok bool) {
	ai, af, aIsFloat, aok := number(a)
	bi, bf, bIsFloat, bok := number(b)
	if !aok || !bok {
		return 0, false, false
	}
	if aIsFloat && math.IsNaN(af) || bIsFloat && math.IsNaN(bf) {
		return 0, false, true
	}
	switch {
	case !aIsFloat && !bIsFloat:
		return ai.Cmp(bi), true, true
	case aIsFloat && bIsFloat:
		return compareFloats(af, bf), true, true
	case aIsFloat:
		return -compareIntFloat(bi, af), true, true
	}
	return compareIntFloat(ai, bf), true, true
}

func compareFloats(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func compareIntFloat(i *big.Int, f float64) int {
	if math.IsInf(f, 1) {
		return -1
	}
	if math.IsInf(f, -1) {
		return 1
	}
	exact := new(big.Float).SetFloat64(f)
	return new(big.Float).SetInt(i).Cmp(exact)
}

// Equal is Python's == between values: 1 == 1.0, True == 1, lists and
// mappings deeply, the order of keys does not matter, NaN equals nothing.
func Equal(a, b any) bool {
	if order, ordered, ok := compareNumbers(a, b); ok {
		return ordered && order == 0
	}
	switch a := a.(type) {
	case nil:
		return b == nil
	case string:
		other, ok := b.(string)
		return ok && a == other
	case []any:
		other, ok := b.([]any)
		if !ok || len(a) != len(other) {
			return false
		}
		for i := range a {
			if !Equal(a[i], other[i]) {
				return false
			}
		}
		return true
	case *Dict:
		other, ok := b.(*Dict)
		return ok && equalDicts(a, other)
	}
	return false
}

func equalDicts(a, b *Dict) bool {
	if a.Len() != b.Len() {
		return false
	}
	for _, key := range a.keys {
		other, ok := b.values[key]
		if !ok || !Equal(a.values[key], other) {
			return false
		}
	}
	return true
}

// Operators of Ordered.
const (
	Less         = "<"
	LessEqual    = "<="
	Greater      = ">"
	GreaterEqual = ">="
)

// Ordered is Python's native ordering: numbers (a bool is one), strings by
// code point, lists by their first different element. Anything else is
// ErrUnorderable.
func Ordered(a any, operator string, b any) (bool, error) {
	if order, ordered, ok := compareNumbers(a, b); ok {
		return ordered && holds(order, operator), nil
	}
	switch a := a.(type) {
	case string:
		if other, ok := b.(string); ok {
			// The order of UTF-8 bytes is the order of code points.
			return holds(strings.Compare(a, other), operator), nil
		}
	case []any:
		if other, ok := b.([]any); ok {
			return orderedLists(a, operator, other)
		}
	}
	return false, ErrUnorderable
}

func orderedLists(a []any, operator string, b []any) (bool, error) {
	for i := 0; i < len(a) && i < len(b); i++ {
		if !Equal(a[i], b[i]) {
			return Ordered(a[i], operator, b[i])
		}
	}
	return holds(len(a)-len(b), operator), nil
}

func holds(order int, operator string) bool {
	switch operator {
	case Less:
		return order < 0
	case LessEqual:
		return order <= 0
	case Greater:
		return order > 0
	}
	return order >= 0
}

// Contains is Python's "item in container" for a string, a list, or the keys
// of a mapping. The error is ErrUnorderable where Python raises a TypeError.
func Contains(container, item any) (bool, error) {
	switch c := container.(type) {
	case string:
		text, ok := item.(string)
		if !ok {
			return false, ErrUnorderable
		}
		return strings.Contains(c, text), nil
	case []any:
		for _, element := range c {
			if Equal(element, item) {
				return true, nil
			}
		}
		return false, nil
	case *Dict:
		switch key := item.(type) {
		case string:
			_, ok := c.Get(key)
			return ok, nil
		case []any, *Dict: // not hashable
			return false, ErrUnorderable
		}
		return false, nil
	}
	return false, ErrUnorderable
}
