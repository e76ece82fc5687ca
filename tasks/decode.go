package tasks

import (
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// decoder turns a node tree into the types of this package. It never stops at
// the first problem.
type decoder struct {
	*report
	// tolerant accepts unknown keys everywhere with a warning: a record of a
	// newer upstream version may hold them.
	tolerant bool
	// partial accepts missing keys: the tree is one layer of several.
	partial bool
	// strict makes unknown keys of the top level errors too: an experiment.
	strict bool
	// loading is set while one task file is read alone: layers may add to it.
	loading bool
	// kinds are agent kinds that are known besides the built-in ones.
	kinds []string
	// regex asks about a Python regular expression; see Loader.
	regex func(pattern string, flags int) error
	// expression asks about a JMESPath expression; see Loader.
	expression func(text string) error
}

// nodeDecoder is a type that reads its own node.
type nodeDecoder interface {
	decodeNode(d *decoder, n *node, path string)
}

// checker is a type with rules that span its fields. n is its mapping.
type checker interface {
	check(d *decoder, n *node, path string)
}

// discriminated is a type whose keys depend on its kind; see the tag kinds. n is
// its mapping, or nil for the kind of the value itself.
type discriminated interface{ kindOf(n *node) string }

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func item(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// block reads a mapping into a struct whose defaults are set.
func (d *decoder) block(n *node, path string, v reflect.Value) {
	if n.kind != mapNode {
		d.fail(n, path, "must be a mapping%s, got %s", mandatory(v.Type()), n.show())
		return
	}
	target := v.Addr().Interface()
	kind := ""
	if t, ok := target.(discriminated); ok {
		kind = t.kindOf(n)
	}
	s := shapeOf(v.Type())
	seen := map[string]bool{}
	for _, p := range n.pairs {
		f := s.byKey[p.key]
		if f == nil || !f.has(kind) {
			d.unknown(s, f, p, path, kind)
			continue
		}
		if seen[f.key] {
			d.fail(p.keyNode, join(path, p.key), "is a second spelling of %s, which is there too; keep one", f.key)
			continue
		}
		seen[f.key] = true
		d.field(f, p.value, join(path, f.key), v.FieldByIndex(f.index))
	}
	if !d.partial {
		for i := range s.fields {
			if f := &s.fields[i]; f.required && !seen[f.key] && f.has(kind) {
				d.fail(n, join(path, f.key), "is missing and must be written")
			}
		}
		if c, ok := target.(checker); ok {
			c.check(d, n, path)
		}
	}
}

// mandatory names the keys that a block cannot do without.
func mandatory(t reflect.Type) string {
	var keys []string
	for _, f := range shapeOf(t).fields {
		if f.required && f.kinds == nil {
			keys = append(keys, f.key)
		}
	}
	if len(keys) == 0 {
		return ""
	}
	return " with " + strings.Join(keys, " and ")
}

// unknown reports a key that does not exist: a warning at the top of a task and
// in records, else an error (task-file 1.1).
func (d *decoder) unknown(s *shape, f *field, p pair, path, kind string) {
	key := join(path, quoteKey(p.key))
	text := "is not a key here"
	switch {
	case removedKey(path, p.key) != "":
		text = removedKey(path, p.key)
	case f != nil && kind == "":
		text = "is a key of type " + oneOf(f.kinds) + " only, and this block has no type"
	case f != nil:
		text = "is a key of type " + oneOf(f.kinds) + " only, not of " + quoteBare(kind)
	default:
		keys := s.keys(kind)
		if hint := Nearest(p.key, keys); hint != "" {
			text += hint
		} else {
			text += "; the keys are " + strings.Join(keys, ", ")
		}
	}
	if d.tolerant || path == "" && !d.strict {
		d.warn(p.keyNode, key, "%s; it is ignored", text)
		return
	}
	d.fail(p.keyNode, key, "%s", text)
}

// quoteKey shows odd keys in quotation marks.
func quoteKey(key string) string {
	if q := quote(key); q != `"`+key+`"` || key == "" {
		return q
	}
	return key
}

// typeOf and elem look through the pointer to a struct.
func typeOf(target any) reflect.Type { return reflect.TypeOf(target).Elem() }
func elem(target any) reflect.Value  { return reflect.ValueOf(target).Elem() }

// structure is block for a type that has a decodeNode of its own.
func (d *decoder) structure(n *node, path string, target any) { d.block(n, path, elem(target)) }

// field reads one value with the rules of its tag.
func (d *decoder) field(f *field, n *node, path string, v reflect.Value) {
	if n.kind == nullNode && f.null {
		v.SetZero()
		if v.Kind() == reflect.Struct {
			setDefaults(v)
		}
		return
	}
	before := len(d.problems)
	d.value(n, path, v)
	if len(d.problems) == before {
		d.rules(f, n, path, v)
	}
}

// value reads a node into a Go value of any of the types that we use.
func (d *decoder) value(n *node, path string, v reflect.Value) {
	if own, ok := v.Addr().Interface().(nodeDecoder); ok {
		own.decodeNode(d, n, path)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if n.kind == nullNode {
			v.SetZero()
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		if v.Elem().Kind() == reflect.Struct {
			setDefaults(v.Elem())
		}
		d.value(n, path, v.Elem())
	case reflect.Struct:
		d.block(n, path, v)
	case reflect.Slice:
		d.list(n, path, v)
	case reflect.Map:
		d.table(n, path, v)
	case reflect.Interface:
		if value := reflect.ValueOf(n.value()); value.IsValid() {
			v.Set(value)
		} else {
			v.SetZero()
		}
	default:
		d.scalar(n, path, v)
	}
}

func (d *decoder) scalar(n *node, path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if s, ok := n.isString(); ok {
			v.SetString(s)
			return
		}
		hint := ""
		if n.text != "" && n.kind != nullNode {
			hint = "; put it in quotation marks"
		}
		d.fail(n, path, "must be a string, got %s%s", n.show(), hint)
	case reflect.Bool:
		if b, ok := laxBool(n); ok {
			v.SetBool(b)
			return
		}
		d.fail(n, path, "must be true or false, got %s", n.show())
	case reflect.Int:
		if i, ok := laxInt(n); ok {
			v.SetInt(i)
			return
		}
		d.fail(n, path, "must be an integer, got %s", n.show())
	case reflect.Float64:
		if f, ok := laxNumber(n); ok {
			v.SetFloat(f)
			return
		}
		d.fail(n, path, "must be a number, got %s", n.show())
	}
}

func (d *decoder) list(n *node, path string, v reflect.Value) {
	if n.kind != listNode {
		hint := ""
		if _, text := n.isString(); text && v.Type().Elem().Kind() == reflect.String {
			hint = "; put it in square brackets"
		}
		d.fail(n, path, "must be a list, got %s%s", n.show(), hint)
		return
	}
	out := reflect.MakeSlice(v.Type(), len(n.items), len(n.items))
	for i, child := range n.items {
		if element := out.Index(i); element.Kind() == reflect.Struct {
			setDefaults(element)
		}
		d.value(child, item(path, i), out.Index(i))
	}
	v.Set(out)
}

func (d *decoder) table(n *node, path string, v reflect.Value) {
	if n.kind != mapNode {
		d.fail(n, path, "must be a mapping, got %s", n.show())
		return
	}
	out := reflect.MakeMapWithSize(v.Type(), len(n.pairs))
	for _, p := range n.pairs {
		if p.keyNode.kind != stringNode {
			d.fail(p.keyNode, join(path, quoteKey(p.key)), "the key must be a string, got %s; put it in quotation marks", p.keyNode.show())
			continue
		}
		element := reflect.New(v.Type().Elem()).Elem()
		if element.Kind() == reflect.Struct {
			setDefaults(element)
		}
		d.value(p.value, join(path, quoteKey(p.key)), element)
		out.SetMapIndex(reflect.ValueOf(p.key), element)
	}
	v.Set(out)
}

// rules checks the bounds of a tag.
func (d *decoder) rules(f *field, n *node, path string, v reflect.Value) {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return
		}
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Int:
		d.bounds(f, n, path, float64(v.Int()))
	case reflect.Float64:
		d.bounds(f, n, path, v.Float())
	case reflect.Slice, reflect.Map:
		if f.min != nil && float64(v.Len()) < *f.min {
			d.fail(n, path, "must not be empty")
		}
		if list, ok := v.Interface().([]string); ok && f.enum != nil {
			for i, s := range list {
				d.enum(f, n.items[i], item(path, i), s)
			}
		}
	case reflect.String:
		s := v.String()
		d.enum(f, n, path, s)
		if f.min != nil && s == "" || f.nonblank && strings.TrimSpace(s) == "" {
			d.fail(n, path, "must not be empty")
		}
	}
}

func (d *decoder) enum(f *field, n *node, path, value string) {
	if f.enum != nil && !slices.Contains(f.enum, value) {
		d.fail(n, path, "must be %s, got %s%s", oneOf(f.enum), quote(value), Nearest(value, f.enum))
	}
}

func (d *decoder) bounds(f *field, n *node, path string, value float64) {
	show := quoteBare(n.text)
	switch {
	case f.finite && (math.IsInf(value, 0) || math.IsNaN(value)):
		d.fail(n, path, "must be a finite number, got %s", show)
	case f.min != nil && f.max != nil && !(value >= *f.min && value <= *f.max):
		d.fail(n, path, "must be from %v to %v, got %s", *f.min, *f.max, show)
	case f.min != nil && !(value >= *f.min):
		d.fail(n, path, "must be at least %v, got %s", *f.min, show)
	case f.above != nil && !(value > *f.above):
		d.fail(n, path, "must be greater than %v, got %s", *f.above, show)
	}
}
