package tasks

import (
	"reflect"
	"slices"
)

// merge lays the block high over the block low, field by field, with the
// strategy that the type says (task-file 11.2): blocks and free-form mappings
// deep, scalars and lists replaced, some lists appended. Only written keys take
// part. low may be nil.
func merge(low, high *node, t reflect.Type, path string, r *report) *node {
	if high == nil {
		return low
	}
	if low == nil || low.kind != mapNode || high.kind != mapNode {
		return high
	}
	s := shapeOf(t)
	out := *low
	out.pairs = canonical(low.pairs, s)
	high = exclusive(&out, high, t)
	for _, p := range canonical(high.pairs, s) {
		at := slices.IndexFunc(out.pairs, func(q pair) bool { return q.key == p.key })
		if at < 0 {
			out.pairs = append(out.pairs, p)
			continue
		}
		out.pairs[at].value = mergeField(out.pairs[at].value, p.value, s.byKey[p.key], join(path, p.key), r)
		out.pairs[at].keyNode = p.keyNode
	}
	return &out
}

// canonical returns the pairs under their first spelling.
func canonical(pairs []pair, s *shape) []pair {
	pairs = slices.Clone(pairs)
	for i := range pairs {
		if f := s.byKey[pairs[i].key]; f != nil {
			pairs[i].key = f.key
		}
	}
	return pairs
}

// exclusive: a layer that sets system_prompt or system_prompt_file drops the
// other one of lower layers.
func exclusive(low, high *node, t reflect.Type) *node {
	if t != reflect.TypeFor[Agent]() {
		return high
	}
	const text, file = "system_prompt", "system_prompt_file"
	if high.get(text) != nil {
		*low = *low.without(file)
	}
	if high.get(file) != nil {
		*low = *low.without(text)
	}
	return high
}

func mergeField(low, high *node, f *field, path string, r *report) *node {
	if f == nil {
		return high
	}
	t := f.typ
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case f.append:
		return appended(low, high, path, r)
	case t.Kind() == reflect.Struct && t != reflect.TypeFor[Caps]():
		return merge(low, high, t, path, r)
	case t.Kind() == reflect.Map, t.Kind() == reflect.Interface:
		return mergeFree(low, high)
	}
	return high
}

// appended adds the entries of high to low; null adds nothing, and what is not
// a list is an error.
func appended(low, high *node, path string, r *report) *node {
	switch {
	case high.kind == nullNode:
		return low
	case high.kind != listNode:
		r.fail(high, path, "must be a list, got %s", high.show())
		return low
	case low.kind != listNode:
		return high
	}
	out := *high
	out.items = slices.Concat(low.items, high.items)
	return &out
}

// mergeFree merges free-form mappings at every depth.
func mergeFree(low, high *node) *node {
	if low.kind != mapNode || high.kind != mapNode {
		return high
	}
	out := *low
	out.pairs = slices.Clone(low.pairs)
	for _, p := range high.pairs {
		at := slices.IndexFunc(out.pairs, func(q pair) bool { return q.key == p.key })
		if at < 0 {
			out.pairs = append(out.pairs, p)
			continue
		}
		out.pairs[at].value = mergeFree(out.pairs[at].value, p.value)
	}
	return &out
}
