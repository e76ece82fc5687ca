package regrade_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"podgrade/isolation"
	"podgrade/isolation/testimages"
	"podgrade/isolation/testimages/stored"
	"podgrade/policy"
	"podgrade/regrade"
	"podgrade/tasks"
	"podgrade/tasks/record"
)

// These tests execute rows in real cells and grade them. They need the
// programs in PODGRADE_TEST_BUILD, as engines_test.go says.

// bench is a host with its engines, on which rows are executed.
type bench struct {
	t       *testing.T
	host    *isolation.Host
	engine  string
	options regrade.ExecuteOptions
	notice  bytes.Buffer
	runs    string
}

func newBench(t *testing.T, engine string, images ...testimages.Image) *bench {
	t.Helper()
	b := &bench{t: t, host: startEngines(t, engine), engine: engine, runs: t.TempDir()}
	for _, image := range images {
		if _, err := stored.Put(t.Context(), b.host, image); err != nil {
			t.Fatal(err)
		}
	}
	b.options = regrade.ExecuteOptions{
		Start:  func(context.Context) (regrade.Engines, error) { return shared{b.host}, nil },
		Notice: &b.notice, Lookup: func(string) (string, bool) { return "", false }, Version: "9.9.9",
	}
	return b
}

// row is an executed row.
type executedRow struct {
	bench *bench
	dir   string
	*regrade.Executed
}

// load resolves a task file as `run` does.
func load(t *testing.T, file string, request tasks.Request) tasks.Row {
	t.Helper()
	resolution, err := (&tasks.Loader{}).Rows([]string{file}, request)
	if err != nil {
		t.Fatal(err)
	}
	for _, skipped := range resolution.Skipped {
		t.Fatal(skipped.Reason)
	}
	if len(resolution.Rows) == 0 {
		t.Fatal("no row")
	}
	return resolution.Rows[0]
}

// write writes a task file of its text, and what lies beside it.
func write(t *testing.T, text string, beside map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range beside {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "task.yaml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// executes executes a row, which must get a record.
func (b *bench) executes(row tasks.Row) *executedRow {
	b.t.Helper()
	made, err := b.try(b.t.Context(), row)
	if err != nil {
		b.t.Fatalf("%v\n%s", err, &b.notice)
	}
	return made
}

func (b *bench) try(ctx context.Context, row tasks.Row) (*executedRow, error) {
	b.t.Helper()
	run, err := os.MkdirTemp(b.runs, "run")
	if err != nil {
		b.t.Fatal(err)
	}
	job := regrade.Job{Row: row}
	dir, err := record.Create(run, job.Identity())
	if err != nil {
		b.t.Fatal(err)
	}
	defer dir.Close()
	made, err := regrade.Execute(ctx, dir, job, b.options)
	return &executedRow{b, dir.Dir, made}, err
}

// grades grades the row as `run` does.
func (r *executedRow) grades() *regrade.Verdict {
	t := r.bench.t
	t.Helper()
	row, err := record.OpenRow(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer row.Close()
	verdict, err := regrade.Grade(t.Context(), row, regrade.Options{
		Answer: policy.Answer{TaskFile: true}, Network: regrade.NetworkNone,
		Start: r.bench.options.Start, Notice: &r.bench.notice, Lookup: r.bench.options.Lookup, Version: "9.9.9",
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, &r.bench.notice)
	}
	return verdict
}

func (r *executedRow) file(name string) string {
	r.bench.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.dir, name))
	if err != nil {
		r.bench.t.Fatal(err)
	}
	return string(text)
}

// stamps are those of the record on the disk.
func (r *executedRow) stamps() string {
	r.bench.t.Helper()
	made, err := record.Parse([]byte(r.file(record.TaskFile)))
	if err != nil {
		r.bench.t.Fatal(err)
	}
	regrade.FollowsSchema(r.bench.t, r.file(record.TaskFile))
	var all []string
	for _, s := range record.Stamps(made.Environment) {
		all = append(all, s.Name+"="+string(s.Value))
	}
	return strings.Join(all, " ")
}

// succeeds demands that the row was executed well, and that its grade is
// SUCCESS with all points and no stamp.
func (r *executedRow) succeeds() {
	t := r.bench.t
	t.Helper()
	if r.Status != record.NotGraded || !r.Gradable {
		t.Fatalf("executed: %s, %s\n%s", r.Status, r.Message, r.file(record.TaskLog))
	}
	verdict := r.grades()
	if verdict.Status != record.Success || verdict.Score != 1 || r.stamps() != "" {
		t.Errorf("graded: %s %.3f, stamps %q\n%s\n%s", verdict.Status, verdict.Score, r.stamps(), r.file(record.TaskLog), r.file(record.GradeLog))
	}
}

func TestARowIsExecutedAndGraded(t *testing.T) {
	for _, engine := range []string{isolation.EngineBundle, isolation.EnginePodman} {
		t.Run(engine, func(t *testing.T) {
			b := newBench(t, engine, testimages.BYOD())
			started := time.Now()
			command, err := tasks.ParseOverride("agent.command=tee said.txt")
			if err != nil {
				t.Fatal(err)
			}
			r := b.executes(load(t, smokeTask, tasks.Request{Layers: tasks.Layers{Type: tasks.CommandLine, Overrides: []tasks.Override{command}}}))
			t.Logf("executed in %v", time.Since(started))
			info := r.Record.Environment
			for _, key := range []string{record.Version, record.ImageID, record.Platform, record.RunDigest, record.TaskDigest, record.WorkspaceDigest, record.WorkspaceTimes, record.SpecSHA256} {
				if info.Text(key) == "" {
					t.Errorf("the record holds no %s", key)
				}
			}
			// A row that changes nothing keeps nothing.
			if got := info.Text(record.State); got != record.StateUnchanged {
				t.Errorf("the state is %q, want %q", got, record.StateUnchanged)
			}
			if got := info.Text(record.Engine); got != engine {
				t.Errorf("the engine is %q", got)
			}
			for _, name := range []string{record.TaskLog, record.ContainerLog, record.ExecuteCellFile} {
				r.file(name)
			}
			r.succeeds()
		})
	}
}

// An agent that closes its workspace has a row without points, not one that
// cannot be graded.
func TestAClosedWorkspaceIsGraded(t *testing.T) {
	b := newBench(t, isolation.EngineBundle, testimages.BYOD())
	command, err := tasks.ParseOverride("agent.command=chmod 0 .")
	if err != nil {
		t.Fatal(err)
	}
	r := b.executes(load(t, smokeTask, tasks.Request{Layers: tasks.Layers{Type: tasks.CommandLine, Overrides: []tasks.Override{command}}}))
	if r.Status != record.NotGraded || !r.Gradable {
		t.Fatalf("executed: %s, %s\n%s", r.Status, r.Message, r.file(record.TaskLog))
	}
	if verdict := r.grades(); verdict.Status != record.Failure || verdict.Score != 0 {
		t.Errorf("graded: %s %.3f", verdict.Status, verdict.Score)
	}
}
