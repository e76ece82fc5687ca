package tasks

import (
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

var tagForm = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*(:[a-z0-9]+(-[a-z0-9]+)*)?$`)

// check holds the rules of task-file 2 that span the whole task.
func (t *Task) check(d *decoder, n *node, _ string) {
	t.checkID(d, n.get("task_id"))
	if tags := n.get("tags"); len(t.Tags) > 0 {
		for i, tag := range t.Tags {
			if _, ok := tags.items[i].isString(); ok && !tagForm.MatchString(tag) {
				d.fail(tags.items[i], item("tags", i), "must be lower-case words joined by -, with at most one colon, got %s", quote(tag))
			}
		}
	}
	t.checkPrompt(d, n)
	t.checkNoAgent(d, n)
	t.checkReference(d, n)
	t.checkSuites(d, n)
	t.checkRoute(d, n)
	t.warnOutside(d, n)
}

// warnOutside warns of paths of criteria that lead out of the workspace by
// themselves: a row is not graded where such a file exists (task-file 7.1). An
// absolute path may mean a working_dir.
func (t *Task) warnOutside(d *decoder, n *node) {
	if d.tolerant {
		return
	}
	for i, c := range t.SuccessCriteria {
		for key, name := range pathsOf(c) {
			absolute := path.IsAbs(name)
			if absolute && t.Sandbox.WorkingDir() != "" || !absolute && (name == "" || filepath.IsLocal(name)) {
				continue
			}
			at := criterionNode(n, i).get(key)
			d.warn(at, item("success_criteria", i)+"."+key, "%s leads out of the workspace, and a row where it exists is not graded; to ask about a file of the image use run_command", quote(name))
		}
	}
}

// pathsOf returns the paths of a criterion that are looked for in the
// workspace, by key.
func pathsOf(c Criterion) map[string]string {
	switch c := c.(type) {
	case *FileExists:
		return map[string]string{"path": c.Path}
	case *FileContains:
		return map[string]string{"path": c.Path}
	case *FileMatchesRegex:
		return map[string]string{"path": c.Path}
	case *FileCheck:
		return map[string]string{"path": c.Path}
	case *JSONCheck:
		return map[string]string{"path": c.Path, "json_schema": c.JSONSchema}
	case *ClassificationMatch:
		return map[string]string{"path": c.Path}
	case *CLICalled:
		return map[string]string{"log": c.Log}
	case *ReferenceComparison:
		return map[string]string{"agent_file": c.AgentFile}
	}
	return nil
}

// checkID refuses ids that could not be a row directory inside of the run
// directory; upstream has no such rule, but an id of a record is untrusted.
func (t *Task) checkID(d *decoder, n *node) {
	if _, text := n.isString(); t.TaskID == "" && !text {
		return // it is missing, or no string
	}
	const limit = 1024
	switch {
	case strings.TrimSpace(t.TaskID) == "":
		d.fail(n, "task_id", "must not be empty")
	case path.IsAbs(t.TaskID), slices.Contains(strings.Split(t.TaskID, "/"), ".."), path.Clean(t.TaskID) != t.TaskID, t.TaskID == ".":
		d.fail(n, "task_id", "names the row directory and must stay inside of the run directory, got %s", quote(t.TaskID))
	case strings.ContainsFunc(t.TaskID, unicode.IsControl), len(t.TaskID) > limit:
		d.fail(n, "task_id", "names the row directory: no control characters, at most %d bytes, got %s", limit, quote(t.TaskID))
	}
}

func (t *Task) simulated() bool { return t.Simulation != nil && t.Simulation.Enabled }

func (t *Task) agentType() string {
	if t.Agent == nil {
		return ""
	}
	return t.Agent.Type
}

// checkPrompt: an empty prompt is none, so that it survives a record.
func (t *Task) checkPrompt(d *decoder, n *node) {
	prompt, file := n.get("initial_prompt"), n.get("initial_prompt_file")
	written := func(p *node) bool { return p != nil && p.kind != nullNode && p.scalar != "" }
	switch {
	case written(prompt) && written(file):
		d.fail(file, "initial_prompt_file", "cannot stand beside initial_prompt; keep one of them")
	case written(prompt), written(file), t.simulated():
	case t.agentType() == NoAgent, t.agentType() == Oracle:
	default:
		d.fail(n, "initial_prompt", "is missing: write initial_prompt or initial_prompt_file (only an enabled simulation or agent.type none goes without)")
	}
}

// agentNeeded are the criteria that judge what an agent did.
var agentNeeded = []string{TypeCommandExecuted, TypeSkillTriggered, TypeReferenceComparison, TypeCommandsEfficiency}

func (t *Task) checkNoAgent(d *decoder, n *node) {
	if t.agentType() != NoAgent {
		return
	}
	for _, key := range []string{"initial_prompt", "initial_prompt_file"} {
		if p := n.get(key); p != nil && p.kind != nullNode {
			d.fail(p, key, "has no reader: agent.type is none")
		}
	}
	if t.simulated() {
		d.fail(n.get("simulation"), "simulation", "cannot be enabled: agent.type is none")
	}
	for i, c := range t.SuccessCriteria {
		if c != nil && slices.Contains(agentNeeded, c.Common().Type) {
			d.fail(criterionNode(n, i), item("success_criteria", i), "%s judges an agent, and agent.type is none", c.Common().Type)
		}
	}
}

func criterionNode(n *node, i int) *node {
	if list := n.get("success_criteria"); list != nil && i < len(list.items) {
		return list.items[i]
	}
	return n
}

var mentionsReference = regexp.MustCompile(`\$(?:REFERENCE_DIR(?:[^A-Za-z0-9_]|$)|\{REFERENCE_DIR\})`)

// checkReference finds criteria that need a reference when there is none.
func (t *Task) checkReference(d *decoder, n *node) {
	if r := n.get("reference"); r != nil && r.kind != nullNode {
		return
	}
	for i, c := range t.SuccessCriteria {
		at, what := criterionNode(n, i), ""
		switch c := c.(type) {
		case *ReferenceComparison:
			what = "reference_comparison compares with the reference"
		case *RunCommand:
			if mentionsReference.MatchString(c.Command) {
				what = "the command mentions $REFERENCE_DIR"
			}
		case *LLMJudge:
			what = referenceFile(c.Files)
		case *AgentJudge:
			what = referenceFile(c.Files)
		}
		if what != "" {
			d.fail(at, item("success_criteria", i), "%s, and the task has no reference; write reference: {directory: DIR}", what)
		}
	}
}

func referenceFile(files []string) string {
	for _, file := range files {
		if rest, ok := strings.CutPrefix(file, "$REFERENCE_DIR"); ok && (rest == "" || rest[0] == '/' || rest[0] == '\\') {
			return "files has " + quote(file)
		}
	}
	return ""
}

func (t *Task) checkSuites(d *decoder, n *node) {
	if data := n.get("dataset"); data != nil && data.kind != nullNode || t.SuiteID != "" {
		return
	}
	for i, c := range t.SuccessCriteria {
		if c != nil && c.Common().SuiteThresholds != nil {
			d.fail(criterionNode(n, i).get("suite_thresholds"), item("success_criteria", i)+".suite_thresholds", "needs a dataset; the task has none")
		}
	}
}

// checkRoute: the route litellm excludes an enabled agent_judge (task-file 7.15).
func (t *Task) checkRoute(d *decoder, n *node) {
	if t.CheckerContext == nil || t.CheckerContext.APIRoute == nil || t.CheckerContext.APIRoute.Route != "litellm" {
		return
	}
	for i, c := range t.SuccessCriteria {
		if judge, ok := c.(*AgentJudge); ok && judge.Enabled {
			d.fail(criterionNode(n, i), item("success_criteria", i), "an enabled agent_judge cannot use checker_context.api_route litellm")
		}
	}
}

func (r *APIRoute) check(d *decoder, n *node, path string) {
	if r.Route == "litellm" {
		if r.Model == "" {
			d.fail(n, join(path, "model"), "is missing; the route litellm needs a model")
		}
		return
	}
	for _, key := range []string{"params", "env_params"} {
		if p := n.get(key); p != nil && len(p.pairs) > 0 {
			d.fail(p, join(path, key), "belongs to the route litellm only")
		}
	}
}

func (data *Dataset) check(d *decoder, n *node, path string) {
	rows, paths := n.get("rows"), n.get("paths")
	written := func(p *node) bool { return p != nil && p.kind != nullNode }
	switch {
	case written(rows) && written(paths):
		d.fail(paths, join(path, "paths"), "cannot stand beside rows; keep one of them")
	case !written(rows) && !written(paths):
		d.fail(n, path, "has no rows: write rows (a list of mappings) or paths (a list of JSONL files)")
	case written(rows) && rows.kind == listNode && len(rows.items) == 0:
		d.fail(rows, join(path, "rows"), "must not be empty")
	}
}

// decodeNode lets the required keys of a simulation come from any layer while a
// single file is read (task-file 11.2); the resolved task has them all.
func (s *Simulation) decodeNode(d *decoder, n *node, path string) {
	before := d.partial
	d.partial = d.partial || d.loading
	d.structure(n, path, s)
	d.partial = before
	if s.StopOnCriteriaPass && s.CheckCriteria == "end_of_dialog" && !d.partial && !d.loading {
		d.fail(n, join(path, "stop_on_criteria_pass"), "needs check_criteria every_turn or both")
	}
}
