package jmespath

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"

	"podgrade/tasks/criteria/python"
)

// typeName is the JMESPath name of a value's type.
func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case int64, *big.Int, float64:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	case *python.Dict:
		return "object"
	}
	return "expref"
}

// function is one built-in function. Each parameter names the types that it
// takes, with bars between; "any" takes all; "array-number" is an array whose
// elements all are numbers.
type function struct {
	params   []string
	variadic bool // the last parameter once or more
	body     func(ev *evaluation, args []any) (any, error)
}

// functions are filled in by init, since sort_by and its like call back into
// the evaluation, which calls functions.
var functions map[string]function

func init() {
	functions = map[string]function{
		"abs":         {[]string{"number"}, false, abs},
		"avg":         {[]string{"array-number"}, false, average},
		"ceil":        {[]string{"number"}, false, round(math.Ceil)},
		"contains":    {[]string{"array|string", "any"}, false, contains},
		"ends_with":   {[]string{"string", "string"}, false, affix(strings.HasSuffix)},
		"floor":       {[]string{"number"}, false, round(math.Floor)},
		"join":        {[]string{"string", "array-string"}, false, join},
		"keys":        {[]string{"object"}, false, keys},
		"length":      {[]string{"string|array|object"}, false, length},
		"map":         {[]string{"expref", "array"}, false, mapEach},
		"max":         {[]string{"array-number|array-string"}, false, extreme(python.Greater)},
		"max_by":      {[]string{"array", "expref"}, false, extremeBy(python.Greater)},
		"merge":       {[]string{"object"}, true, merge},
		"min":         {[]string{"array-number|array-string"}, false, extreme(python.Less)},
		"min_by":      {[]string{"array", "expref"}, false, extremeBy(python.Less)},
		"not_null":    {[]string{"any"}, true, notNull},
		"reverse":     {[]string{"array|string"}, false, reverse},
		"sort":        {[]string{"array-string|array-number"}, false, sorted},
		"sort_by":     {[]string{"array", "expref"}, false, sortBy},
		"starts_with": {[]string{"string", "string"}, false, affix(strings.HasPrefix)},
		"sum":         {[]string{"array-number"}, false, sum},
		"to_array":    {[]string{"any"}, false, toArray},
		"to_number":   {[]string{"any"}, false, toNumber},
		"to_string":   {[]string{"any"}, false, toString},
		"type":        {[]string{"any"}, false, typeOf},
		"values":      {[]string{"object"}, false, valuesOf},
	}
}

func (ev *evaluation) call(n *node, value any) (any, error) {
	args := make([]any, len(n.kids))
	for i, kid := range n.kids {
		v, err := ev.visit(kid, value)
		if err != nil {
			return nil, err
		}
		args[i] = v
	}
	f, ok := functions[n.name]
	if !ok {
		return nil, fmt.Errorf("unknown function %s()", n.name)
	}
	if len(args) < len(f.params) || len(args) > len(f.params) && !f.variadic {
		return nil, fmt.Errorf("%s() takes %d arguments, not %d", n.name, len(f.params), len(args))
	}
	for i, param := range f.params {
		if !fits(args[i], param) {
			return nil, fmt.Errorf("argument %d of %s() is of type %s, and must be %s", i+1, n.name, typeName(args[i]), param)
		}
	}
	return f.body(ev, args)
}

// fits says whether a parameter takes a value.
func fits(v any, param string) bool {
	if param == "any" {
		return true
	}
	name := typeName(v)
	for _, allowed := range strings.Split(param, "|") {
		elements, typed := strings.CutPrefix(allowed, "array-")
		if !typed && name == allowed {
			return true
		}
		if list, ok := v.([]any); typed && ok && allOfType(list, elements) {
			return true
		}
	}
	return false
}

func allOfType(list []any, name string) bool {
	for _, element := range list {
		if typeName(element) != name {
			return false
		}
	}
	return true
}

func abs(_ *evaluation, args []any) (any, error) {
	switch v := args[0].(type) {
	case int64:
		return python.Int(new(big.Int).Abs(big.NewInt(v))), nil
	case *big.Int:
		return python.Int(new(big.Int).Abs(v)), nil
	}
	return math.Abs(args[0].(float64)), nil
}

// round makes ceil and floor: a float becomes an integer.
func round(to func(float64) float64) func(*evaluation, []any) (any, error) {
	return func(_ *evaluation, args []any) (any, error) {
		f, ok := args[0].(float64)
		if !ok {
			return args[0], nil
		}
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, fmt.Errorf("cannot convert %s to an integer", python.FormatFloat(f))
		}
		i, _ := new(big.Float).SetFloat64(to(f)).Int(nil)
		return python.Int(i), nil
	}
}

func contains(_ *evaluation, args []any) (any, error) {
	return python.Contains(args[0], args[1])
}

func affix(test func(text, affix string) bool) func(*evaluation, []any) (any, error) {
	return func(_ *evaluation, args []any) (any, error) {
		return test(args[0].(string), args[1].(string)), nil
	}
}

func join(ev *evaluation, args []any) (any, error) {
	var parts []string
	size := 0
	for _, v := range args[1].([]any) {
		parts = append(parts, v.(string))
		size += len(v.(string)) + len(args[0].(string))
	}
	if err := ev.spend(size); err != nil {
		return nil, err
	}
	return strings.Join(parts, args[0].(string)), nil
}

func keys(_ *evaluation, args []any) (any, error) {
	out := []any{}
	for _, key := range args[0].(*python.Dict).Keys() {
		out = append(out, key)
	}
	return out, nil
}

func valuesOf(_ *evaluation, args []any) (any, error) {
	return values(args[0].(*python.Dict)), nil
}

func length(_ *evaluation, args []any) (any, error) {
	switch v := args[0].(type) {
	case string:
		return int64(python.Length(v)), nil
	case []any:
		return int64(len(v)), nil
	}
	return int64(args[0].(*python.Dict).Len()), nil
}

func mapEach(ev *evaluation, args []any) (any, error) {
	return ev.each(args[1].([]any), args[0])
}

// each evaluates an expression on every element.
func (ev *evaluation) each(list []any, body any) ([]any, error) {
	out := make([]any, 0, len(list))
	for _, element := range list {
		v, err := ev.visit(body.(expression).body, element)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

func merge(_ *evaluation, args []any) (any, error) {
	out := python.NewDict()
	for _, arg := range args {
		dict, ok := arg.(*python.Dict)
		if !ok {
			return nil, fmt.Errorf("merge() takes objects, not %s", typeName(arg))
		}
		for _, key := range dict.Keys() {
			v, _ := dict.Get(key)
			out.Set(key, v)
		}
	}
	return out, nil
}

func notNull(_ *evaluation, args []any) (any, error) {
	for _, arg := range args {
		if arg != nil {
			return arg, nil
		}
	}
	return nil, nil
}

func reverse(_ *evaluation, args []any) (any, error) {
	if text, ok := args[0].(string); ok {
		runes := []rune(text)
		slices.Reverse(runes)
		return string(runes), nil
	}
	out := slices.Clone(args[0].([]any))
	slices.Reverse(out)
	return out, nil
}

func toArray(_ *evaluation, args []any) (any, error) {
	if list, ok := args[0].([]any); ok {
		return list, nil
	}
	return []any{args[0]}, nil
}

func toNumber(_ *evaluation, args []any) (any, error) {
	switch v := args[0].(type) {
	case int64, *big.Int, float64:
		return v, nil
	case string:
		if i, err := python.ParseInt(v); err == nil {
			return i, nil
		}
		if f, err := python.ParseFloat(v); err == nil {
			return f, nil
		}
	case expression:
		return nil, fmt.Errorf("to_number() takes no expression")
	}
	return nil, nil
}

func toString(ev *evaluation, args []any) (any, error) {
	if text, ok := args[0].(string); ok {
		return text, nil
	}
	text, err := python.DumpJSON(args[0], true, maxMade)
	if err != nil {
		return nil, err
	}
	return text, ev.spend(len(text))
}

func typeOf(_ *evaluation, args []any) (any, error) {
	if name := typeName(args[0]); name != "expref" {
		return name, nil
	}
	return nil, nil
}

// TypeName is the JMESPath name of a value's type: string, number, boolean,
// array, object, null, or expref for an expression.
func TypeName(v any) string { return typeName(v) }
