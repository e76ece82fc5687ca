package tasks

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
)

var toolForm = regexp.MustCompile(`^[A-Za-z0-9._+-]+$`)

// reservedTools cannot be recorded: the workspace itself needs them.
var reservedTools = strings.Fields("python python3 py env sh bash zsh cmd node uv git")

func (r *RecordCLI) check(d *decoder, n *node, path string) {
	name := strings.ToLower(r.Tool)
	at := n.get("tool")
	switch {
	case !toolForm.MatchString(r.Tool), name == ".", name == "..":
		d.fail(at, join(path, "tool"), "must be a plain command name, got %s", quote(r.Tool))
	case slices.Contains(reservedTools, strings.TrimSuffix(name, ".exe")),
		name == "calls.jsonl", name == "argv_match.py",
		strings.HasSuffix(name, ".cmd"), strings.HasSuffix(name, ".bat"):
		d.fail(at, join(path, "tool"), "%s is reserved and cannot be recorded", quote(r.Tool))
	}
	r.checkCovered(d, n.get("responses"), join(path, "responses"))
}

// checkCovered finds rules that can never be reached (task-file 6.3).
func (r *RecordCLI) checkCovered(d *decoder, n *node, path string) {
	for i := range r.Responses {
		for j := range i {
			early, late := &r.Responses[j].When, &r.Responses[i].When
			if reflect.DeepEqual(early, late) || early.verbOnly() && early.coversVerbs(late) {
				d.fail(n.items[i], item(path, i)+".when", "is never reached: %s[%d] matches first", path, j)
				break
			}
		}
	}
}

// verbs returns the alternatives of a rule, each as its words.
func (m *CLIMatch) verbs() (list [][]string) {
	if m.Verb != "" {
		list = append(list, strings.Fields(m.Verb))
	}
	for _, verb := range m.VerbAnyOf {
		list = append(list, strings.Fields(verb))
	}
	return list
}

func (m *CLIMatch) verbOnly() bool {
	return len(m.verbs()) > 0 && len(m.Positional) == 0 && len(m.Flags) == 0
}

// coversVerbs reports whether each verb of other begins with one of ours and
// both read the command line alike.
func (r *CLIRule) coversVerbs(other *CLIRule) bool {
	if !slices.Equal(r.ValueFlags, other.ValueFlags) || !slices.Equal(r.IgnoreFlags, other.IgnoreFlags) || len(other.valueNames()) > 0 {
		return false
	}
	verbs := other.verbs()
	for _, verb := range verbs {
		if !slices.ContainsFunc(r.verbs(), func(ours []string) bool { return isPrefix(ours, verb) }) {
			return false
		}
	}
	return len(verbs) > 0
}

// valueNames are the flags whose predicates make them take a value.
func (m *CLIMatch) valueNames() (names []string) {
	for name, p := range m.Flags {
		if !p.Present && !p.Absent {
			names = append(names, name)
		}
	}
	return names
}

func isPrefix(a, b []string) bool { return len(a) <= len(b) && slices.Equal(a, b[:len(a)]) }

func (c *CLICalled) check(d *decoder, n *node, path string) {
	c.CLIMatch.rules(d, n, path, c.IgnoreFlags)
	if len(c.verbs()) == 0 && c.Positional == nil && len(c.Flags) == 0 && c.Tool == "" {
		d.fail(n, path, "matches every call: write verb, verb_any_of, positional, flags or tool")
	}
	if c.MinCount == 0 && c.MaxCount == nil {
		d.fail(n, join(path, "max_count"), "is missing; min_count: 0 alone is always true")
	}
	countRange(d, n, path, c.MinCount, c.MaxCount)
}

func (r *CLIRule) check(d *decoder, n *node, path string) {
	r.CLIMatch.rules(d, n, path, r.IgnoreFlags)
	if len(r.verbs()) == 0 && r.Positional == nil && len(r.Flags) == 0 {
		d.fail(n, path, "matches every call: write verb, verb_any_of, positional or flags")
	}
}

// rules are those of task-file 7.10 that criterion and recorder share.
func (m *CLIMatch) rules(d *decoder, n *node, path string, ignored []string) {
	m.checkVerbs(d, n, path)
	if m.Positional != nil && len(m.Positional) == 0 {
		d.fail(n.get("positional"), join(path, "positional"), "must not be empty")
	}
	m.checkNames(d, n, path, ignored)
}

var negativeNumber = regexp.MustCompile(`^-[0-9]+(?:\.[0-9]*)?$|^-\.[0-9]+$`)

func (m *CLIMatch) checkVerbs(d *decoder, n *node, path string) {
	single, several := n.get("verb"), n.get("verb_any_of")
	if single != nil && single.kind != nullNode && several != nil && several.kind != nullNode {
		d.fail(several, join(path, "verb_any_of"), "cannot stand beside verb; keep one of them")
		return
	}
	if single != nil && single.kind != nullNode {
		checkVerb(d, single, join(path, "verb"), m.Verb)
	}
	if m.VerbAnyOf == nil {
		return
	}
	at := join(path, "verb_any_of")
	if len(m.VerbAnyOf) == 0 {
		d.fail(several, at, "must not be empty")
	}
	for i, verb := range m.VerbAnyOf {
		checkVerb(d, several.items[i], item(at, i), verb)
		for j, other := range m.VerbAnyOf {
			if i != j && len(strings.Fields(other)) > 0 && isPrefix(strings.Fields(other), strings.Fields(verb)) && (j < i || other != verb) {
				d.fail(several.items[i], item(at, i), "%s is covered by %s; delete one", quote(verb), quote(other))
				break
			}
		}
	}
}

func checkVerb(d *decoder, n *node, path, verb string) {
	words := strings.Fields(verb)
	if len(words) == 0 {
		d.fail(n, path, "must not be blank")
	}
	for _, word := range words {
		if strings.HasPrefix(word, "-") && word != "-" && !negativeNumber.MatchString(word) {
			d.fail(n, path, "%s looks like a flag; write it under flags", quote(word))
		}
	}
}

// checkNames finds flags that two predicates, or a predicate and ignore_flags,
// lay claim to.
func (m *CLIMatch) checkNames(d *decoder, n *node, path string, ignored []string) {
	flags := n.get("flags")
	if flags == nil {
		return
	}
	bare := func(name string) string { return strings.TrimLeft(name, "-") }
	owner := map[string]string{}
	claim := func(at *node, path, name, key string) {
		switch first, taken := owner[bare(name)]; {
		case taken:
			d.fail(at, path, "the flag %s is already named by %s", quote(name), quote(first))
		case slices.ContainsFunc(ignored, func(s string) bool { return bare(s) == bare(name) }):
			d.fail(at, path, "the flag %s is ignored by ignore_flags", quote(name))
		}
		owner[bare(name)] = key
	}
	for _, p := range flags.pairs {
		at := join(path, "flags."+quoteKey(p.key))
		claim(p.keyNode, at, p.key, p.key)
		for _, alias := range m.Flags[p.key].Aliases {
			claim(p.value, join(at, "aliases"), alias, p.key)
		}
	}
}

// decodeNode reads a predicate: a bare string means equals.
func (f *FlagPredicate) decodeNode(d *decoder, n *node, path string) {
	if s, ok := n.isString(); ok {
		f.Equals = &s
		return
	}
	if n.kind != mapNode {
		d.fail(n, path, "must be a string or a mapping such as {contains: TEXT}, got %s", n.show())
		return
	}
	d.structure(n, path, f)
}

func (f *FlagPredicate) check(d *decoder, n *node, path string) {
	conditions := 0
	for _, key := range []string{"equals", "contains", "matches_regex", "any_of", "present", "absent"} {
		if c := n.get(key); c != nil && c.kind != nullNode && !(d.tolerant && c.kind == boolNode && !c.isTrue()) {
			conditions++
		}
	}
	if conditions != 1 {
		d.fail(n, path, "needs exactly one of equals, contains, matches_regex, any_of, present and absent")
	}
	if f.AnyOf != nil && len(f.AnyOf) == 0 {
		d.fail(n.get("any_of"), join(path, "any_of"), "must not be empty")
	}
	for _, key := range []string{"present", "absent"} {
		if c := n.get(key); c != nil && c.kind != nullNode && !c.isTrue() && !d.tolerant {
			d.fail(c, join(path, key), "can only be true; leave it out otherwise")
		}
	}
	if f.MatchesRegex != nil {
		d.pattern(n.get("matches_regex"), join(path, "matches_regex"), *f.MatchesRegex, f.Flags, true)
	} else if f.Flags != 0 {
		d.fail(n.get("flags"), join(path, "flags"), "belongs to matches_regex only")
	}
}
