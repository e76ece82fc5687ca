package tasks

import (
	_ "embed"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Experiment is an experiment file: defaults and variants (task-file 11.1).
type Experiment struct {
	ID          string
	Description string
	Variants    []Variant
	// Path as given; "" for the built-in default experiment.
	Path     string
	Warnings []Problem

	dir      string
	defaults *node
	settings layerBlock
}

// Variant is one variant of an experiment.
type Variant struct {
	ID          string
	Description string

	root     *node
	settings layerBlock
}

// experimentFile, layerBlock and sandboxLayer are what an experiment file holds.
// Of partial blocks only the keys are looked at here: their values are validated
// once they are merged.
type experimentFile struct {
	ID          string         `json:"experiment_id" task:"required"`
	Description string         `json:"description"`
	Defaults    *defaultsBlock `json:"defaults"`
	Variants    []variantBlock `json:"variants" task:"required,min=1"`
}

// layerBlock are the keys that defaults and variants share.
type layerBlock struct {
	Agent           map[string]any   `json:"agent" task:"null"`
	Simulation      map[string]any   `json:"simulation" task:"null"`
	Repeats         int              `json:"repeats" task:"null,min=1,max=99"`
	RunLimits       *RunLimits       `json:"run_limits"`
	TemplateSources TemplateSources  `json:"template_sources" task:"null"`
	Driver          string           `json:"driver" task:"null,enum=tempdir|docker|podman"`
	PromptMutations []PromptMutation `json:"prompt_mutations" task:"null"`
	CheckerContext  map[string]any   `json:"checker_context" task:"null"`
}

type defaultsBlock struct {
	layerBlock
	Sandbox *Sandbox  `json:"sandbox"`
	PreRun  []PreRun  `json:"pre_run" task:"null"`
	PostRun []PostRun `json:"post_run" task:"null"`
}

type variantBlock struct {
	ID          string `json:"variant_id" task:"required"`
	Description string `json:"description"`
	layerBlock
	InitialPrompt     string `json:"initial_prompt" task:"null"`
	InitialPromptFile string `json:"initial_prompt_file" task:"null"`
}

// PromptMutation changes a prompt (task-file 11.1). Which keys count depends on
// Type.
type PromptMutation struct {
	Type        string            `json:"type" task:"required,enum=prefix|suffix|replace|template"`
	Content     string            `json:"content" task:"kinds=prefix|suffix,required"`
	Separator   string            `json:"separator" task:"kinds=prefix|suffix"`
	Pattern     string            `json:"pattern" task:"kinds=replace,required"`
	Replacement string            `json:"replacement" task:"kinds=replace,required"`
	Regex       bool              `json:"regex" task:"kinds=replace"`
	Variables   map[string]string `json:"variables" task:"kinds=template,required"`
}

func (m *PromptMutation) setDefaults() { m.Separator = "\n\n" }

func (m *PromptMutation) kindOf(n *node) string {
	if name, ok := n.get("type").isString(); ok {
		return name
	}
	return m.Type
}

func (m *PromptMutation) check(d *decoder, n *node, path string) {
	if m.Type == "replace" && m.Regex {
		d.pattern(n.get("pattern"), join(path, "pattern"), m.Pattern, 0, true)
	}
}

//go:embed default-experiment.yaml
var defaultExperiment []byte

// DefaultExperiment returns the built-in default experiment: the lowest layer
// of every task, and the active experiment when no other is named.
func DefaultExperiment() *Experiment {
	l := &Loader{Env: func(string) (string, bool) { return "", false }}
	e, err := l.parseExperiment("", defaultExperiment, &source{file: "built-in default experiment", layer: LayerDefault})
	if err != nil {
		panic(err) // the file is ours and a test reads it
	}
	return e
}

// LoadExperiment reads and validates one experiment file. The partial blocks in
// it are validated when they are merged with a task.
func (l *Loader) LoadExperiment(path string) (*Experiment, error) {
	data, src, err := open(path, "experiment file", maxYAMLBytes, LayerExperiment)
	if err != nil {
		return nil, err
	}
	return l.parseExperiment(path, data, src)
}

var experimentID = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

func (l *Loader) parseExperiment(path string, data []byte, src *source) (*Experiment, error) {
	const what = "experiment file"
	r := &report{}
	n := parseYAML(data, src, r)
	if n == nil {
		return nil, r.err(what, path)
	}
	n = relayer(n, src)
	d := l.decoder(r, true)
	d.strict = true
	var f experimentFile
	setDefaults(reflect.ValueOf(&f).Elem())
	d.structure(n, "", &f)
	n = l.resolveExperiment(n, r)
	if err := r.err(what, path); err != nil {
		return nil, err
	}
	e := &Experiment{ID: f.ID, Description: f.Description, Path: path, Warnings: tidy(r.warnings), dir: src.dir, defaults: n.get("defaults")}
	if f.Defaults != nil {
		e.settings = f.Defaults.layerBlock
	}
	for i, v := range f.Variants {
		e.Variants = append(e.Variants, Variant{v.ID, v.Description, n.get("variants").items[i], v.layerBlock})
	}
	return e, nil
}

// relayer gives the nodes of each variant a source of their own, so that
// lineage names the variant.
func relayer(n *node, src *source) *node {
	variants := n.get("variants")
	if variants == nil || variants.kind != listNode {
		return n
	}
	list := *variants
	list.items = slices.Clone(list.items)
	for i, v := range list.items {
		own := *src
		own.layer = LayerVariant
		own.detail, _ = v.get("variant_id").isString()
		list.items[i] = retarget(v, &own)
	}
	return n.with(&list, "variants")
}

func retarget(n *node, src *source) *node {
	c := *n
	c.src = src
	c.items = slices.Clone(n.items)
	for i := range c.items {
		c.items[i] = retarget(c.items[i], src)
	}
	c.pairs = slices.Clone(n.pairs)
	for i := range c.pairs {
		c.pairs[i].value = retarget(c.pairs[i].value, src)
	}
	return &c
}

// resolveExperiment resolves paths and prompt files against the experiment's
// own directory. The pages of upstream say that a system_prompt_file is relative
// to the task file, its code uses the experiment's directory (task-file 9); the
// code is what existing files were run with.
func (l *Loader) resolveExperiment(n *node, r *report) *node {
	if n.kind != mapNode {
		return n
	}
	if defaults := n.get("defaults"); defaults != nil && defaults.kind == mapNode {
		n = n.with(l.resolveLayer(defaults, "defaults", r), "defaults")
	}
	if variants := n.get("variants"); variants != nil && variants.kind == listNode {
		list := *variants
		list.items = slices.Clone(list.items)
		for i, v := range list.items {
			if v.kind == mapNode {
				at := item("variants", i)
				list.items[i] = promptFile(l.resolveLayer(v, at, r), at, "initial_prompt", r)
			}
		}
		n = n.with(&list, "variants")
	}
	return n
}

func (l *Loader) resolveLayer(n *node, path string, r *report) *node {
	if sources := n.get("template_sources"); sources != nil {
		n = n.with(l.templates(sources, join(path, "template_sources"), r), "template_sources")
	}
	if agent := n.get("agent"); agent != nil && agent.kind == mapNode {
		n = n.with(promptFile(agent, join(path, "agent"), "system_prompt", r), "agent")
	}
	if at := n.at("sandbox", "docker", "dockerfile_path"); at != nil {
		if name, ok := at.isString(); ok && !filepath.IsAbs(name) {
			name, _ = l.expand(name)
			n = n.with(at.str(absolute(at.src.dir, name)), "sandbox", "docker", "dockerfile_path")
		}
	}
	return n
}

func (f *experimentFile) check(d *decoder, n *node, _ string) {
	if id := n.get("experiment_id"); id != nil && id.kind == stringNode && !experimentID.MatchString(f.ID) {
		d.fail(id, "experiment_id", "must be lower-case words joined by -, got %s", quote(f.ID))
	}
	seen := map[string]bool{}
	for i, v := range f.Variants {
		at := n.get("variants").items[i]
		if seen[v.ID] {
			d.fail(at.get("variant_id"), item("variants", i)+".variant_id", "%s is there twice; ids must differ", quote(v.ID))
		}
		seen[v.ID] = true
	}
}

// check: an id becomes a directory of the run; and only one of the three ways
// to change the prompt.
func (v *variantBlock) check(d *decoder, n *node, path string) {
	if id := n.get("variant_id"); id != nil && id.kind == stringNode {
		if v.ID == "" || v.ID == "." || v.ID == ".." || strings.ContainsAny(v.ID, "/\\") || strings.ContainsFunc(v.ID, unicode.IsControl) || len(v.ID) > 200 {
			d.fail(id, join(path, "variant_id"), "names a directory of the run and must be one plain name, got %s", quote(v.ID))
		}
	}
	var written []string
	for _, key := range []string{"initial_prompt", "initial_prompt_file", "prompt_mutations"} {
		if p := n.get(key); p != nil && p.kind != nullNode {
			written = append(written, key)
		}
	}
	if len(written) > 1 {
		d.fail(n.get(written[1]), join(path, written[1]), "cannot stand beside %s; keep one of them", written[0])
	}
	checkByType(d, n.get("agent"), join(path, "agent"), false)
	checkPartial(d, n, path)
}

func (b *defaultsBlock) check(d *decoder, n *node, path string) {
	checkByType(d, n.get("agent"), join(path, "agent"), true)
	checkPartial(d, n, path)
}

// checkPartial refuses keys of the partial blocks that no merge can make right,
// so that they are named with what else is wrong in the file.
func checkPartial(d *decoder, n *node, path string) {
	agent := n.get("agent")
	d.layerKeys(agent.without("by_type"), join(path, "agent"), reflect.TypeFor[Agent](), anyKind)
	d.layerKeys(n.get("simulation"), join(path, "simulation"), reflect.TypeFor[Simulation](), anyKind)
	if by := agent.get("by_type"); by != nil {
		for _, p := range by.pairs {
			d.layerKeys(p.value, join(path, "agent.by_type."+quoteKey(p.key)), reflect.TypeFor[Agent](), p.key)
		}
	}
}

// layerKeys refuses the keys of one layer of a block that no block of its kind
// has.
func (d *decoder) layerKeys(n *node, path string, t reflect.Type, kind string) {
	if n == nil || n.kind != mapNode {
		return
	}
	s := shapeOf(t)
	for _, p := range n.pairs {
		if f := s.byKey[p.key]; f == nil || !f.has(kind) {
			d.unknown(s, f, p, path, kind)
		}
	}
}

// checkByType looks at agent.by_type, a key of newer upstream versions: keys of
// the agent that count for one kind only (task-file 0.2).
func checkByType(d *decoder, agent *node, path string, allowed bool) {
	by := agent.get("by_type")
	if by == nil {
		return
	}
	path = join(path, "by_type")
	switch {
	case !allowed:
		d.fail(by, path, "%s", byTypeText)
	case by.kind != mapNode:
		d.fail(by, path, "must be a mapping from kind of agent to keys, got %s", by.show())
	}
	known := slices.Concat(agentKinds, d.kinds)
	for _, p := range by.pairs {
		if !slices.Contains(known, p.key) {
			d.fail(p.keyNode, join(path, quoteKey(p.key)), "must be %s%s", oneOf(known), Nearest(p.key, known))
		}
		if p.value.kind != mapNode {
			d.fail(p.value, join(path, quoteKey(p.key)), "must be a mapping, got %s", p.value.show())
		}
	}
}
