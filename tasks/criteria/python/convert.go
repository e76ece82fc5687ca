package python

import (
	"fmt"
	"math/big"
	"sort"
	"time"
)

// FromGo turns what a YAML or JSON decoder of Go made into a value of this
// package. Maps become a Dict with sorted keys; keys that are no strings are
// written as text, so that no key of a JSON document equals a number.
func FromGo(v any) any {
	switch v := v.(type) {
	case int:
		return int64(v)
	case uint64:
		return Int(new(big.Int).SetUint64(v))
	case *big.Int:
		return Int(v)
	case float32:
		return float64(v)
	case []any:
		out := make([]any, len(v))
		for i, element := range v {
			out[i] = FromGo(element)
		}
		return out
	case []string:
		out := make([]any, len(v))
		for i, element := range v {
			out[i] = element
		}
		return out
	case map[string]any:
		return fromMap(v)
	case map[any]any:
		text := make(map[string]any, len(v))
		for key, element := range v {
			if name, ok := key.(string); ok {
				text[name] = element
			} else {
				text[fmt.Sprintf("(%T) %v", key, key)] = element
			}
		}
		return fromMap(text)
	case time.Time:
		return v.Format(time.RFC3339Nano)
	}
	return v
}

func fromMap(m map[string]any) *Dict {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	dict := NewDict()
	for _, key := range keys {
		dict.Set(key, FromGo(m[key]))
	}
	return dict
}
