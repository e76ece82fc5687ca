package tasks

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// field is what the tags of one struct field say; doc.go lists the tags.
type field struct {
	key, alias string
	index      []int // for reflect.Value.FieldByIndex
	typ        reflect.Type

	required, null, append, finite, nonblank bool

	fallback   string
	hasDefault bool
	min        *float64 // of a number, or of a length
	max        *float64
	above      *float64
	enum       []string
	kinds      []string
}

// shape is the list of the fields of a struct type, in the order of the type.
type shape struct {
	fields []field
	byKey  map[string]*field // by key and by alias
}

var shapes sync.Map // reflect.Type -> *shape

// shapeOf returns the shape of a struct type; embedded structs are flattened.
func shapeOf(t reflect.Type) *shape {
	if s, ok := shapes.Load(t); ok {
		return s.(*shape)
	}
	s := &shape{byKey: map[string]*field{}}
	s.collect(t, nil)
	for i := range s.fields {
		f := &s.fields[i]
		s.byKey[f.key] = f
		if f.alias != "" {
			s.byKey[f.alias] = f
		}
	}
	shapes.Store(t, s)
	return s
}

func (s *shape) collect(t reflect.Type, index []int) {
	for i := range t.NumField() {
		sf := t.Field(i)
		at := append(slices.Clone(index), i)
		key := sf.Tag.Get("json")
		switch {
		case sf.Anonymous:
			s.collect(sf.Type, at)
		case key != "":
			f := field{key: key, index: at, typ: sf.Type}
			f.readTag(sf.Tag.Get("task"))
			s.fields = append(s.fields, f)
		}
	}
}

// readTag reads the task tag; no option holds a comma.
func (f *field) readTag(tag string) {
	if tag == "" {
		return
	}
	for option := range strings.SplitSeq(tag, ",") {
		name, value, _ := strings.Cut(option, "=")
		switch name {
		case "required":
			f.required = true
		case "null":
			f.null = true
		case "append":
			f.append = true
		case "finite":
			f.finite = true
		case "nonblank":
			f.nonblank = true
		case "default":
			f.fallback, f.hasDefault = value, true
		case "alias":
			f.alias = value
		case "min":
			f.min = number(value)
		case "max":
			f.max = number(value)
		case "above":
			f.above = number(value)
		case "enum":
			f.enum = strings.Split(value, "|")
		case "kinds":
			f.kinds = strings.Split(value, "|")
		default:
			panic(fmt.Sprintf("tasks: unknown option %q in the tag of %s", name, f.key))
		}
	}
}

func number(text string) *float64 {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(err)
	}
	return &f
}

// anyKind is the kind of a block that another layer says the kind of.
const anyKind = "*"

// has reports whether the key exists in a block of this kind.
func (f *field) has(kind string) bool {
	return f.kinds == nil || kind == anyKind || slices.Contains(f.kinds, kind)
}

// keys returns the keys that exist in a block of this kind.
func (s *shape) keys(kind string) []string {
	var keys []string
	for i := range s.fields {
		if s.fields[i].has(kind) {
			keys = append(keys, s.fields[i].key)
		}
	}
	return keys
}

// defaulter is a type with defaults that a tag cannot say.
type defaulter interface{ setDefaults() }

// setDefaults fills in what missing keys mean. A nil list becomes an empty one
// where null is not allowed, so that nil always means null.
func setDefaults(v reflect.Value) {
	s := shapeOf(v.Type())
	for i := range s.fields {
		f := &s.fields[i]
		fv := v.FieldByIndex(f.index)
		switch {
		case f.hasDefault:
			f.setFallback(fv)
		case fv.Kind() == reflect.Struct && fv.Type() != reflect.TypeFor[Caps]():
			setDefaults(fv)
		case fv.Kind() == reflect.Slice && !f.null:
			fv.Set(reflect.MakeSlice(fv.Type(), 0, 0))
		case fv.Kind() == reflect.Map && !f.null:
			fv.Set(reflect.MakeMap(fv.Type()))
		}
	}
	if d, ok := v.Addr().Interface().(defaulter); ok {
		d.setDefaults()
	}
}

// setFallback sets the default of a tag: a scalar, {} or a list of one name.
func (f *field) setFallback(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(f.fallback)
	case reflect.Bool:
		v.SetBool(f.fallback == "true")
	case reflect.Int:
		v.SetInt(int64(*number(f.fallback)))
	case reflect.Float64:
		v.SetFloat(*number(f.fallback))
	case reflect.Slice:
		v.Set(reflect.ValueOf([]string{strings.Trim(f.fallback, "[]")}))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		setDefaults(v.Elem())
	default:
		panic("tasks: no default for " + v.Type().String())
	}
}
