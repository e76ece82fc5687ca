package regrade_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"podgrade/isolation"
	"podgrade/isolation/testimages"
	"podgrade/regrade"
	"podgrade/tasks"
	"podgrade/tasks/record"
)

// small is a task in the busybox image; rest goes on with its keys, at the top.
func small(rest string) string {
	return "task_id: small\ndescription: a small task\n" + rest + `
success_criteria:
  - {type: file_exists, path: ., description: there is a workspace}
`
}

const sealedBusybox = `sandbox: {driver: docker, docker: {image: "localhost/podgrade-test/busybox:1", network: none}}
`

func agentOf(line string) string {
	return fmt.Sprintf("initial_prompt: go\nagent: {type: command, command: %q}\n", line)
}

// ended is what is expected of a row that did not end well.
type ended struct {
	status    record.Status
	category  string
	component string
	gradable  bool
	message   string
}

// replace changes text of a file of the row, where it is there.
func (r *executedRow) replace(name, old, new string) {
	r.bench.t.Helper()
	text := strings.ReplaceAll(r.file(name), old, new)
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o644); err != nil {
		r.bench.t.Fatal(err)
	}
}

func (r *executedRow) endedAs(want ended) {
	t := r.bench.t
	t.Helper()
	details := r.Record.Get(record.FieldErrorDetails)
	var got struct {
		Category  string `json:"error_category"`
		Component string `json:"component"`
	}
	if err := details.Decode(&got); err != nil {
		t.Fatalf("error_details %s: %v", details, err)
	}
	tail, _ := r.Record.Get(record.FieldErrorLogTail).Text()
	if r.Status != want.status || got.Category != want.category || got.Component != want.component || r.Gradable != want.gradable ||
		!strings.Contains(r.Message, want.message) || tail == "" || r.Record.Score != nil {
		t.Errorf("%s %+v gradable %v: %s\ntail %q\nwant %+v", r.Status, got, r.Gradable, r.Message, tail, want)
	}
	if text := r.file(record.TaskFile); !strings.Contains(text, string(want.status)) {
		t.Error("the record on the disk says otherwise")
	}
}

// TestHowARowEnds: each way in which an execute does not end well.
func TestHowARowEnds(t *testing.T) {
	b := newBench(t, isolation.EngineBundle, testimages.Busybox())
	for name, c := range map[string]struct {
		text   string
		beside map[string]string
		change func(*tasks.Task)
		want   ended
	}{
		"the agent fails": {
			text: agentOf("echo half >half.txt; exit 3") + sealedBusybox,
			want: ended{record.Error, record.CategoryAgent, record.ComponentIteration, true, "exit code 3"},
		},
		"the agent is killed": {
			text: agentOf("kill -9 $$") + sealedBusybox,
			want: ended{record.Error, record.CategoryAgent, record.ComponentIteration, true, "exit code 137"},
		},
		"the agent takes its directory away": {
			text: agentOf("cd / && rm -r /srv && echo x >/srv") + strings.Replace(sealedBusybox, "network: none", "network: none, working_dir: /srv/here", 1),
			want: ended{record.Error, record.CategoryAgent, record.ComponentIteration, false, "not a directory"},
		},
		"the turn takes too long": {
			text: agentOf("echo begun >begun.txt; (sleep 60 &) ; sleep 60") + sealedBusybox, change: func(t *tasks.Task) { t.RunLimits.TurnTimeout, t.RunLimits.TaskTimeout = 1, 30 },
			want: ended{record.Error, record.CategoryTimeout, record.ComponentIteration, true, "turn_timeout"},
		},
		"D-16: the task takes too long": {
			text: agentOf("sleep 60") + sealedBusybox, change: func(t *tasks.Task) { t.RunLimits.TurnTimeout, t.RunLimits.TaskTimeout = 30, 1 },
			want: ended{record.Timeout, record.CategoryTimeout, record.ComponentTaskTimeout, true, "task_timeout"},
		},
		"pre_run fails": {
			text:   agentOf("true") + sealedBusybox + "pre_run: [{command: 'true'}, {command: 'cp \"$TASK_DIR/answer.txt\" /opt/copy; echo trouble >&2; exit 4'}, {command: 'true'}]",
			beside: map[string]string{"answer.txt": "42\n"},
			want:   ended{record.Error, record.CategorySetup, record.ComponentSetup, false, "pre_run 2"},
		},
		"pre_run takes too long": {
			text: agentOf("true") + sealedBusybox + "pre_run: [{command: sleep 60, timeout: 1}]",
			want: ended{record.Error, record.CategorySetup, record.ComponentSetup, false, "time-out"},
		},
		"a template is not there": {
			text: agentOf("true") + strings.Replace(sealedBusybox, "driver", "template_sources: [{type: template_dir, path: nowhere}], driver", 1),
			want: ended{record.Error, record.CategorySetup, record.ComponentSetup, false, "nowhere"},
		},
		"a program of the set-up is not there": {
			text: agentOf("true") + strings.Replace(sealedBusybox, "driver", "template_sources: [{type: repo, url: /srv/r}], driver", 1),
			want: ended{record.Error, record.CategorySetup, record.ComponentSetup, false, "no git"},
		},
		"packages and no python": {
			text: agentOf("true") + strings.Replace(sealedBusybox, "driver", "python: {env_packages: [x]}, driver", 1),
			want: ended{record.Error, record.CategorySetup, record.ComponentSetup, false, "virtual environment"},
		},
		"a build fails": {
			text:   agentOf("true") + "sandbox: {driver: docker, docker: {dockerfile_path: Dockerfile, network: none}}\n",
			beside: map[string]string{"Dockerfile": "FROM localhost/podgrade-test/busybox:1\nRUN echo no such luck && false\n"},
			want:   ended{record.BuildFailed, record.CategoryBuild, record.ComponentSetup, false, "build"},
		},
		"a directory of the build is closed": {
			text:   agentOf("true") + "sandbox: {driver: docker, docker: {dockerfile_path: Dockerfile, network: none}}\n",
			beside: map[string]string{"Dockerfile": "FROM localhost/podgrade-test/busybox:1\n"},
			change: func(task *tasks.Task) {
				if err := os.Mkdir(filepath.Join(filepath.Dir(task.Sandbox.Docker.DockerfilePath), "closed"), 0); err != nil {
					panic(err)
				}
			},
			want: ended{record.BuildFailed, record.CategoryBuild, record.ComponentSetup, false, "closed"},
		},
		"a reference is not there": {
			text: agentOf("true") + sealedBusybox + "reference: {directory: nowhere}",
			want: ended{record.Error, record.CategorySetup, record.ComponentSetup, false, "reference"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := *b
			b.t = t
			row := load(t, write(t, small(c.text), c.beside), tasks.Request{})
			if c.change != nil {
				c.change(row.Task)
			}
			r := b.executes(row)
			r.endedAs(c.want)
			tail, _ := r.Record.Get(record.FieldErrorLogTail).Text()
			if name == "a build fails" && !strings.Contains(tail, "no such luck") {
				t.Errorf("the tail is not the build's: %q", tail)
			}
			if name == "a build fails" && !strings.Contains(r.file(record.ContainerLog), "no such luck") {
				t.Errorf("what the build said is lost: %s", r.file(record.ContainerLog))
			}
			if name == "pre_run fails" && r.Record.PreRunResults != 2 {
				t.Errorf("%d results of pre_run", r.Record.PreRunResults)
			}
			if name == "pre_run fails" {
				info := r.Record.Environment
				if got := info.Text(record.StateChanges); !strings.Contains(got, "/opt/copy") || strings.Contains(got, "answer.txt") {
					t.Errorf("of the task directory there stays: %q", got)
				}
				if ids := record.StateLayers(info); len(ids) != 0 {
					t.Errorf("a row that is never graded keeps the layers %v", ids)
				}
			}
			if !c.want.gradable {
				return
			}
			// A limit of one second is for the test only; no task may have it.
			r.replace(record.TaskFile, `_timeout": 1,`, `_timeout": 30,`)
			// The status is a fact of the run, which all criteria together cannot mend.
			if verdict := r.grades(); verdict.Status != c.want.status || !verdict.Inherited || verdict.Score != 1 {
				t.Errorf("graded %+v", verdict)
			}
		})
	}
}

// TestATemplateCannotLeadOut: a link is copied, and not followed, and one that
// would lead out of the template is no template.
func TestATemplateCannotLeadOut(t *testing.T) {
	b := newBench(t, isolation.EngineBundle, testimages.Busybox())
	text := small(agentOf("true") + strings.Replace(sealedBusybox, "driver", "template_sources: [{type: template_dir, path: given}], driver", 1))
	for _, target := range []string{"/etc/passwd", "../task.yaml", "sub/../../task.yaml"} {
		file := write(t, text, map[string]string{"given/file": "x"})
		if err := os.Symlink(target, filepath.Join(filepath.Dir(file), "given/link")); err != nil {
			t.Fatal(err)
		}
		b.executes(load(t, file, tasks.Request{})).endedAs(ended{record.Error, record.CategorySetup, record.ComponentSetup, false, "leads out"})
	}
}

// brokenEngines lose their host at some point.
type brokenEngines struct {
	shared
	open error
	run  error
}

func (e brokenEngines) Open(ctx context.Context, o isolation.Order) (isolation.Cell, error) {
	if e.open != nil {
		return nil, e.open
	}
	cell, err := e.shared.Open(ctx, o)
	return lostCell{cell, e.run}, err
}

// lostCell is a cell that the host takes away while a command runs.
type lostCell struct {
	isolation.Cell
	lost error
}

func (c lostCell) Run(context.Context, isolation.Command) (isolation.Exit, error) {
	c.Cell.Close()
	return isolation.Exit{}, c.lost
}

// TestTheHostIsNotTheAgent: what the host does to a row is no score and no
// verdict, and the row can be run again.
func TestTheHostIsNotTheAgent(t *testing.T) {
	b := newBench(t, isolation.EngineBundle, testimages.Busybox())
	lost := &isolation.Fault{Tried: "use the cell", Why: isolation.ErrCellLost}
	for name, engines := range map[string]brokenEngines{
		"no cell":     {open: lost},
		"a lost cell": {run: lost},
	} {
		t.Run(name, func(t *testing.T) {
			b := *b
			b.t = t
			engines.shared = shared{b.host}
			b.options.Start = func(context.Context) (regrade.Engines, error) { return engines, nil }
			component := record.ComponentSetup
			if engines.run != nil {
				component = record.ComponentIteration
			}
			r := b.executes(load(t, write(t, small(agentOf("true")+strings.Replace(sealedBusybox, "driver", "python: null, driver", 1)), nil), tasks.Request{}))
			r.endedAs(ended{record.Error, record.CategoryInfrastructure, component, false, "cell"})
		})
	}
}

// TestACancelledRowHasNoRecord: half a run is no fact, and is run again.
func TestACancelledRowHasNoRecord(t *testing.T) {
	b := newBench(t, isolation.EngineBundle, testimages.Busybox())
	ctx, cancel := context.WithCancel(t.Context())
	row := load(t, write(t, small(agentOf("touch /work/workspace/begun; sleep 60")+sealedBusybox), nil), tasks.Request{})
	b.options.Start = func(context.Context) (regrade.Engines, error) { return cancelling{shared{b.host}, cancel}, nil }
	r, err := b.try(ctx, row)
	if !errors.Is(err, context.Canceled) || regrade.ExitCode(err) != regrade.ExitInterrupted {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(r.dir, record.TaskFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a record: %v", err)
	}
	// What the agent made is the caller's again.
	if err := os.RemoveAll(filepath.Join(r.dir, record.ArtifactsDir)); err != nil {
		t.Error(err)
	}
}

// cancelling interrupts the row once its agent runs.
type cancelling struct {
	shared
	cancel func()
}

func (e cancelling) Open(ctx context.Context, o isolation.Order) (isolation.Cell, error) {
	cell, err := e.shared.Open(ctx, o)
	return cancelledCell{cell, e.cancel}, err
}

type cancelledCell struct {
	isolation.Cell
	cancel func()
}

func (c cancelledCell) Run(ctx context.Context, command isolation.Command) (isolation.Exit, error) {
	go func() {
		for ctx.Err() == nil {
			if _, err := c.Stat(ctx, c.Places().Workspace, "begun"); err == nil {
				c.cancel()
			}
		}
	}()
	return c.Cell.Run(ctx, command)
}
