package tasks

import "strings"

// Layers, as the record's lineage names them (run-record 2.6).
const (
	LayerDefault    = "default"
	LayerTask       = "task"
	LayerExperiment = "experiment-defaults"
	LayerVariant    = "variant"
	LayerCLI        = "cli"
	LayerMutation   = "mutation"
)

// Origin says which layer gave a key its value.
type Origin struct {
	Value  any    `json:"value"`
	Source string `json:"source"`
	// Detail is the place, such as "task.yaml:12:3" or a variant's name.
	Detail string `json:"source_detail,omitempty"`
}

// Lineage returns the origin of every key that some layer wrote, by its dotted
// path. Criteria and datasets are not layered and are left out.
func (t *Task) Lineage() map[string]Origin { return t.written }

// Wrote reports whether some layer wrote the key at the dotted path, or a key
// below it. For a task of FromRecord it reports whether the recorded value
// differs from the default, since a record holds defaults and choices alike.
func (t *Task) Wrote(path string) bool {
	if _, ok := t.written[path]; ok {
		return true
	}
	for key := range t.written {
		if strings.HasPrefix(key, path) && key[len(path)] == '.' {
			return true
		}
	}
	return false
}
