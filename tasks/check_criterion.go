package tasks

import (
	"strings"
)

// decodeNode reads success_criteria: each entry by its type.
func (c *Criteria) decodeNode(d *decoder, n *node, path string) {
	if n.kind != listNode {
		d.fail(n, path, "must be a list of criteria, got %s", n.show())
		return
	}
	*c = make(Criteria, len(n.items))
	for i, entry := range n.items {
		(*c)[i] = d.criterion(entry, item(path, i))
	}
}

// criterion reads one criterion; it returns nil when there is no type to go by.
func (d *decoder) criterion(n *node, path string) Criterion {
	if n.kind != mapNode {
		d.fail(n, path, "must be a mapping with a type, got %s", n.show())
		return nil
	}
	n = rewriteNotExecuted(n)
	at := n.get("type")
	name, ok := at.isString()
	switch {
	case at == nil && shorthand(n) != "":
		d.fail(n, join(path, "type"), "is missing; write type: %s, and its keys beside it", shorthand(n))
		return nil
	case at == nil:
		d.fail(n, join(path, "type"), "is missing; the types are %s", oneOf(criterionTypes))
		return nil
	case !ok:
		d.fail(at, join(path, "type"), "must be the name of a type, got %s", at.show())
		return nil
	case newCriterion[name] == nil && removedTypes[name] != "":
		d.fail(at, join(path, "type"), "%s %s", name, removedTypes[name])
		return nil
	case newCriterion[name] == nil:
		if hint := Nearest(name, criterionTypes); hint != "" {
			d.fail(at, join(path, "type"), "%s is not a type of criterion%s", quote(name), hint)
		} else {
			d.fail(at, join(path, "type"), "%s is not a type of criterion; the types are %s", quote(name), oneOf(criterionTypes))
		}
		return nil
	}
	c := newCriterion[name]()
	setDefaults(elem(c))
	before, loading := len(d.problems), d.loading
	d.loading = false // no layer adds to a criterion
	d.structure(n, path, c)
	d.loading = loading
	if len(d.problems) == before {
		c.Common().rules(d, n, path)
	}
	return c
}

// shorthand returns the first key of a criterion that is the name of a type, or
// "".
func shorthand(n *node) string {
	for _, p := range n.pairs {
		if newCriterion[p.key] != nil {
			return p.key
		}
	}
	return ""
}

// rewriteNotExecuted turns the alias command_not_executed into what it means;
// its counts override what the author wrote (task-file 2).
func rewriteNotExecuted(n *node) *node {
	if name, _ := n.get("type").isString(); name != "command_not_executed" {
		return n
	}
	at := n.get("type")
	zero := &node{kind: intNode, scalar: int64(0), text: "0", src: at.src, line: at.line, column: at.column}
	return n.with(at.str(TypeCommandExecuted), "type").with(zero, "min_count").with(zero, "max_count")
}

func (c *Common) kindOf(n *node) string {
	if name, ok := n.get("type").isString(); ok {
		return name
	}
	return c.Type
}

// rules are those that hold for every type.
func (c *Common) rules(d *decoder, n *node, path string) {
	if c.Weight > 0 {
		return
	}
	if c.SuiteThresholds != nil {
		d.fail(n.get("suite_thresholds"), join(path, "suite_thresholds"), "needs a weight above 0; weight 0 only informs")
	}
	if c.StopEarly != nil {
		d.fail(n.get("stop_early"), join(path, "stop_early"), "needs a weight above 0; weight 0 only informs")
	}
}

func (c *FileMatchesRegex) check(d *decoder, n *node, path string) {
	d.pattern(n.get("pattern"), join(path, "pattern"), c.Pattern, c.Flags, false)
}

func (p *FilePattern) check(d *decoder, n *node, path string) {
	d.pattern(n.get("pattern"), join(path, "pattern"), p.Pattern, p.Flags, false)
}

func (a *JSONAssertion) check(d *decoder, n *node, path string) {
	if d.expression != nil && n.get("expression") != nil {
		if err := d.expression(a.Expression); err != nil {
			d.warn(n.get("expression"), join(path, "expression"), "%s is no JMESPath expression, and the assertion will fail: %s", quote(a.Expression), reasonText(err))
		}
	}
	expected := n.get("expected")
	if expected == nil {
		if a.Operator != OpExists {
			d.fail(n, join(path, "expected"), "is missing; only the operator exists goes without")
		}
		return
	}
	const shortest = 8
	if s, ok := a.Expected.(string); ok && a.Operator == OpContains && len([]rune(strings.TrimSpace(s))) < shortest {
		d.fail(expected, join(path, "expected"), "must have at least %d characters for contains, or it proves little; use equals, got %s", shortest, quote(s))
	}
	if s, ok := a.Expected.(string); ok && a.Operator == OpRegex {
		d.pattern(expected, join(path, "expected"), s, 0, false)
	}
}

func (c *ReferenceComparison) check(d *decoder, n *node, path string) {
	if strings.HasPrefix(c.ReferenceFile, "/") || hasParent(c.ReferenceFile) {
		d.fail(n.get("reference_file"), join(path, "reference_file"), "must be a path inside of the reference directory, got %s", quote(c.ReferenceFile))
	}
	c.PassThreshold = c.SimilarityThreshold
}

func (c *RunCommand) check(d *decoder, n *node, path string) {
	if c.ScoreFromStdout && c.ExpectedStdout != nil {
		d.fail(n.get("expected_stdout"), join(path, "expected_stdout"), "cannot stand beside score_from_stdout: the output is the score")
	}
	if c.StdoutMatch == "regex" && c.ExpectedStdout != nil {
		d.pattern(n.get("expected_stdout"), join(path, "expected_stdout"), *c.ExpectedStdout, 0, false)
	}
}

func (c *CommandExecuted) check(d *decoder, n *node, path string) {
	countRange(d, n, path, c.MinCount, c.MaxCount)
	const dotAll = 16 // these patterns compile with it (task-file 7.9)
	if c.CommandPattern != "" {
		d.pattern(n.get("command_pattern"), join(path, "command_pattern"), c.CommandPattern, dotAll, false)
	}
	if c.ExcludePattern != "" {
		d.pattern(n.get("exclude_pattern"), join(path, "exclude_pattern"), c.ExcludePattern, dotAll, false)
	}
}

// countRange checks max_count against min_count.
func countRange(d *decoder, n *node, path string, low int, high *int) {
	if high == nil || *high >= low {
		return
	}
	if *high == 0 && n.get("min_count") == nil {
		d.fail(n.get("max_count"), join(path, "max_count"), "0 needs min_count: 0 beside it, since min_count is %d by default", low)
		return
	}
	d.fail(n.get("max_count"), join(path, "max_count"), "must not be below min_count (%d), got %d", low, *high)
}

func (q *Question) kindOf(n *node) string {
	if name, ok := n.get("type").isString(); ok {
		return name
	}
	return q.Type
}

func (q *Question) check(d *decoder, n *node, path string) {
	switch q.Type {
	case QuestionNoul:
		if n.get("expected") == nil {
			q.Expected = true
		}
		if _, ok := q.Expected.(bool); !ok {
			d.fail(n.get("expected"), join(path, "expected"), "must be true or false, got %s", n.get("expected").show())
		}
	case QuestionChoice:
		q.checkChoices(d, n, path)
	case QuestionScore:
		const fewest, most = 2, 10
		if count := size(n.get("criteria")); count < fewest || count > most {
			d.fail(n.get("criteria"), join(path, "criteria"), "must have %d to %d steps, got %d", fewest, most, count)
		}
	}
	if q.Values != nil && size(n.get("values")) != size(n.get("criteria")) {
		d.fail(n.get("values"), join(path, "values"), "must have one value for each of criteria")
	}
}

func (q *Question) checkChoices(d *decoder, n *node, path string) {
	if size(n.get("criteria")) == 0 {
		d.fail(n.get("criteria"), join(path, "criteria"), "must be a list or a mapping of the choices")
	}
	if (q.Expected == nil) == (q.Values == nil) {
		d.fail(n, path, "needs exactly one of expected and values")
	}
}

// size is the number of entries of a list or mapping.
func size(n *node) int {
	if n == nil {
		return 0
	}
	return len(n.items) + len(n.pairs)
}
