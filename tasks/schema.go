package tasks

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
)

// Schema returns the JSON Schema (draft 2020-12) of the task file, made from
// the types of this package. It accepts what Load accepts as far as a schema
// can say it; rules that span keys are only checked by Load.
func Schema() []byte {
	b := &schemaBuilder{defs: object{}}
	root := b.structure(reflect.TypeFor[Task](), "")
	delete(root, "additionalProperties") // unknown keys at the top only warn
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "podgrade task file"
	root["$defs"] = b.defs
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(root); err != nil {
		panic(err) // built from strings, numbers and maps only
	}
	return out.Bytes()
}

// object is a JSON object; its keys are written in order.
type object map[string]any

// schemaBuilder collects the definitions of the blocks that it meets.
type schemaBuilder struct{ defs object }

// value returns the schema of a Go type.
func (b *schemaBuilder) value(t reflect.Type) object {
	switch t {
	case reflect.TypeFor[Criteria]():
		return object{"type": "array", "minItems": 1, "items": b.criteria()}
	case reflect.TypeFor[Caps]():
		names := object{"type": "string", "pattern": "^[A-Za-z_]+$"}
		return object{"anyOf": []any{object{"enum": []any{CapsDefault, CapsNone, nil}}, object{"type": "array", "items": names}}}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return nullable(b.value(t.Elem()))
	case reflect.Struct:
		return b.reference(t)
	case reflect.Slice:
		return object{"type": "array", "items": b.value(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": b.value(t.Elem())}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int:
		return object{"type": "integer"}
	case reflect.Float64:
		return object{"type": "number"}
	}
	return object{}
}

// nullable adds null to what a schema accepts.
func nullable(s object) object {
	if name, ok := s["type"].(string); ok {
		s["type"] = []any{name, "null"}
		if list, ok := s["enum"].([]any); ok {
			s["enum"] = append(list, nil)
		}
		return s
	}
	if len(s) == 0 {
		return s
	}
	return object{"anyOf": []any{s, object{"type": "null"}}}
}

// reference puts the schema of a block under $defs and refers to it.
func (b *schemaBuilder) reference(t reflect.Type) object {
	name := t.Name()
	if b.defs[name] == nil {
		b.defs[name] = object{} // a type that holds itself ends here
		b.defs[name] = b.block(t)
	}
	return object{"$ref": "#/$defs/" + name}
}

// block is the schema of a block, with one alternative for each kind of it.
func (b *schemaBuilder) block(t reflect.Type) object {
	switch t {
	case reflect.TypeFor[FlagPredicate]():
		return object{"anyOf": []any{object{"type": "string"}, b.structure(t, "")}}
	case reflect.TypeFor[Agent]():
		return b.kinds(t, append([]string{""}, agentKinds...), false)
	case reflect.TypeFor[TemplateSource]():
		return b.kinds(t, []string{TemplateDir, StarterFiles, Repo}, true)
	case reflect.TypeFor[Question]():
		return b.kinds(t, []string{QuestionNoul, QuestionChoice, QuestionScore}, false)
	case reflect.TypeFor[Simulation]():
		s := b.structure(t, "")
		delete(s, "required") // its keys may come from any layer
		return s
	case reflect.TypeFor[Podman]():
		s := b.structure(t, "")
		s["properties"].(object)["user"] = object{"type": []any{"string", "integer", "null"}}
		return s
	}
	s := b.structure(t, "")
	if t == reflect.TypeFor[StarterFile]() {
		delete(s, "additionalProperties") // unknown keys are ignored here
	}
	return s
}

// kinds lists one alternative for each kind of a block. open blocks ignore
// unknown keys, and their type may be left out.
func (b *schemaBuilder) kinds(t reflect.Type, kinds []string, open bool) object {
	var list []any
	for _, kind := range kinds {
		s := b.structure(t, kind)
		typ := object{"const": kind}
		if kind == "" {
			typ = object{"type": "null"}
		}
		s["properties"].(object)["type"] = typ
		if open {
			delete(s, "additionalProperties")
		} else if kind != "" {
			s["required"] = withType(s["required"])
		}
		list = append(list, s)
	}
	return object{"anyOf": list}
}

func withType(required any) []string {
	list, _ := required.([]string)
	if !slices.Contains(list, "type") {
		list = append(list, "type")
	}
	slices.Sort(list)
	return list
}

// criteria is one alternative for each type of criterion. The alias
// command_not_executed needs no counts.
func (b *schemaBuilder) criteria() object {
	var list []any
	for _, name := range criterionTypes {
		s := b.structure(elem(newCriterion[name]()).Type(), name)
		typ := object{"const": name}
		if name == TypeCommandExecuted {
			typ = object{"enum": []any{name, "command_not_executed"}}
		}
		s["properties"].(object)["type"] = typ
		b.defs[name] = s
		list = append(list, object{"$ref": "#/$defs/" + name})
	}
	return object{"oneOf": list}
}

// structure is the schema of the keys that a block of this kind has.
func (b *schemaBuilder) structure(t reflect.Type, kind string) object {
	v := reflect.New(t).Elem()
	setDefaults(v)
	properties, required := object{}, []string{}
	s := shapeOf(t)
	for i := range s.fields {
		f := &s.fields[i]
		if !f.has(kind) {
			continue
		}
		p := b.property(f, v.FieldByIndex(f.index))
		properties[f.key] = p
		if f.alias != "" {
			properties[f.alias] = p
		}
		if f.required {
			required = append(required, f.key)
		}
	}
	out := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		slices.Sort(required)
		out["required"] = required
	}
	return out
}

// property is the schema of one key, with its bounds and its default.
func (b *schemaBuilder) property(f *field, fallback reflect.Value) object {
	s := b.value(f.typ)
	target := s
	if items, ok := s["items"].(object); ok && f.typ.Elem().Kind() == reflect.String {
		target = items
	}
	if f.enum != nil {
		var list []any
		for _, value := range f.enum {
			list = append(list, value)
		}
		target["enum"] = list
	}
	f.schemaBounds(s)
	if f.null {
		s = nullable(s)
	}
	if !f.required && !fallback.IsZero() && fallback.Kind() != reflect.Struct && fallback.Kind() != reflect.Pointer {
		var text bytes.Buffer
		if err := encodeValue(&text, fallback); err != nil {
			panic(err) // the defaults are ours
		}
		s["default"] = json.RawMessage(text.Bytes())
	}
	return s
}

func (f *field) schemaBounds(s object) {
	low, high := "minimum", "maximum"
	switch f.typ.Kind() {
	case reflect.String:
		low, high = "minLength", "maxLength"
		if f.nonblank {
			s["pattern"] = `\S`
		}
	case reflect.Slice:
		low, high = "minItems", "maxItems"
	case reflect.Map:
		low, high = "minProperties", "maxProperties"
	}
	if f.min != nil {
		s[low] = *f.min
	}
	if f.max != nil {
		s[high] = *f.max
	}
	if f.above != nil {
		s["exclusiveMinimum"] = *f.above
	}
}
