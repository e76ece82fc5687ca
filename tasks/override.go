package tasks

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// Override is one -D PATH=VALUE.
type Override struct {
	Path  string // dotted, such as "agent.model"
	value *node
}

// overrideRoots are the blocks that -D can reach (task-file 11.3).
var overrideRoots = []string{"agent", "run_limits", "sandbox"}

// ParseOverride reads PATH=VALUE: split at the first equals sign, the path
// checked against the types, the value YAML, except that the words y, n, yes,
// no, on and off stay strings.
func ParseOverride(text string) (Override, error) {
	path, value, found := strings.Cut(text, "=")
	path = strings.TrimSpace(path)
	switch {
	case !utf8.ValidString(text):
		return Override{}, fmt.Errorf("cannot read -D %s: it is not UTF-8 text", quote(text))
	case !found:
		return Override{}, fmt.Errorf("cannot read -D %s: there is no = ; write PATH=VALUE, such as agent.model=NAME", quote(text))
	case path == "":
		return Override{}, fmt.Errorf("cannot read -D %s: there is no path before the =; write PATH=VALUE, such as agent.model=NAME", quote(text))
	}
	if err := checkOverridePath(path); err != nil {
		return Override{}, fmt.Errorf("cannot read -D %s: %w", quote(text), err)
	}
	src := &source{file: "-D " + path, layer: LayerCLI, detail: "-D"}
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "y", "n", "yes", "no", "on", "off":
		word := strings.TrimSpace(value)
		return Override{path, &node{kind: stringNode, scalar: word, text: word, src: src}}, nil
	}
	r := &report{}
	n := parseYAML([]byte(value), src, r)
	if err := r.err("value of", "-D "+path); err != nil {
		return Override{}, err
	}
	return Override{path, n}, nil
}

// stringOverride is an Override for a value that is not YAML: the aliases of
// the command line, such as --model.
func stringOverride(path, value, flag string) Override {
	src := &source{file: flag, layer: LayerCLI, detail: flag}
	return Override{path, &node{kind: stringNode, scalar: value, text: value, src: src}}
}

// checkOverridePath walks the types along the path.
func checkOverridePath(path string) error {
	keys := strings.Split(path, ".")
	if !slices.Contains(overrideRoots, keys[0]) {
		return fmt.Errorf("%s is not a block that can be set%s; the blocks are %s", quote(keys[0]), Nearest(keys[0], overrideRoots), oneOf(overrideRoots))
	}
	if len(keys) == 1 {
		return fmt.Errorf("%s is a whole block; name a key in it, such as %s", keys[0], overrideExample[keys[0]])
	}
	t := reflect.TypeFor[Task]()
	for i, key := range keys {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		parent := strings.Join(keys[:i], ".")
		switch {
		case key == "":
			return fmt.Errorf("the path %s has an empty part", quote(path))
		case t.Kind() == reflect.Interface:
			return nil
		case t.Kind() == reflect.Map:
			t = t.Elem()
		case t.Kind() != reflect.Struct || t == reflect.TypeFor[Caps]():
			return fmt.Errorf("%s has no keys below it; set it as a whole", parent)
		default:
			f := shapeOf(t).byKey[key]
			if f == nil {
				return unknownOverride(t, parent, key)
			}
			t = f.typ
		}
	}
	return nil
}

var overrideExample = map[string]string{"agent": "agent.model", "run_limits": "run_limits.max_turns", "sandbox": "sandbox.driver"}

func unknownOverride(t reflect.Type, parent, key string) error {
	if text := removedKey(parent, key); text != "" {
		return fmt.Errorf("%s.%s %s", parent, quoteKey(key), text)
	}
	var keys []string
	for i := range shapeOf(t).fields {
		keys = append(keys, shapeOf(t).fields[i].key)
	}
	if hint := Nearest(key, keys); hint != "" {
		return fmt.Errorf("%s is not a key of %s%s", quote(key), parent, hint)
	}
	return fmt.Errorf("%s is not a key of %s; the keys are %s", quote(key), parent, strings.Join(keys, ", "))
}

// overrideLayer combines overrides into one layer. The same path twice is an
// error: neither could be said to win.
func overrideLayer(list []Override) (*node, error) {
	src := &source{file: "-D", layer: LayerCLI, detail: "-D"}
	layer := &node{kind: mapNode, src: src}
	for i, o := range list {
		for _, other := range list[:i] {
			a, b := canonicalPath(o.Path), canonicalPath(other.Path)
			if a == b {
				return nil, fmt.Errorf("%s is set twice (%s and %s); keep one", o.Path, other.value.src.file, o.value.src.file)
			}
			if strings.HasPrefix(a, b+".") || strings.HasPrefix(b, a+".") {
				return nil, fmt.Errorf("%s and %s set the same block; keep one", other.Path, o.Path)
			}
		}
		layer = layer.with(o.value, strings.Split(canonicalPath(o.Path), ".")...)
	}
	return layer, nil
}

// canonicalPath replaces aliases of keys.
func canonicalPath(path string) string {
	keys := strings.Split(path, ".")
	t := reflect.TypeFor[Task]()
	for i, key := range keys {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || shapeOf(t).byKey[key] == nil {
			break
		}
		keys[i] = shapeOf(t).byKey[key].key
		t = shapeOf(t).byKey[key].typ
	}
	return strings.Join(keys, ".")
}
