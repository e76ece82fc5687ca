package jmespath

import (
	"errors"
	"fmt"

	"podgrade/tasks/criteria/python"
)

// Bounds of one evaluation: nodes visited, and elements and characters made
// that were in no value before. Lists can share their elements, so that a
// short expression makes a value that is endless when it is written out.
const (
	maxSteps = 20_000_000
	maxMade  = 8_000_000
)

// ErrTooMuch says that an evaluation went beyond its bound.
var ErrTooMuch = errors.New("the expression makes too many values")

// expression is the value of &expr: only functions take it.
type expression struct{ body *node }

// Search evaluates the expression on a value of package python. An error is
// what Python's implementation raises: a wrong type, an unknown function.
func (e *Expression) Search(value any) (any, error) {
	ev := &evaluation{}
	return ev.visit(e.root, value)
}

type evaluation struct{ steps, made int }

// step counts a node that is visited.
func (ev *evaluation) step() error {
	if ev.steps++; ev.steps > maxSteps {
		return ErrTooMuch
	}
	return nil
}

// spend counts elements or characters that are made.
func (ev *evaluation) spend(count int) error {
	if ev.made += count; ev.made > maxMade {
		return ErrTooMuch
	}
	return nil
}

func (ev *evaluation) visit(n *node, value any) (any, error) {
	if err := ev.step(); err != nil {
		return nil, err
	}
	switch n.kind {
	case kindField:
		if dict, ok := value.(*python.Dict); ok {
			v, _ := dict.Get(n.name)
			return v, nil
		}
		return nil, nil
	case kindLiteral:
		return n.value, nil
	case kindChain, kindIndexed:
		return ev.chain(n, value)
	case kindIndex:
		return element(value, index64(n.value)), nil
	case kindSlice:
		return ev.slice(n, value)
	case kindProjection, kindValues, kindFilter:
		return ev.projection(n, value)
	case kindFlatten:
		return ev.flatten(n, value)
	case kindList, kindHash:
		return ev.multiSelect(n, value)
	case kindCompare:
		return ev.compare(n, value)
	case kindOr, kindAnd:
		return ev.junction(n, value)
	case kindNot:
		v, err := ev.visit(n.kids[0], value)
		return !truthy(v), err
	case kindCall:
		return ev.call(n, value)
	case kindExpression:
		return expression{n.kids[0]}, nil
	}
	return value, nil
}

func (ev *evaluation) chain(n *node, value any) (any, error) {
	var err error
	for _, kid := range n.kids {
		if value, err = ev.visit(kid, value); err != nil {
			return nil, err
		}
	}
	return value, nil
}

func element(value any, index int64) any {
	list, ok := value.([]any)
	if !ok {
		return nil
	}
	if index < 0 {
		index += int64(len(list))
	}
	if index < 0 || index >= int64(len(list)) {
		return nil
	}
	return list[index]
}

// slice is Python's list[start:stop:step].
func (ev *evaluation) slice(n *node, value any) (any, error) {
	list, ok := value.([]any)
	if !ok {
		return nil, nil
	}
	step := int64(1)
	if n.slice[2] != nil {
		step = index64(n.slice[2])
	}
	if step == 0 {
		return nil, errors.New("slice step cannot be zero")
	}
	length := int64(len(list))
	low, high := int64(0), length
	if step < 0 {
		low, high = -1, length-1
	}
	bound := func(part any, missing int64) int64 {
		if part == nil {
			return missing
		}
		i := index64(part)
		if i < 0 {
			i += length
		}
		return min(max(i, low), high)
	}
	out := []any{}
	if step > 0 {
		for i, stop := bound(n.slice[0], 0), bound(n.slice[1], length); i < stop; i += step {
			out = append(out, list[i])
		}
	} else {
		for i, stop := bound(n.slice[0], length-1), bound(n.slice[1], -1); i > stop; i += step {
			out = append(out, list[i])
		}
	}
	return out, ev.spend(len(out))
}

// projection applies kids[1] to each element and drops what becomes null.
func (ev *evaluation) projection(n *node, value any) (any, error) {
	base, err := ev.visit(n.kids[0], value)
	if err != nil {
		return nil, err
	}
	elements, ok := base.([]any)
	if n.kind == kindValues {
		var dict *python.Dict
		if dict, ok = base.(*python.Dict); ok {
			elements = values(dict)
		}
	}
	if !ok {
		return nil, nil
	}
	out := []any{}
	for _, element := range elements {
		if n.kind == kindFilter {
			holds, err := ev.visit(n.kids[2], element)
			if err != nil {
				return nil, err
			}
			if !truthy(holds) {
				continue
			}
		}
		v, err := ev.visit(n.kids[1], element)
		if err != nil {
			return nil, err
		}
		if v != nil {
			out = append(out, v)
		}
	}
	return out, nil
}

func values(dict *python.Dict) []any {
	out := make([]any, 0, dict.Len())
	for _, key := range dict.Keys() {
		v, _ := dict.Get(key)
		out = append(out, v)
	}
	return out
}

func (ev *evaluation) flatten(n *node, value any) (any, error) {
	base, err := ev.visit(n.kids[0], value)
	if err != nil {
		return nil, err
	}
	list, ok := base.([]any)
	if !ok {
		return nil, nil
	}
	out := []any{}
	for _, element := range list {
		inner, ok := element.([]any)
		if !ok {
			inner = []any{element}
		}
		if err := ev.spend(len(inner)); err != nil {
			return nil, err
		}
		out = append(out, inner...)
	}
	return out, nil
}

func (ev *evaluation) multiSelect(n *node, value any) (any, error) {
	if value == nil {
		return nil, nil
	}
	list, dict := []any{}, python.NewDict()
	for i, kid := range n.kids {
		v, err := ev.visit(kid, value)
		if err != nil {
			return nil, err
		}
		if n.kind == kindHash {
			dict.Set(n.names[i], v)
		} else {
			list = append(list, v)
		}
	}
	if n.kind == kindHash {
		return dict, nil
	}
	return list, nil
}

func (ev *evaluation) junction(n *node, value any) (any, error) {
	left, err := ev.visit(n.kids[0], value)
	if err != nil || truthy(left) == (n.kind == kindOr) {
		return left, err
	}
	return ev.visit(n.kids[1], value)
}

// truthy: all but null, false and what is empty. Zero is true.
func truthy(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		return v != ""
	case []any:
		return len(v) > 0
	case *python.Dict:
		return v.Len() > 0
	}
	return true
}

// compare compares. Orderings are for numbers and strings; of other values
// they are null, and of a number with a string they are an error.
func (ev *evaluation) compare(n *node, value any) (any, error) {
	left, err := ev.visit(n.kids[0], value)
	if err != nil {
		return nil, err
	}
	right, err := ev.visit(n.kids[1], value)
	if err != nil {
		return nil, err
	}
	switch n.name {
	case "==":
		return equal(left, right), nil
	case "!=":
		return !equal(left, right), nil
	}
	if !orderable(left) || !orderable(right) {
		return nil, nil
	}
	holds, err := python.Ordered(left, n.name, right)
	if err != nil {
		return nil, fmt.Errorf("'%s' between %s and %s: %w", n.name, typeName(left), typeName(right), err)
	}
	return holds, nil
}

// equal is Python's == except that 0 and 1 are no booleans.
func equal(a, b any) bool {
	_, aIsBool := a.(bool)
	_, bIsBool := b.(bool)
	if aIsBool != bIsBool {
		return false
	}
	return python.Equal(a, b)
}

func orderable(v any) bool {
	name := typeName(v)
	return name == "number" || name == "string"
}
