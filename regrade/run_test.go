package regrade

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"podgrade/isolation"
	"podgrade/policy"
	"podgrade/tasks"
	"podgrade/tasks/record"
)

// runCase runs rows of task files, with fake engines and an agent that writes
// what it was asked.
type runCase struct {
	category string // of the errors of agents that worked; "": none is recorded
	t        *testing.T
	files    []string // names, each with text
	texts    map[string]string
	fake     *fakeEngines
	o        RunOptions

	mu       sync.Mutex
	executed []string // labels
	events   []Event
	notice   bytes.Buffer
	// agent, when set, ends a row otherwise than by writing.
	agent func(label string) (record.Status, int, error)
	// signWith, when set, signs rows as execute does.
	signWith *policy.Keys
}

const taskText = `task_id: %s
description: d
initial_prompt: %s
agent: {type: command, command: "cat > said"}
sandbox: {driver: docker, docker: {image: "byod-custom-image:0.1.0", network: none}, podman: {caps: none}}
success_criteria:
  - {type: file_contains, path: said, includes: [%q], description: d}
`

// newRun has a task for each name, whose agent writes its own name, which is
// what the criterion wants.
func newRun(t *testing.T, names ...string) *runCase {
	t.Helper()
	dir := t.TempDir()
	c := &runCase{t: t, fake: newFake(), texts: map[string]string{}}
	for _, name := range names {
		c.write(name, name, name)
	}
	t.Chdir(dir)
	run, err := record.NewRunDir(filepath.Join(dir, "run"), true)
	if err != nil {
		t.Fatal(err)
	}
	c.o = RunOptions{
		Dir: run, Grade: true, Parallel: 2,
		Execute: ExecuteOptions{
			Start: c.fake.start, Notice: &c.notice, Version: "9.9.9",
			Lookup: func(string) (string, bool) { return "", false },
		},
		Grading: Options{Lookup: func(string) (string, bool) { return "", false }, Version: "9.9.9"},
		Observe: func(e Event) { c.events = append(c.events, e) },
		execute: c.execute,
	}
	return c
}

// write sets a task: what it asks for, and what its criterion wants.
func (c *runCase) write(name, prompt, wants string) {
	if c.texts[name] == "" {
		c.files = append(c.files, name)
	}
	c.texts[name] = fmt.Sprintf(taskText, name, prompt, wants)
}

// jobs are the rows of the files.
func (c *runCase) jobs() []Job {
	c.t.Helper()
	var paths []string
	for _, name := range c.files {
		path := name + ".yaml"
		if err := os.WriteFile(path, []byte(c.texts[name]), 0o644); err != nil {
			c.t.Fatal(err)
		}
		paths = append(paths, path)
	}
	made, err := (&tasks.Loader{}).Rows(paths, tasks.Request{})
	if err != nil || len(made.Skipped) > 0 {
		c.t.Fatal(err, made)
	}
	var jobs []Job
	for _, row := range made.Rows {
		jobs = append(jobs, Job{Row: row})
	}
	return jobs
}

// execute stands in for the agent's phase: the rest is what Run does.
func (c *runCase) execute(ctx context.Context, row *record.Row, job Job, o ExecuteOptions) (*Executed, error) {
	label := job.Identity().String()
	c.mu.Lock()
	c.executed = append(c.executed, label)
	c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	status, iterations := record.NotGraded, 1
	if c.agent != nil {
		var err error
		if status, iterations, err = c.agent(label); err != nil {
			return nil, err
		}
	}
	workspace := filepath.Join(row.Dir, record.ArtifactsDir, job.Row.Task.TaskID)
	if err := os.MkdirAll(filepath.Dir(workspace), 0o755); err != nil {
		return nil, err
	}
	if err := os.Mkdir(workspace, 0o755); err != nil {
		return nil, err // something of an earlier execution is there
	}
	if err := os.WriteFile(filepath.Join(workspace, "said"), []byte(job.Row.Task.InitialPrompt), 0o644); err != nil {
		return nil, err
	}
	rec, err := c.recordOf(job, workspace, status, iterations)
	if err != nil {
		return nil, err
	}
	if err := row.Write(record.TaskFile, rec.Bytes()); err != nil {
		return nil, err
	}
	if c.signWith != nil {
		text, err := executedStatement(nameOfRow(row, job.Identity()), rec, "9.9.9")
		if err == nil {
			text, err = c.signWith.Sign(text)
		}
		if err == nil {
			err = row.Write(record.ExecuteEnvelope, text)
		}
		if err != nil {
			return nil, err
		}
	}
	return &Executed{Row: job.Identity(), Status: status, Gradable: status != record.BuildFailed, Record: rec}, nil
}

func (c *runCase) recordOf(job Job, workspace string, status record.Status, iterations int) (*record.Record, error) {
	task := job.Row.Task
	config, err := record.NewTaskConfig(task, job.Row.File.Source, absolute(job.Row.File.Path))
	if err != nil {
		return nil, err
	}
	digests, err := DigestsOf(job.Row, nil)
	if err != nil {
		return nil, err
	}
	info := record.NewObject()
	info.Set(record.Version, "9.9.9")
	info.Set(record.Image, "byod-custom-image:0.1.0")
	info.Set(record.ImageID, imageID)
	info.Set(record.RunDigest, digests.Run)
	info.Set(record.TaskDigest, digests.Task)
	if c.signWith != nil {
		info.Set(record.WorkspaceDigest, "sha256:tree") // the fake's
		info.Set(record.WorkspaceTimes, "sha256:times")
	}
	e := record.Execution{
		TaskID: task.TaskID, Description: task.Description, VariantID: job.Row.Variant, AgentType: task.Agent.Type,
		Started: time.Now(), Completed: time.Now(), Status: status, Iterations: iterations,
		Environment: info, SandboxPath: workspace, TaskConfig: config,
	}
	if category := cmp.Or(c.category, record.CategoryInfrastructure); status == record.Error && (iterations == 0 || c.category != "") {
		e.ErrorMessage = "the cell was killed"
		e.ErrorDetails = &record.ErrorDetails{Category: category, Message: e.ErrorMessage}
	}
	return record.New(e)
}

// run runs, and expects an exit code and these rows to be executed.
func (c *runCase) run(code int, executed ...string) *RunResult {
	c.t.Helper()
	result, err := c.try()
	if err != nil {
		c.t.Fatalf("run: %v", err)
	}
	if got := result.ExitCode(); got != code {
		c.t.Errorf("exit code %d, want %d; %s", got, code, c.notice.String())
	}
	slices.Sort(c.executed)
	if !slices.Equal(c.executed, executed) {
		c.t.Errorf("executed %q, want %q", c.executed, executed)
	}
	if c.fake.started != c.fake.closed {
		c.t.Errorf("engines started %d times, closed %d times", c.fake.started, c.fake.closed)
	}
	return result
}

func (c *runCase) try() (*RunResult, error) {
	c.executed, c.events = nil, nil
	return Run(c.t.Context(), c.jobs(), c.o)
}

// refused expects that nothing is begun.
func (c *runCase) refused(kind Kind, texts ...string) {
	c.t.Helper()
	_, err := c.try()
	if err == nil || KindOf(err) != kind {
		c.t.Fatalf("%s: %v", KindOf(err), err)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			c.t.Errorf("%q does not say %q", err, text)
		}
	}
	if len(c.executed) > 0 || len(c.events) > 0 {
		c.t.Errorf("begun: %q, %v", c.executed, c.events)
	}
}

func (c *runCase) row(name string) string { return filepath.Join(c.o.Dir, "default", name, "00") }

func (c *runCase) record(name string) *record.Record {
	c.t.Helper()
	row, err := record.OpenRow(c.row(name))
	if err != nil {
		c.t.Fatal(err)
	}
	defer row.Close()
	r, _, err := row.Read()
	if err != nil {
		c.t.Fatalf("%s: %v", name, err)
	}
	return r
}

// is checks the status of a row and whether it has a score.
func (c *runCase) is(name string, status record.Status, score float64) {
	c.t.Helper()
	r := c.record(name)
	if r.Status != status || (r.Score == nil) != (score < 0) || r.Score != nil && *r.Score != score {
		c.t.Errorf("%s: %s %v, want %s %v", name, r.Status, r.Score, status, score)
	}
}

// count is how many events of a kind there were.
func (c *runCase) count(kind EventKind) int {
	n := 0
	for _, e := range c.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

func labels(names ...string) []string {
	var list []string
	for _, name := range names {
		list = append(list, "default/"+name+"/00")
	}
	return list
}

func TestRunExecutesAndGradesEachRow(t *testing.T) {
	c := newRun(t, "a", "b", "c")
	c.write("c", "c", "something else")
	result := c.run(ExitFailed, labels("a", "b", "c")...)
	c.is("a", record.Success, 1)
	c.is("c", record.Failure, 0)
	if c.fake.started != 1 || len(c.fake.cells) != 3 {
		t.Errorf("%d starts, %d cells", c.fake.started, len(c.fake.cells))
	}
	for kind, n := range map[EventKind]int{RowStarted: 3, RowExecuted: 3, RowGrading: 3, RowGraded: 3, RowFailed: 0} {
		if c.count(kind) != n {
			t.Errorf("%s: %d times", kind, c.count(kind))
		}
	}
	last := 0
	for _, e := range c.events {
		if e.Last {
			last++
		}
	}
	if last != 3 || len(result.Summary.Rows) != 3 {
		t.Errorf("%d last events, %d rows", last, len(result.Summary.Rows))
	}
	if text, err := os.ReadFile(filepath.Join(c.o.Dir, record.RunFile)); err != nil || !strings.Contains(string(text), `"tasks_succeeded": 2`) {
		t.Errorf("%v: %s", err, text)
	}
}

// TestExecuteLeavesRowsUngraded: no cell of a grade, exit code 0.
func TestExecuteLeavesRowsUngraded(t *testing.T) {
	c := newRun(t, "a", "b")
	c.o.Grade = false
	c.run(ExitPassed, labels("a", "b")...)
	c.is("a", record.NotGraded, -1)
	if len(c.fake.cells) != 0 || c.count(RowGraded) != 0 {
		t.Errorf("%d cells", len(c.fake.cells))
	}
	c.o.Resume = true
	c.run(ExitPassed) // NOT_GRADED is finished, for execute
	if c.count(RowKept) != 2 {
		t.Errorf("%v", c.events)
	}
	c.o.Grade = true
	c.run(ExitPassed) // and owes a grade, for run
	c.is("b", record.Success, 1)
	c.run(ExitPassed)
	if c.count(RowKept) != 2 {
		t.Errorf("%v", c.events)
	}
}

// TestResumePartition is the table of spec/regrade.md 1.3 and spec/cli.md 4.1.
func TestResumePartition(t *testing.T) {
	score := 0.0
	for _, test := range []struct {
		name         string
		status       record.Status
		score        *float64
		results      int
		iterations   int
		execute, run due
	}{
		{"not graded", record.NotGraded, nil, 0, 1, dueNothing, dueGrade},
		{"not graded, no agent phase", record.NotGraded, nil, 0, 0, dueNothing, dueGrade},
		{"success", record.Success, &score, 1, 1, dueNothing, dueNothing},
		{"failure", record.Failure, &score, 1, 1, dueNothing, dueNothing},
		{"failure without results", record.Failure, &score, 0, 1, dueNothing, dueNothing},
		{"results without a score", record.Error, nil, 1, 1, dueNothing, dueNothing},
		{"cap", record.MaxTurnsExhausted, &score, 1, 1, dueNothing, dueNothing},
		{"time-out of execute", record.Timeout, nil, 0, 1, dueNothing, dueGrade},
		{"time-out of run", record.Timeout, &score, 0, 1, dueNothing, dueNothing},
		{"budget", record.TokenBudgetExceeded, nil, 0, 2, dueNothing, dueGrade},
		{"crash of execute", record.Error, nil, 0, 1, dueNothing, dueGrade},
		{"dead cell", record.Error, nil, 0, 0, dueNothing, dueNothing},
		{"failed build", record.BuildFailed, nil, 0, 0, dueNothing, dueNothing},
	} {
		r := &record.Record{Status: test.status, Score: test.score, Results: test.results, Iterations: test.iterations}
		if got := dueOf(r, false); got != test.execute {
			t.Errorf("%s: execute does %d", test.name, got)
		}
		if got := dueOf(r, true); got != test.run {
			t.Errorf("%s: run does %d", test.name, got)
		}
	}
}

// TestResumeRunsWhatIsNotThere: records that are gone, or are none, run again.
func TestResumeRunsWhatIsNotThere(t *testing.T) {
	c := newRun(t, "a", "b", "c", "d")
	c.run(ExitPassed, labels("a", "b", "c", "d")...)
	c.o.Resume = true
	for name, text := range map[string]string{"b": "{\"task_id\": \"b\"", "c": "{}"} {
		if err := os.WriteFile(filepath.Join(c.row(name), record.TaskFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(c.row("d"), record.TaskFile)); err != nil {
		t.Fatal(err)
	}
	var found Found
	c.o.Found = func(f Found) { found = f }
	c.run(ExitPassed, labels("b", "c", "d")...)
	if found != (Found{Rows: 4, Execute: 3, Finished: 1, Cleared: 3}) {
		t.Errorf("%+v", found)
	}
	if text, err := os.ReadFile(filepath.Join(c.row("b"), record.MalformedFile)); err != nil || !strings.HasPrefix(string(text), `{"task_id"`) {
		t.Errorf("%v: %s", err, text)
	}
	c.is("b", record.Success, 1)
}

// TestResumeFollowsNoLink: what an earlier execution left may be a trap.
func TestResumeFollowsNoLink(t *testing.T) {
	c := newRun(t, "a")
	victim := t.TempDir()
	if err := os.WriteFile(filepath.Join(victim, "keep"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(c.row("a"), 0o755), os.Symlink(victim, filepath.Join(c.row("a"), record.ArtifactsDir))); err != nil {
		t.Fatal(err)
	}
	c.o.Resume = true
	c.run(ExitPassed, labels("a")...)
	if _, err := os.Stat(filepath.Join(victim, "keep")); err != nil {
		t.Error("the link was followed")
	}
	if len(c.fake.emptied) != 0 {
		t.Errorf("emptied %q", c.fake.emptied)
	}
}

// TestRecordsThatAreNoFilesAreLeft: a link, a pipe or a directory in the place
// of a record is a clear error of its row, and the others go on.
func TestRecordsThatAreNoFilesAreLeft(t *testing.T) {
	c := newRun(t, "link", "pipe", "dir", "fine")
	c.o.Resume = true
	elsewhere := filepath.Join(t.TempDir(), "elsewhere.json")
	for _, name := range []string{"link", "pipe", "dir"} {
		path := filepath.Join(c.row(name), record.TaskFile)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		switch name {
		case "link":
			err = errors.Join(err, os.WriteFile(elsewhere, []byte("{}"), 0o644), os.Symlink(elsewhere, path))
		case "pipe":
			err = errors.Join(err, syscall.Mkfifo(path, 0o644))
		case "dir":
			err = errors.Join(err, os.Mkdir(path, 0o755))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	result := c.run(ExitFailed, labels("fine")...)
	for i, name := range []string{"link", "pipe", "dir"} {
		if err := result.Rows[i].Err; err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: %v", name, err)
		}
		if info, err := os.Lstat(filepath.Join(c.row(name), record.TaskFile)); err != nil || info.Mode().IsRegular() {
			t.Errorf("%s: %v %v", name, info, err)
		}
	}
	c.is("fine", record.Success, 1)
}

// TestIdentityIsNotThePosition: files in another order, a new one in front and
// one less move no verdict to another task.
func TestIdentityIsNotThePosition(t *testing.T) {
	c := newRun(t, "a", "b", "c")
	c.write("b", "b", "something else")
	c.run(ExitFailed, labels("a", "b", "c")...)
	before := c.record("b").Bytes()
	c.o.Resume = true
	c.write("new", "new", "new")
	c.files = []string{"new", "c", "b"}
	result := c.run(ExitFailed, labels("new")...)
	c.is("b", record.Failure, 0)
	c.is("c", record.Success, 1)
	if !bytes.Equal(before, c.record("b").Bytes()) {
		t.Error("a finished row was written")
	}
	for i, name := range c.files {
		if row := result.Summary.Rows[i]; row.TaskID != name {
			t.Errorf("row %d is %s", i, row.TaskID)
		}
	}
}

// TestChangedCriteriaAreGradedAnew without running the agent again.
func TestChangedCriteriaAreGradedAnew(t *testing.T) {
	c := newRun(t, "a", "b")
	c.run(ExitPassed, labels("a", "b")...)
	c.o.Resume = true
	c.write("a", "a", "something else")
	c.run(ExitFailed)
	c.is("a", record.Failure, 0)
	c.is("b", record.Success, 1)
	if c.count(RowGraded) != 1 || c.count(RowKept) != 1 {
		t.Errorf("%v", c.events)
	}
	config, err := c.record("a").TaskConfig()
	if err != nil || !strings.Contains(config.SourceYAML, "something else") {
		t.Errorf("the record holds the old task: %v", err)
	}
	c.run(ExitFailed) // once
	if c.count(RowKept) != 2 {
		t.Errorf("%v", c.events)
	}
}

// TestAChangedPromptIsRefusedByName, and runs again when that is asked for.
func TestAChangedPromptIsRefusedByName(t *testing.T) {
	c := newRun(t, "a", "b")
	c.run(ExitPassed, labels("a", "b")...)
	c.o.Resume = true
	c.write("a", "another", "another")
	before := c.record("a").Bytes()
	c.refused(Refused, "default/a/00", "initial_prompt", "--rerun-changed")
	if !bytes.Equal(before, c.record("a").Bytes()) {
		t.Error("the record was changed")
	}
	c.o.RerunChanged = true
	c.run(ExitPassed, labels("a")...)
	c.is("a", record.Success, 1)
	if _, err := os.Stat(filepath.Join(c.row("a"), record.ExecuteFile)); err != nil {
		t.Error(err)
	}
	c.o.RerunChanged = false
	c.run(ExitPassed)
}

func TestRetry(t *testing.T) {
	c := newRun(t, "infra", "build", "fine")
	c.agent = func(label string) (record.Status, int, error) {
		switch {
		case strings.Contains(label, "infra"):
			return record.Error, 0, nil
		case strings.Contains(label, "build"):
			return record.BuildFailed, 0, nil
		}
		return record.NotGraded, 1, nil
	}
	c.run(ExitFailed, labels("build", "fine", "infra")...)
	c.o.Resume = true
	c.run(ExitFailed) // failures are not retried unless that is asked for
	c.o.Retry = RetryInfra
	c.run(ExitFailed, labels("infra")...)
	c.o.Retry = RetryError
	c.agent = nil
	c.run(ExitPassed, labels("build", "infra")...)
}

// TestAnExecutionFactStays, and the row gets its real score under run.
func TestAnExecutionFactStays(t *testing.T) {
	c := newRun(t, "a")
	c.agent = func(string) (record.Status, int, error) { return record.Timeout, 1, nil }
	c.run(ExitFailed, labels("a")...)
	c.is("a", record.Timeout, 1)
}

// TestARowThatFailsAbortsNothing: not by an error, and not by a defect.
func TestARowThatFailsAbortsNothing(t *testing.T) {
	c := newRun(t, "a", "b", "c")
	c.agent = func(label string) (record.Status, int, error) {
		switch {
		case strings.Contains(label, "/a/"):
			return "", 0, errors.New("the disk is gone")
		case strings.Contains(label, "/b/"):
			panic("a defect")
		}
		return record.NotGraded, 1, nil
	}
	result := c.run(ExitFailed, labels("a", "b", "c")...)
	c.is("c", record.Success, 1)
	for i, text := range []string{"the disk is gone", "a defect"} {
		if err := result.Rows[i].Err; err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v", err)
		}
		if row := result.Summary.Rows[i]; row.Status != record.Error {
			t.Errorf("%+v", row)
		}
	}
	if c.count(RowFailed) != 2 {
		t.Errorf("%v", c.events)
	}
	c.agent = nil
	c.o.Resume = true
	c.run(ExitPassed, labels("a", "b")...)
}

// TestAGradeThatFailsLeavesTheRowUngraded and the others graded.
func TestAGradeThatFailsLeavesTheRowUngraded(t *testing.T) {
	c := newRun(t, "a", "b")
	c.o.Grade = false
	c.run(ExitPassed, labels("a", "b")...)
	c.o.Grade, c.o.Resume = true, true
	if err := os.RemoveAll(filepath.Join(c.row("a"), record.ArtifactsDir)); err != nil {
		t.Fatal(err)
	}
	result := c.run(ExitFailed)
	c.is("a", record.NotGraded, -1)
	c.is("b", record.Success, 1)
	if result.Rows[0].Err == nil || c.count(RowGraded) != 1 || c.count(RowFailed) != 1 {
		t.Errorf("%v, %v", result.Rows[0].Err, c.events)
	}
	if text, _ := os.ReadFile(filepath.Join(c.o.Dir, record.RunFile)); !strings.Contains(string(text), "find the workspace") {
		t.Errorf("%s does not say why: %s", record.RunFile, text)
	}
}

// TestInterruptedRunCanBeResumed: 130, and each row is run in the end.
func TestInterruptedRunCanBeResumed(t *testing.T) {
	c := newRun(t, "a", "b", "c", "d")
	c.o.Parallel = 1
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	c.agent = func(string) (record.Status, int, error) {
		if n++; n == 2 {
			cancel()
			return "", 0, ctx.Err()
		}
		return record.NotGraded, 1, nil
	}
	result, err := Run(ctx, c.jobs(), c.o)
	if err != nil || result.ExitCode() != ExitInterrupted || len(c.executed) != 2 {
		t.Fatalf("%v, executed %q", err, c.executed)
	}
	c.agent = nil
	c.o.Resume = true
	c.run(ExitPassed, labels("b", "c", "d")...)
}

// TestRunRefuses what it can know before anything is begun.
func TestRunRefuses(t *testing.T) {
	c := newRun(t, "a", "b")
	right := c.texts["b"]
	c.texts["b"] = strings.Replace(right, "{type: command, command: \"cat > said\"}", "{type: codex}", 1)
	c.refused(Refused, "b.yaml", "codex", "--type command")
	c.texts["b"] = strings.Replace(right, "success_criteria:", "reference: {directory: nowhere}\nsuccess_criteria:", 1)
	c.refused(Refused, "b.yaml", "nowhere")
	c.texts["b"] = strings.Replace(right, `"cat > said"}`, `"cat > said", prompt: argument}`, 1)
	c.texts["b"] = strings.Replace(c.texts["b"], "initial_prompt: b", "initial_prompt: "+strings.Repeat("b", 128<<10), 1)
	c.refused(Refused, "b.yaml", "initial_prompt", "prompt: stdin")
	recorded := `network: none}, record_cli: [{tool: x, stdout: "` + strings.Repeat("b", 97<<10) + `"}]`
	c.texts["b"] = strings.Replace(right, "network: none}", recorded, 1)
	c.refused(Refused, "b.yaml", "sandbox.record_cli", "shorten it")
	c.texts["b"] = right
	c.run(ExitPassed, labels("a", "b")...)
	c.refused(User, "--resume")
}

// TestAResumeRefusesGradesBeforeItRunsRows: what the policy file denies to a grade is
// found before an agent works for nothing, of rows that owe a grade and of those that
// are still to be executed.
func TestAResumeRefusesGradesBeforeItRunsRows(t *testing.T) {
	for name, executed := range map[string][]string{"rows that owe a grade": {"a"}, "rows to execute": nil, "some of both": {"b"}} {
		t.Run(name, func(t *testing.T) {
			c := newRun(t, "a", "b")
			for _, file := range c.files {
				c.texts[file] = strings.Replace(c.texts[file], "type: file_contains, path: said, includes: [\""+file+"\"]", `type: run_command, command: "true"`, 1)
			}
			all := c.files
			c.o.Grade, c.files = false, executed
			c.run(ExitPassed, labels(executed...)...)
			c.o.Grade, c.o.Resume, c.files = true, true, all
			c.o.Grading.AllowHost = true
			denied := policyFile(t, "deny: {host_commands: all}\n")
			c.o.Grading.Answer.Policy, c.o.Execute.Policy = denied, denied
			c.refused(Refused, "a.yaml", "b.yaml", "true")
			c.o.Grading.AllowHost = false
			c.run(ExitPassed, labels(slices.DeleteFunc([]string{"a", "b"}, func(name string) bool { return slices.Contains(executed, name) })...)...)
		})
	}
}

func TestTwoRunsDoNotShareADirectory(t *testing.T) {
	c := newRun(t, "a")
	unlock, err := lockRun(c.o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	c.refused(Refused, "another podgrade")
	unlock()
	c.run(ExitPassed, labels("a")...)
}

// TestAReadOnlyRunDirectory: nothing can be written, and that is said.
func TestAReadOnlyRunDirectory(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Fatal("run this as an ordinary user")
	}
	c := newRun(t, "a")
	if err := os.Chmod(c.o.Dir, 0o555); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(c.o.Dir, 0o755)
	result := c.run(ExitFailed)
	if err := result.Rows[0].Err; err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("%v", err)
	}
}

// TestAReportThatWasNotWrittenIsNotNamed: nobody is sent to a page that is not
// there, and the rows are what they came to.
func TestAReportThatWasNotWrittenIsNotNamed(t *testing.T) {
	c := newRun(t, "a")
	if !c.run(ExitPassed, labels("a")...).Reported {
		t.Error("the report is not called written")
	}
	c = newRun(t, "a")
	if err := os.Mkdir(filepath.Join(c.o.Dir, record.RunPage), 0o755); err != nil {
		t.Fatal(err)
	}
	if c.run(ExitPassed, labels("a")...).Reported || !strings.Contains(c.notice.String(), "the report could not be written") {
		t.Errorf("the report is called written: %s", &c.notice)
	}
	c.is("a", record.Success, 1)
}

// TestAPrunedImageLeavesRowsUngraded: infrastructure is no verdict.
func TestAPrunedImageLeavesRowsUngraded(t *testing.T) {
	c := newRun(t, "a", "b")
	c.fake.layers = fmt.Errorf("layer gone: %w", isolation.ErrNoImage)
	c.run(ExitFailed, labels("a", "b")...)
	c.is("a", record.NotGraded, -1)
	c.fake.layers = nil
	c.o.Resume = true
	c.run(ExitPassed)
	c.is("a", record.Success, 1)
}
