package tasks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strconv"
)

// MarshalJSON writes the task as a record keeps it under task_config.resolved:
// every key of every block with its value or default, null for "none", floats
// with a point. FromRecord reads it back.
func (t *Task) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	if err := encodeStruct(&b, reflect.ValueOf(t).Elem()); err != nil {
		return nil, fmt.Errorf("cannot write task %s as JSON: %w", quote(t.TaskID), err)
	}
	return b.Bytes(), nil
}

func encodeStruct(b *bytes.Buffer, v reflect.Value) error {
	kind := ""
	if v.CanAddr() {
		if t, ok := v.Addr().Interface().(discriminated); ok {
			kind = t.kindOf(nil)
		}
	}
	b.WriteByte('{')
	first := true
	s := shapeOf(v.Type())
	for i := range s.fields {
		f := &s.fields[i]
		if !f.has(kind) {
			continue
		}
		if !first {
			b.WriteByte(',')
		}
		first = false
		encodeString(b, f.key)
		b.WriteByte(':')
		fv := v.FieldByIndex(f.index)
		if f.null && fv.IsZero() && fv.Kind() != reflect.Struct {
			b.WriteString("null")
			continue
		}
		if err := encodeValue(b, fv); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}

func encodeValue(b *bytes.Buffer, v reflect.Value) error {
	switch own := v.Interface().(type) {
	case Caps:
		text, err := own.MarshalJSON()
		b.Write(text)
		return err
	case *big.Int:
		b.WriteString(own.String())
		return nil
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			b.WriteString("null")
			return nil
		}
		return encodeValue(b, v.Elem())
	case reflect.Struct:
		return encodeStruct(b, v)
	case reflect.Slice:
		return encodeList(b, v)
	case reflect.Map:
		return encodeTable(b, v)
	case reflect.String:
		encodeString(b, v.String())
	case reflect.Bool:
		b.WriteString(strconv.FormatBool(v.Bool()))
	case reflect.Int, reflect.Int64:
		b.WriteString(strconv.FormatInt(v.Int(), 10))
	case reflect.Float64:
		encodeFloat(b, v.Float())
	default:
		return fmt.Errorf("a value of type %s has no JSON form", v.Type())
	}
	return nil
}

// encodeFloat writes null for what JSON cannot say, as upstream does.
func encodeFloat(b *bytes.Buffer, f float64) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		b.WriteString("null")
		return
	}
	b.WriteString(FloatStr(f))
}

func encodeList(b *bytes.Buffer, v reflect.Value) error {
	if v.IsNil() {
		b.WriteString("null")
		return nil
	}
	b.WriteByte('[')
	for i := range v.Len() {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := encodeValue(b, v.Index(i)); err != nil {
			return err
		}
	}
	b.WriteByte(']')
	return nil
}

// encodeTable writes keys in order, so that equal tasks have equal bytes.
func encodeTable(b *bytes.Buffer, v reflect.Value) error {
	if v.IsNil() {
		b.WriteString("null")
		return nil
	}
	var keys []string
	for _, key := range v.MapKeys() {
		keys = append(keys, key.String())
	}
	slices.Sort(keys)
	b.WriteByte('{')
	for i, key := range keys {
		if i > 0 {
			b.WriteByte(',')
		}
		encodeString(b, key)
		b.WriteByte(':')
		// A copy that can be addressed, as discriminated types need it.
		element := reflect.New(v.Type().Elem()).Elem()
		element.Set(v.MapIndex(reflect.ValueOf(key)))
		if err := encodeValue(b, element); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}

// encodeString leaves <, > and & as they are.
func encodeString(b *bytes.Buffer, s string) {
	encoder := json.NewEncoder(b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(s) // a string always has a JSON form
	b.Truncate(b.Len() - 1)
}
