package tasks

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// ErrEarlyStop is wrapped by the error of a task whose early-stop settings are
// wrong; it ends the whole run (task-file 5.1, 11.4).
var ErrEarlyStop = errors.New("wrong early-stop settings")

// Layers are what lies around a task file.
type Layers struct {
	Experiment *Experiment // nil: the built-in default experiment
	Variant    *Variant    // of the experiment
	Overrides  []Override  // of -D
	// Type, Model and Driver are the flags of the command line, "" when not
	// given. An -D agent.type wins over Type; the other two must not be set
	// by -D as well.
	Type, Model, Driver string
}

// Resolve merges the layers around one task and validates the result
// (task-file 11.2). The task of the file stays as it was.
func (l *Loader) Resolve(f *File, layers Layers) (*Task, error) {
	m, err := l.newMerger(f, layers)
	if err != nil {
		return nil, err
	}
	n := m.merged()
	d := l.decoder(m.report, false)
	t := d.task(n)
	t.resolved(d, n)
	name := f.Path
	if f.Task.RowID != "" {
		name += " row " + f.Task.RowID
	}
	if err := m.report.err("resolved task of", name); err != nil {
		if early := t.checkEarlyStop(l, n); early != nil {
			return nil, fmt.Errorf("%w\n%w", early, err)
		}
		return nil, err
	}
	if err := t.checkEarlyStop(l, n); err != nil {
		return nil, err
	}
	t.written = map[string]Origin{}
	leaves(n, func(path string, leaf *node, _ []string) { t.written[path] = leaf.origin() })
	t.warnings = tidy(slices.Concat(f.Warnings, m.report.warnings))
	return t, nil
}

// check finds what is wrong with the flags of the command line: text that no
// record can hold, and two that set the same key.
func (l Layers) check() error {
	for _, value := range []string{l.Type, l.Model, l.Driver} {
		if !utf8.ValidString(value) {
			return fmt.Errorf("cannot use %s: it is not UTF-8 text", quote(value))
		}
	}
	_, err := overrideLayer(l.commandLine())
	return err
}

// commandLine is what all flags set, as -D would.
func (l Layers) commandLine() []Override {
	list := slices.Clone(l.Overrides)
	set := func(path, value, flag string) {
		if value != "" {
			list = append(list, stringOverride(path, value, flag))
		}
	}
	set("agent.model", l.Model, "--model")
	set("sandbox.driver", l.Driver, "--driver")
	if !slices.ContainsFunc(list, func(o Override) bool { return o.Path == "agent.type" }) {
		set("agent.type", l.Type, "--type")
	}
	return list
}

// merger holds the layers of one task, lowest first: base, experiment, file,
// variant, command line.
type merger struct {
	loader                *Loader
	report                *report
	base, experiment      *node // defaults blocks; experiment is nil when it is the base
	active                *Experiment
	file                  *node
	variant               *node
	cli                   *node
	settings, ownSettings layerBlock // of the active experiment, of the variant
}

// baseExperiment is read when it is first needed, not at start-up.
var baseExperiment = sync.OnceValue(DefaultExperiment)

func (l *Loader) newMerger(f *File, layers Layers) (*merger, error) {
	m := &merger{loader: l, report: &report{}, base: baseExperiment().defaults, file: f.root, active: baseExperiment()}
	if layers.Experiment != nil {
		m.active, m.experiment = layers.Experiment, layers.Experiment.defaults
	}
	m.settings = m.active.settings
	if layers.Variant != nil {
		m.variant, m.ownSettings = layers.Variant.root, layers.Variant.settings
	}
	var err error
	m.cli, err = overrideLayer(layers.commandLine())
	return m, err
}

// all returns one block of every layer, lowest first, without the layers that
// lack it or say null.
func (m *merger) all(key string) []*node {
	var list []*node
	for _, layer := range []*node{m.base, m.experiment, m.file, m.variant, m.cli} {
		if block := layer.get(key); block != nil && block.kind != nullNode {
			list = append(list, block)
		}
	}
	return list
}

// merged returns the task with all layers in it.
func (m *merger) merged() *node {
	n := m.file
	put := func(key string, block *node) {
		if block != nil {
			n = n.with(block, key)
		}
	}
	put("agent", m.systemPrompt(m.agent()))
	put("run_limits", m.fold(m.all("run_limits"), reflect.TypeFor[RunLimits](), "run_limits"))
	put("simulation", m.fold(m.all("simulation"), reflect.TypeFor[Simulation](), "simulation"))
	put("checker_context", m.namespaces())
	put("sandbox", m.sandbox())
	// pre_run: the experiment's first. post_run: the task's first. The built-in
	// default experiment has neither.
	own := m.experiment
	put("pre_run", m.concat("pre_run", own.get("pre_run"), m.file.get("pre_run")))
	put("post_run", m.concat("post_run", m.file.get("post_run"), own.get("post_run")))
	if prompt := m.prompt(n); prompt != nil {
		n = n.without("initial_prompt_file").with(prompt, "initial_prompt")
	}
	return m.dockerfile(n)
}

// systemPrompt reads a system_prompt_file that the command line gave: relative
// to the experiment's directory, or the task's when there is no file of one.
func (m *merger) systemPrompt(agent *node) *node {
	const key = "system_prompt_file"
	at := agent.get(key)
	if at == nil {
		return agent
	}
	if at.src.dir == "" {
		agent = agent.with(m.below(at, m.active.dir), key)
	}
	return promptFile(agent, "agent", "system_prompt", m.report)
}

// dockerfile checks a Dockerfile that is not the task file's own, which Load
// has checked. One of the command line is relative to the task directory.
func (m *merger) dockerfile(n *node) *node {
	keys := []string{"sandbox", "docker", "dockerfile_path"}
	at := n.at(keys...)
	if at == nil || at.src == m.file.src {
		return n
	}
	if at.src.dir == "" {
		n = n.with(m.below(at, ""), keys...)
	}
	return m.loader.dockerfile(n, m.report)
}

// below gives a value of the command line a directory to be relative to; "" is
// the task directory.
func (m *merger) below(n *node, dir string) *node {
	own := *n.src
	if own.dir = dir; dir == "" {
		own.dir = m.file.src.dir
	}
	return retarget(n, &own)
}

func (m *merger) fold(blocks []*node, t reflect.Type, path string) *node {
	var out *node
	for _, block := range blocks {
		out = merge(out, block, t, path, m.report)
	}
	return out
}

// agent merges the agent blocks; where one has keys for the kind that the task
// ends up with, they lie just above its other keys.
func (m *merger) agent() *node {
	blocks := m.all("agent")
	kind := ""
	for _, block := range blocks {
		if s, ok := block.get("type").isString(); ok {
			kind = s
		}
	}
	var spread []*node
	for _, block := range blocks {
		by := block.get("by_type")
		if by == nil || block.src.layer != LayerExperiment && block.src.layer != LayerDefault {
			spread = append(spread, block) // elsewhere the decoder refuses it
			continue
		}
		spread = append(spread, block.without("by_type"))
		if keys := by.get(kind); keys != nil {
			spread = append(spread, keys)
		}
	}
	return m.fold(spread, reflect.TypeFor[Agent](), "agent")
}

// namespaces: each namespace of checker_context comes whole from the highest
// layer that has it (task-file 7.15).
func (m *merger) namespaces() *node {
	var out *node
	for _, block := range m.all("checker_context") {
		if out == nil || out.kind != mapNode || block.kind != mapNode {
			out = block
			continue
		}
		for _, p := range block.pairs {
			out = out.with(p.value, p.key)
		}
	}
	return out
}

// sandbox: variants have no sandbox block, but a driver and template sources;
// the driver of an experiment's defaults wins over that in its sandbox block.
// Templates go task, experiment, variant, command line; those below
// defaults.sandbox are never applied (task-file 11.2).
func (m *merger) sandbox() *node {
	const templates = "template_sources"
	var blocks []*node
	for _, defaults := range []*node{m.base, m.experiment} {
		if block := defaults.get("sandbox"); block != nil && block.kind == mapNode {
			blocks = append(blocks, block.without(templates))
		}
	}
	if driver := driverBlock(m.active.defaults); driver != nil {
		blocks = append(blocks, driver)
	}
	if block := m.file.get("sandbox"); block != nil && block.kind == mapNode {
		blocks = append(blocks, block.without(templates))
	}
	if driver := driverBlock(m.variant); driver != nil {
		blocks = append(blocks, driver)
	}
	if block := m.cli.get("sandbox"); block != nil {
		blocks = append(blocks, block.without(templates))
	}
	out := m.fold(blocks, reflect.TypeFor[Sandbox](), "sandbox")
	sources := m.concat("sandbox."+templates, m.file.at("sandbox", templates),
		m.experiment.get(templates), m.variant.get(templates), m.overridden(templates))
	if sources == nil {
		return out
	}
	if out == nil {
		out = &node{kind: mapNode, src: sources.src}
	}
	return out.with(sources, templates)
}

// overridden are the template sources of the command line, relative to the
// directory of the task file.
func (m *merger) overridden(key string) *node {
	list := m.cli.at("sandbox", key)
	if list == nil {
		return nil
	}
	return m.loader.templates(m.below(list, ""), "sandbox."+key, m.report)
}

// driverBlock wraps the driver key of a layer as a sandbox block.
func driverBlock(layer *node) *node {
	driver := layer.get("driver")
	if driver == nil || driver.kind == nullNode {
		return nil
	}
	return (&node{kind: mapNode, src: driver.src}).with(driver, "driver")
}

// concat joins lists in the order given.
func (m *merger) concat(path string, lists ...*node) *node {
	var out *node
	for _, list := range lists {
		switch {
		case list == nil:
		case out == nil:
			out = list
		default:
			out = appended(out, list, path, m.report)
		}
	}
	return out
}

// prompt is the variant's own prompt, or that of the file after all mutations;
// nil when the file's stays.
func (m *merger) prompt(n *node) *node {
	if own := m.variant.get("initial_prompt"); own != nil && own.kind != nullNode {
		return own
	}
	mutations := slices.Concat(m.settings.PromptMutations, m.ownSettings.PromptMutations)
	at := n.get("initial_prompt")
	text, ok := at.isString()
	if !ok || len(mutations) == 0 {
		return nil
	}
	text, err := m.loader.mutated(text, mutations)
	if err != nil {
		m.report.fail(at, "prompt_mutations", "%s", err)
		return nil
	}
	out := at.str(text)
	src := *at.src
	src.layer = LayerMutation
	out.src = &src
	return out
}

// chosen reports whether a value is more than the built-in default.
func chosen(n *node) bool { return n != nil && n.src.layer != LayerDefault }

// resolved holds the rules that only a task with all its layers must meet.
func (t *Task) resolved(d *decoder, n *node) {
	if t.agentType() == "" {
		d.fail(n, "agent.type", "is not set by any layer; write it in the task, or give --type")
	}
	if t.agentType() == Oracle && (t.Sandbox.Podman == nil || t.Sandbox.Podman.Solution == "") {
		d.fail(n.get("agent"), "agent.type", "oracle runs sandbox.podman.solution, which is not set")
	}
	if t.agentType() == CommandLine && strings.TrimSpace(t.Agent.Command) == "" {
		d.fail(n.get("agent"), "agent.command", "is missing: type command runs a command line, and none is set")
	}
	limits := n.get("run_limits")
	if l := t.RunLimits; l.TaskTimeout > l.TurnTimeout && l.TurnTimeout > 0 && chosen(limits.get("task_timeout")) && chosen(limits.get("turn_timeout")) {
		d.warn(limits.get("turn_timeout"), "run_limits.task_timeout", "is larger than turn_timeout (%d > %d): one call of the agent cannot use it up", l.TaskTimeout, l.TurnTimeout)
	}
}
