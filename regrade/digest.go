package regrade

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"podgrade/tasks"
	"podgrade/tasks/criteria"
)

// Digests identify what a row is made of (design: Identity).
type Digests struct {
	// Run covers all that the execute phase reads, and never where it stands. With
	// variant and replicate it identifies a row.
	Run string
	// Placed is the same with the directories that the task's files stand in, as
	// podgrade wrote it into rows before it left them out.
	Placed string
	// Task covers everything, and says which criteria a verdict is of.
	Task string
}

// readBy says which phase reads a key of a task: every key that execute reads
// belongs to the run digest. A key of the blocks sandbox.podman and
// sandbox.podman.timeouts is named in full.
var readBy = map[string]bool{ // true: execute
	"task_id": true, "initial_prompt": true, "initial_prompt_file": true, "agent": true, "sandbox": true,
	"run_limits": true, "pre_run": true, "simulation": true, "suite_id": true, "row_id": true,
	"description": false, "tags": false, "skip": false, "success_criteria": false, "reference": false,
	"expected_commands": false, "post_run": false, "dataset": false, "checker_context": false,
	"sandbox.podman.timeouts.grade": false,
}

// inRun tells whether a dotted key belongs to the run digest. What nobody has
// classified does: too much is asked again, never too little.
func inRun(key string) bool {
	for name := key; ; {
		if run, known := readBy[name]; known {
			return run
		}
		at := strings.LastIndexByte(name, '.')
		if at < 0 {
			return true
		}
		name = name[:at]
	}
}

// placeless is the task without the places of this host that loading wrote into it. A
// project that was moved, or stands elsewhere on another host, is the same one: what
// lies in these directories is digested. The name of a Dockerfile chooses one of them.
func placeless(task *tasks.Task) *tasks.Task {
	t := *task
	if file := t.Sandbox.Docker.DockerfilePath; file != "" {
		t.Sandbox.Docker.DockerfilePath = filepath.Base(file)
	}
	t.Sandbox.TemplateSources = slices.Clone(t.Sandbox.TemplateSources)
	for i := range t.Sandbox.TemplateSources {
		if source := &t.Sandbox.TemplateSources[i]; source.Type == tasks.TemplateDir {
			source.Path = "."
		}
	}
	return &t
}

// RunPart returns what the run digest is made of, without the files that the
// task names: the keys whose value is not the default, so that a key that a
// newer podgrade knows changes nothing. A task and the record of its row give
// the same.
func RunPart(task *tasks.Task) (map[string]json.RawMessage, error) {
	return placedPart(placeless(task))
}

// placedPart is the same with the places of this host.
func placedPart(task *tasks.Task) (map[string]json.RawMessage, error) {
	resolved, err := task.MarshalJSON()
	if err != nil {
		return nil, err
	}
	// Read as from a record, which has lost what an author wrote.
	plain, err := tasks.FromRecord(resolved)
	if err != nil {
		return nil, err
	}
	part := map[string]json.RawMessage{}
	for key, origin := range plain.Lineage() {
		if !inRun(key) {
			continue
		}
		if part[key], err = json.Marshal(origin.Value); err != nil {
			return nil, fmt.Errorf("the value of %s: %w", key, err)
		}
	}
	for key, value := range map[string]string{"task_id": plain.TaskID, "suite_id": plain.SuiteID, "row_id": plain.RowID} {
		if value != "" {
			part[key], _ = json.Marshal(value)
		}
	}
	return part, nil
}

// DigestsOf returns the digests of a row, and reads the files that the set-up
// copies: templates, the directory of a Dockerfile, the solution. The task
// directory, which pre_run sees, is not among them: it holds the criteria. What is
// hidden from the row, such as its run, may lie in one of these directories, and is
// no part of it.
func DigestsOf(row tasks.Row, without []string) (Digests, error) {
	part, err := RunPart(row.Task)
	if err != nil {
		return Digests{}, err
	}
	placed, err := placedPart(row.Task)
	if err != nil {
		return Digests{}, err
	}
	list := contents(row)
	for i := range list {
		list[i].read(without)
	}
	whole, err := taskDigest(row.Task)
	return Digests{
		Run:    runDigestOf(part, list, content.says),
		Placed: runDigestOf(placed, list, content.saidBefore),
		Task:   whole,
	}, err
}

func runDigestOf(part map[string]json.RawMessage, list []content, says func(content) string) string {
	sum := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(part)) {
		addPart(sum, key, string(part[key]))
	}
	for _, c := range list {
		addPart(sum, c.name, says(c))
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// taskDigest covers all of a task.
func taskDigest(task *tasks.Task) (string, error) {
	whole, err := task.MarshalJSON()
	sum := sha256.Sum256(whole)
	return hex.EncodeToString(sum[:]), err
}

func addPart(to hash.Hash, key, value string) {
	fmt.Fprintf(to, "%s\x00%s\x00", key, value)
}

// content is something of this host that the set-up reads.
type content struct {
	name, path string
	file       bool
	ignore     []string // what the set-up leaves behind of a directory
	hidden     []string // directories that it leaves out, wherever they lie

	digest string
	err    error // why there is no digest
}

func contents(row tasks.Row) []content {
	var list []content
	sandbox := row.Task.Sandbox
	for i, source := range sandbox.TemplateSources {
		if source.Type == tasks.TemplateDir {
			list = append(list, content{name: fmt.Sprintf("sandbox.template_sources[%d]", i), path: source.Path,
				ignore: criteria.IgnorePatterns(sandbox.IgnorePatterns), hidden: referenceDirs(row)})
		}
	}
	if file := sandbox.Docker.DockerfilePath; file != "" && sandbox.Driver != tasks.DriverTempdir {
		list = append(list, content{name: "sandbox.docker.dockerfile_path", path: filepath.Dir(file)})
	}
	if podman := sandbox.Podman; podman != nil && podman.Solution != "" && row.Task.Agent != nil && row.Task.Agent.Type == tasks.Oracle {
		list = append(list, content{name: "sandbox.podman.solution", path: filepath.Join(row.File.Dir, podman.Solution), file: true})
	}
	return list
}

// read takes the digest of the content.
func (c *content) read(without hidden) {
	if !c.file {
		c.digest, c.err = treeDigest(c.path, c.ignore, append(slices.Clone(without), c.hidden...))
		return
	}
	text, err := readBelow(filepath.Dir(c.path), filepath.Base(c.path), largestScript)
	sum := sha256.Sum256(text)
	c.digest, c.err = hex.EncodeToString(sum[:]), err
}

// says is what a digest takes of the content, or of why there is none, with its place:
// it is not the digest's to refuse it, and two that cannot be read are not the same.
func (c content) says() string {
	if c.err != nil {
		return "unreadable " + c.path + ": " + c.err.Error()
	}
	return c.digest
}

func (c content) saidBefore() string {
	if c.err != nil {
		return "unreadable"
	}
	return c.digest
}
