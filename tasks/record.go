package tasks

import (
	"path/filepath"
	"reflect"
)

// FromRecord reads the resolved task of a record: the JSON object of
// task_config.resolved. Overrides, variant and dataset row are already in it
// (regrade 1.9); no file is read and no path is resolved. Keys that are not
// known, from a newer version of upstream, are ignored with a warning. The error
// is an *Invalid that lists all problems.
func FromRecord(resolved []byte) (*Task, error) {
	const what, name = "record", "task_config.resolved"
	r := &report{}
	n := parseJSON(resolved, &source{file: name, layer: LayerTask}, r)
	if n == nil {
		return nil, r.err(what, name)
	}
	d := &decoder{report: r, tolerant: true}
	t := d.task(n)
	if err := r.err(what, name); err != nil {
		return nil, err
	}
	t.written = differing(n)
	t.warnings = r.warnings
	return t, nil
}

// FromSource reads the text of a task file that a record holds, for a record whose
// resolved task is not valid any more (regrade 1.9). Overrides, variant and dataset
// row are not in it. No file is read; the Dockerfile's path is one from dir, where the
// file was. The error is an *Invalid that lists all problems.
func FromSource(text []byte, dir string) (*Task, error) {
	const what, name = "record", "task_config.source_yaml"
	r := &report{}
	n := parseYAML(text, &source{file: name, layer: LayerTask}, r)
	if n == nil {
		return nil, r.err(what, name)
	}
	if n.kind == nullNode {
		n.kind = mapNode // an empty text lacks every key
	}
	d := &decoder{report: r, tolerant: true, loading: true}
	t := d.task(n)
	if err := r.err(what, name); err != nil {
		return nil, err
	}
	if file := &t.Sandbox.Docker.DockerfilePath; *file != "" && filepath.IsAbs(dir) {
		*file = absolute(dir, *file)
	}
	t.warnings = tidy(r.warnings)
	return t, nil
}

// task reads a whole task.
func (d *decoder) task(n *node) *Task {
	t := &Task{root: n}
	setDefaults(reflect.ValueOf(t).Elem())
	d.structure(n, "", t)
	return t
}

// layered are the blocks of a task that layers can write.
var layered = []string{"agent", "run_limits", "sandbox", "simulation", "pre_run", "post_run", "checker_context", "initial_prompt"}

// differing returns the keys of a recorded task whose value is not the default:
// a record does not say which of them an author wrote.
func differing(n *node) map[string]Origin {
	defaults := &Task{Agent: &Agent{}, Simulation: &Simulation{}, CheckerContext: &CheckerContext{}}
	setDefaults(reflect.ValueOf(defaults).Elem())
	setDefaults(reflect.ValueOf(defaults.Agent).Elem())
	setDefaults(reflect.ValueOf(defaults.Simulation).Elem())
	text, err := defaults.MarshalJSON()
	if err != nil {
		panic(err) // the defaults are ours and have a JSON form
	}
	plain := parseJSON(text, n.src, &report{})
	written := map[string]Origin{}
	leaves(n, func(path string, leaf *node, keys []string) {
		if d := plain.at(keys...); d == nil || !reflect.DeepEqual(d.value(), leaf.value()) {
			written[path] = leaf.origin()
		}
	})
	return written
}

// leaves calls visit for every value below the layered blocks that is not a
// mapping with keys.
func leaves(n *node, visit func(path string, leaf *node, keys []string)) {
	for _, key := range layered {
		if block := n.get(key); block != nil {
			eachLeaf(block, key, []string{key}, visit)
		}
	}
}

func eachLeaf(n *node, path string, keys []string, visit func(string, *node, []string)) {
	if len(n.pairs) == 0 {
		visit(path, n, keys)
		return
	}
	for _, p := range n.pairs {
		eachLeaf(p.value, join(path, p.key), append(keys[:len(keys):len(keys)], p.key), visit)
	}
}

// origin says where a value came from.
func (n *node) origin() Origin {
	o := Origin{Value: n.value()}
	if n.src != nil {
		o.Source, o.Detail = n.src.layer, n.src.detail
		if o.Detail == "" {
			o.Detail = n.place().String()
		}
	}
	return o
}
