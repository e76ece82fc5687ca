package jmespath

import (
	"fmt"
	"math"
	"math/big"
	"slices"

	"podgrade/tasks/criteria/python"
)

// total is Python's sum() of numbers: exact while all are integers, then in
// floats with the rounding errors carried along, as Python does since 3.12.
func total(list []any) any {
	whole := new(big.Int)
	isFloat := false
	sum, carried := 0.0, 0.0
	for _, v := range list {
		f, float := v.(float64)
		if !isFloat && !float {
			whole.Add(whole, integer(v))
			continue
		}
		if !isFloat {
			isFloat = true
			sum = toFloat(whole)
		}
		if !float {
			f = toFloat(integer(v))
		}
		next := sum + f
		if math.Abs(sum) >= math.Abs(f) {
			carried += (sum - next) + f
		} else {
			carried += (f - next) + sum
		}
		sum = next
	}
	switch {
	case !isFloat:
		return python.Int(whole)
	case math.IsInf(carried, 0) || math.IsNaN(carried):
		return sum
	}
	return sum + carried
}

func integer(v any) *big.Int {
	if i, ok := v.(int64); ok {
		return big.NewInt(i)
	}
	i, _ := v.(*big.Int)
	return i
}

func toFloat(i *big.Int) float64 {
	f, _ := new(big.Float).SetInt(i).Float64()
	return f
}

func sum(_ *evaluation, args []any) (any, error) { return total(args[0].([]any)), nil }

func average(_ *evaluation, args []any) (any, error) {
	list := args[0].([]any)
	if len(list) == 0 {
		return nil, nil
	}
	f, ok := total(list).(float64)
	if !ok {
		f = toFloat(integer(total(list)))
	}
	return f / float64(len(list)), nil
}

// extreme makes max and min of a list: the first of equal ones.
func extreme(operator string) func(*evaluation, []any) (any, error) {
	return func(_ *evaluation, args []any) (any, error) {
		list := args[0].([]any)
		return pick(list, list, operator)
	}
}

// pick gives the element whose key comes first by the operator.
func pick(list, keys []any, operator string) (any, error) {
	if len(list) == 0 {
		return nil, nil
	}
	best := 0
	for i := 1; i < len(list); i++ {
		better, err := python.Ordered(keys[i], operator, keys[best])
		if err != nil {
			return nil, err
		}
		if better {
			best = i
		}
	}
	return list[best], nil
}

func extremeBy(operator string) func(*evaluation, []any) (any, error) {
	return func(ev *evaluation, args []any) (any, error) {
		list := args[0].([]any)
		keys, err := ev.keysOf(list, args[1], "number", "string")
		if err != nil {
			return nil, err
		}
		return pick(list, keys, operator)
	}
}

// keysOf evaluates the key of each element, which must be of an allowed type.
func (ev *evaluation) keysOf(list []any, body any, allowed ...string) ([]any, error) {
	keys, err := ev.each(list, body)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		if !slices.Contains(allowed, typeName(key)) {
			return nil, fmt.Errorf("a key is of type %s, and must be %v", typeName(key), allowed)
		}
	}
	return keys, nil
}

func sorted(_ *evaluation, args []any) (any, error) {
	list := args[0].([]any)
	return sortWith(list, list)
}

func sortBy(ev *evaluation, args []any) (any, error) {
	list := args[0].([]any)
	if len(list) == 0 {
		return list, nil
	}
	first, err := ev.visit(args[1].(expression).body, list[0])
	if err != nil {
		return nil, err
	}
	if !orderable(first) {
		return nil, fmt.Errorf("a key of sort_by() is of type %s, and must be string or number", typeName(first))
	}
	keys, err := ev.keysOf(list, args[1], typeName(first))
	if err != nil {
		return nil, err
	}
	return sortWith(list, keys)
}

// sortWith sorts list by keys and keeps equal ones in order.
func sortWith(list, keys []any) (any, error) {
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	var failed error
	slices.SortStableFunc(order, func(a, b int) int {
		for _, try := range []struct {
			operator string
			order    int
		}{{python.Less, -1}, {python.Greater, 1}} {
			holds, err := python.Ordered(keys[a], try.operator, keys[b])
			if err != nil {
				failed = err
			}
			if holds {
				return try.order
			}
		}
		return 0
	})
	out := make([]any, len(list))
	for i, at := range order {
		out[i] = list[at]
	}
	return out, failed
}
