package record

import (
	"fmt"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Encode writes a Go value as upstream's serialiser writes the same value:
// indented by two, characters beyond ASCII as they are, a float always with a
// point or an exponent, NaN and the infinities as null.
//
// It accepts nil, Raw, *Object, booleans, strings, numbers, *big.Int, and pointers to,
// slices of, string-keyed maps of and structs (with json tags) of these. Any
// other type is a mistake in the program and panics.
func Encode(value any) Raw { return appendValue(nil, value, 0) }

func appendValue(dst []byte, value any, depth int) []byte {
	switch v := value.(type) {
	case nil:
		return append(dst, null...)
	case Raw:
		if len(v) == 0 {
			return append(dst, null...)
		}
		return append(dst, v...)
	case *Object:
		return appendObject(dst, v, depth)
	case *big.Int:
		if v != nil {
			return v.Append(dst, 10)
		}
	case string:
		return appendText(dst, v)
	}
	return appendReflected(dst, reflect.ValueOf(value), depth)
}

func appendReflected(dst []byte, v reflect.Value, depth int) []byte {
	switch v.Kind() {
	case reflect.Bool:
		return strconv.AppendBool(dst, v.Bool())
	case reflect.String:
		return appendText(dst, v.String())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.AppendInt(dst, v.Int(), 10)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return strconv.AppendUint(dst, v.Uint(), 10)
	case reflect.Float32, reflect.Float64:
		return appendFloat(dst, v.Float())
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return append(dst, null...)
		}
		return appendValue(dst, v.Elem().Interface(), depth)
	case reflect.Slice, reflect.Array:
		return appendSlice(dst, v, depth)
	case reflect.Map:
		return appendMap(dst, v, depth)
	case reflect.Struct:
		o := NewObject()
		structMembers(o, v)
		return appendObject(dst, o, depth)
	}
	panic(fmt.Sprintf("record: no JSON form for a value of type %s", v.Type()))
}

func appendObject(dst []byte, o *Object, depth int) []byte {
	if len(o.members) == 0 {
		return append(dst, "{}"...)
	}
	dst = append(dst, '{')
	for i := range o.members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendIndent(dst, depth+1)
		dst = append(dst, o.members[i].key...)
		dst = append(dst, ": "...)
		dst = appendValue(dst, o.members[i].value, depth+1)
	}
	return append(appendIndent(dst, depth), '}')
}

func appendSlice(dst []byte, v reflect.Value, depth int) []byte {
	if v.Len() == 0 {
		return append(dst, "[]"...)
	}
	dst = append(dst, '[')
	for i := range v.Len() {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendIndent(dst, depth+1)
		dst = appendValue(dst, v.Index(i).Interface(), depth+1)
	}
	return append(appendIndent(dst, depth), ']')
}

func appendMap(dst []byte, v reflect.Value, depth int) []byte {
	o := NewObject()
	for _, key := range sortedKeys(v) {
		o.Set(key, v.MapIndex(reflect.ValueOf(key).Convert(v.Type().Key())).Interface())
	}
	return appendObject(dst, o, depth)
}

func sortedKeys(v reflect.Value) []string {
	keys := make([]string, 0, v.Len())
	for _, key := range v.MapKeys() {
		keys = append(keys, key.String())
	}
	// A map has no order of its own; sorted, equal maps are equal bytes.
	slices.Sort(keys)
	return keys
}

// structMembers adds the exported fields of a struct under their json names.
func structMembers(o *Object, v reflect.Value) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous && name == "":
			if embedded := reflect.Indirect(v.Field(i)); embedded.IsValid() {
				structMembers(o, embedded)
			}
			continue
		case !field.IsExported() || name == "-":
			continue
		case name == "":
			name = field.Name
		}
		if strings.Contains(options, "omitempty") && isEmpty(v.Field(i)) {
			continue
		}
		o.Set(name, v.Field(i).Interface())
	}
}

// isEmpty follows encoding/json: false, 0, nil, and anything of length 0.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map, reflect.String, reflect.Array:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}

func appendIndent(dst []byte, depth int) []byte {
	dst = append(dst, '\n')
	for range depth {
		dst = append(dst, "  "...)
	}
	return dst
}

// appendFloat writes the shortest digits that read back as the same float, in
// decimal notation between 1e-5 and 1e16.
func appendFloat(dst []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(dst, null...)
	}
	if size := math.Abs(f); size != 0 && (size < 1e-5 || size >= 1e16) {
		text := strconv.FormatFloat(f, 'e', -1, 64)
		mantissa, exponent, _ := strings.Cut(text, "e")
		sign := strings.TrimPrefix(exponent[:1], "+")
		return append(dst, mantissa+"e"+sign+strings.TrimLeft(exponent[1:], "0")...)
	}
	text := strconv.FormatFloat(f, 'f', -1, 64)
	dst = append(dst, text...)
	if !strings.Contains(text, ".") {
		dst = append(dst, ".0"...)
	}
	return dst
}

const hexDigits = "0123456789abcdef"

// appendText writes a string in quotes; bytes that are not UTF-8 become
// U+FFFD.
func appendText(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for _, r := range s {
		switch r {
		case '"', '\\':
			dst = append(dst, '\\', byte(r))
		case '\b':
			dst = append(dst, `\b`...)
		case '\f':
			dst = append(dst, `\f`...)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		default:
			if r < 0x20 {
				dst = append(dst, `\u00`...)
				dst = append(dst, hexDigits[r>>4], hexDigits[r&15])
				continue
			}
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}
