package policy

import (
	"encoding/json"
	"reflect"
	"strings"
)

// Schema is the JSON Schema (draft 2020-12) of the policy file.
func Schema() []byte {
	s := schemaOf(reflect.TypeFor[File]())
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "podgrade policy file"
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic(err) // it is made of maps and texts
	}
	return append(text, '\n')
}

func schemaOf(t reflect.Type) map[string]any {
	switch t.Kind() {
	case reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(t.Elem())}
	case reflect.String:
		return map[string]any{"type": "string", "minLength": 1}
	}
	properties := map[string]any{}
	for i := range t.NumField() {
		f := t.Field(i)
		key := f.Tag.Get("json")
		if key == "" {
			continue
		}
		property := schemaOf(f.Type)
		if doc := f.Tag.Get("doc"); doc != "" {
			property["description"] = doc
		}
		if words := f.Tag.Get("enum"); words != "" {
			property["enum"] = strings.Split(words, "|")
		}
		properties[key] = property
	}
	return map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
}
