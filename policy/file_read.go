package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"podgrade/tasks"
)

// reading is the reading of one policy file: every key is known, every value is
// of its type, and all that is not is a problem with its place.
type reading struct {
	file     string
	places   map[string]*yaml.Node // by path
	problems []string
}

// mostProblems bounds the text of an error.
const mostProblems = 50

func (r *reading) fail(n *yaml.Node, path, format string, args ...any) {
	if len(r.problems) == mostProblems {
		r.problems = append(r.problems, "and more")
	}
	if len(r.problems) > mostProblems {
		return
	}
	at := r.file
	if n != nil && n.Line > 0 {
		at = fmt.Sprintf("%s:%d:%d", r.file, n.Line, n.Column)
	}
	if path != "" {
		path += " "
	}
	r.problems = append(r.problems, at+": "+path+fmt.Sprintf(format, args...))
}

// wrong fails at a path that was read.
func (r *reading) wrong(path, text string) { r.fail(r.places[path], path, "%s", text) }

func (r *reading) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	return errors.New(strings.Join(r.problems, "\n  "))
}

func (r *reading) document(text []byte, into *File) {
	r.places = map[string]*yaml.Node{}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var root, second yaml.Node
	switch err := decoder.Decode(&root); {
	case errors.Is(err, io.EOF):
		return // it says nothing
	case err != nil:
		r.fail(nil, "", "%s", strings.TrimPrefix(err.Error(), "yaml: "))
		return
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		r.fail(&second, "", "holds a second document")
	}
	top := root.Content[0]
	if top.Kind == yaml.ScalarNode && top.Tag == "!!null" {
		return
	}
	r.value(top, "", reflect.ValueOf(into).Elem())
}

// value reads one node into a value of the types that a policy file is made of.
func (r *reading) value(n *yaml.Node, path string, into reflect.Value) {
	r.places[path] = n
	switch into.Kind() {
	case reflect.Struct:
		r.mapping(n, path, into)
	case reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			r.fail(n, path, "is a list")
			return
		}
		list := reflect.MakeSlice(into.Type(), len(n.Content), len(n.Content))
		for i, item := range n.Content {
			r.value(item, fmt.Sprintf("%s[%d]", path, i), list.Index(i))
		}
		into.Set(list)
	case reflect.String:
		if n.Kind != yaml.ScalarNode || n.Tag != "!!str" || n.Value == "" {
			r.fail(n, path, "is a text; quote it where it looks like something else")
			return
		}
		into.SetString(n.Value)
	default:
		panic("policy: no reading of " + into.Type().String())
	}
}

func (r *reading) mapping(n *yaml.Node, path string, into reflect.Value) {
	if n.Kind != yaml.MappingNode {
		r.fail(n, path, "holds KEY: VALUE")
		return
	}
	known := keysOf(into.Type())
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := strings.TrimPrefix(path+"."+key.Value, ".")
		index := slices.Index(known, key.Value)
		switch {
		case index < 0:
			r.fail(key, at, "is no key%s; there are %s", tasks.Nearest(key.Value, known), strings.Join(known, ", "))
			continue
		case seen[key.Value]:
			r.fail(key, at, "stands there twice")
			continue
		}
		seen[key.Value] = true
		field := into.Type().Field(index)
		r.value(value, at, into.Field(index))
		if words := field.Tag.Get("enum"); words != "" && !slices.Contains(strings.Split(words, "|"), into.Field(index).String()) {
			r.fail(value, at, "is %s", strings.ReplaceAll(words, "|", " or "))
		}
	}
}

// keysOf are the keys of a block, which come first of its fields.
func keysOf(t reflect.Type) []string {
	var keys []string
	for i := range t.NumField() {
		if key := t.Field(i).Tag.Get("json"); key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}
