package regrade

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"podgrade/isolation"
	"podgrade/oci"
	"podgrade/policy"
	"podgrade/tasks"
	"podgrade/tasks/record"
	"podgrade/tasks/record/fixture"
)

// TestTheMainJob is what podgrade is for: a criterion that tests a file of the
// image passes in a cell of it and fails on the host.
func TestTheMainJob(t *testing.T) {
	tests := []struct {
		name   string
		form   fixture.Form
		host   bool
		status record.Status
		score  float64
		stamps string
	}{
		{"pinned in a cell", fixture.Pinned, false, record.Success, 1, ""},
		{"unpinned in a cell", fixture.Unpinned, false, record.Success, 1, `graded_with_unpinned_image="byod-custom-image:0.1.0"`},
		{"pinned on the host", fixture.Pinned, true, record.Failure, 0, "graded_on_host=true"},
		{"unpinned on the host", fixture.Unpinned, true, record.Failure, 0, "graded_on_host=true"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newCase(t, test.form, nil)
			c.options.AllowHost = test.host
			v := c.pass()
			if v.Status != test.status || v.Score != test.score || v.Passed() != (test.status == record.Success) {
				t.Errorf("%s %v", v.Status, v.Score)
			}
			if got := stampText(v); got != test.stamps {
				t.Errorf("stamps %q, want %q", got, test.stamps)
			}
			if (c.fake.onHost > 0) != test.host {
				t.Errorf("on the host: %d", c.fake.onHost)
			}
			if c.file(record.ExecuteFile) != string(c.before) {
				t.Error("the ungraded record was not kept")
			}
			for _, name := range []string{record.GradeLog, record.GradeCellFile} {
				if c.file(name) == "" {
					t.Errorf("no %s", name)
				}
			}
			if !strings.Contains(c.notice.String(), "test -f /opt/byod_marker") {
				t.Errorf("what was accepted was not printed: %s", c.notice.String())
			}
			r := c.record()
			if r.Status != test.status || r.Score == nil || *r.Score != test.score || r.Results != 1 {
				t.Errorf("record: %s %v", r.Status, r.Score)
			}
		})
	}
}

func TestRefusesWithoutConsent(t *testing.T) {
	c := newCase(t, fixture.Pinned, nil)
	c.options.Answer = policy.Answer{}
	c.refused(Refused, "--allow-recorded-commands", false)
	_, err := c.grade()
	for _, want := range []string{"1 command:", "test -f /opt/byod_marker", "image: byod-custom-image:0.1.0", "capabilities:", "path: "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the page does not hold %q:\n%v", want, err)
		}
	}
	c.options.AllowHost = true
	c.refused(Refused, "on this host, as you", false)
	if entries, _ := os.ReadDir(c.dir); len(entries) != 2 {
		t.Errorf("a refusal left files: %v", entries)
	}
}

func TestHostGradingAloneMayRead(t *testing.T) {
	c := newCase(t, fixture.Pinned, criteriaOf(fileExists("answer.txt")))
	c.options.Answer = policy.Answer{}
	c.refused(Refused, "image: byod", false)
	c.options.AllowHost = true
	if v := c.pass(); v.Status != record.Success || stampText(v) != "graded_on_host=true" {
		t.Errorf("%s %s", v.Status, stampText(v))
	}
}

func TestTempdirRowsAreGradedOnTheHost(t *testing.T) {
	tempdir := func(o *fixture.Order) {
		o.Change = func(task *tasks.Task) { task.Sandbox.Driver = tasks.DriverTempdir }
	}
	c := newCase(t, fixture.Unpinned, tempdir)
	c.options.Answer = policy.Answer{}
	c.refused(Refused, "on this host, as you", false)
	c.options.Answer.RecordedCommands = true
	if v := c.pass(); stampText(v) != "" || v.Place != policy.OnHost {
		t.Errorf("%s, stamps %s", v.Place, stampText(v))
	}
}

func TestNoCellInsideAContainer(t *testing.T) {
	c := newCase(t, fixture.Pinned, nil)
	c.host[oci.EnvInContainer] = "1"
	c.refused(Refused, oci.EnvInContainer, false)
	c.host[oci.EnvInContainer] = "true"
	c.pass()
}

func TestPlanOfACell(t *testing.T) {
	c := newCase(t, fixture.Pinned, func(o *fixture.Order) {
		o.Change = func(task *tasks.Task) { task.Sandbox.Limits.MaxMemoryMB = 64 }
	})
	c.pass()
	order := c.fake.orders[0]
	if got := strings.Join(order.Plan.Capabilities, " "); got != strings.Join(oci.DockerCapabilities(), " ") {
		t.Errorf("driver docker: %s", got)
	}
	if order.Plan.Network != oci.Sealed || order.Plan.Limits.MemoryMB != 64 || order.Plan.Phase != oci.Grade {
		t.Errorf("plan %+v", order.Plan)
	}
	if want := filepath.Join(c.dir, "artifacts/byod_smoke_test"); order.Workspace != want {
		t.Errorf("workspace %s, want %s", order.Workspace, want)
	}
	if order.TaskDir == "" || order.Reference != "" || len(order.Hidden) != 1 {
		t.Errorf("order %+v", order)
	}

	c = newCase(t, fixture.Pinned, func(o *fixture.Order) {
		o.Change = func(task *tasks.Task) { task.Sandbox.Driver = tasks.DriverPodman }
	})
	c.pass()
	if got := c.fake.orders[0].Plan.Capabilities; len(got) != 0 {
		t.Errorf("driver podman: %v", got)
	}
}

func TestNetworkIsAGrant(t *testing.T) {
	attempts := func(c *rowCase) {
		c.fake.run = func(*fakeCell, string, io.Writer) (isolation.Exit, error) {
			return isolation.Exit{Code: 1, NetworkAttempts: 3}, nil
		}
	}
	tests := []struct {
		name, recorded, option, stamps string
		network                        oci.Network
	}{
		{"sealed", tasks.NetworkBridge, "", "graded_without_network=3", oci.Sealed},
		{"granted", tasks.NetworkBridge, NetworkRecorded, "", oci.Egress},
		{"none recorded", tasks.NetworkNone, "", "", oci.Sealed},
		{"none recorded, recorded granted", tasks.NetworkNone, NetworkRecorded, "", oci.Sealed},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newCase(t, fixture.Pinned, func(o *fixture.Order) {
				o.Change = func(task *tasks.Task) { task.Sandbox.Docker.Network = test.recorded }
			})
			attempts(c)
			c.options.Network = test.option
			v := c.pass()
			if got := stampText(v); got != test.stamps {
				t.Errorf("stamps %q, want %q", got, test.stamps)
			}
			if got := c.fake.orders[0].Plan.Network; got != test.network {
				t.Errorf("network %s", got)
			}
		})
	}
	c := newCase(t, fixture.Pinned, func(o *fixture.Order) {
		o.Change = func(task *tasks.Task) { task.Sandbox.Docker.Network = tasks.NetworkLLMOnly }
	})
	c.options.Network = NetworkRecorded
	c.refused(Refused, "llm_only", false)
}

func TestStampsOfWhatWasWithheld(t *testing.T) {
	c := newCase(t, fixture.Pinned, func(o *fixture.Order) {
		o.Change = func(task *tasks.Task) {
			task.PreRun = []tasks.PreRun{{Command: "a", Timeout: 1}, {Command: "b", Timeout: 1}}
		}
	})
	all := oci.DockerCapabilities()
	c.fake.made.Spec = specWith(all[2:]...)
	c.fake.made.LimitsNotKept = []string{"memory_mb", "cpus"}
	v := c.pass()
	want := fmt.Sprintf(`graded_without_pre_run=2 graded_with_fewer_capabilities="%s,%s" limits_not_enforced="memory_mb,cpus"`, all[0], all[1])
	if got := stampText(v); got != want {
		t.Errorf("stamps\n%s, want\n%s", got, want)
	}
}

func TestOldStampsAreRemoved(t *testing.T) {
	c := newCase(t, fixture.Unpinned, nil)
	c.options.AllowHost = true
	c.edit(`"coder_eval": "0.12.8",`, `"coder_eval": "0.12.8", "container_contract": {"a": 1}, "executed_on_host": true,`)
	if v := c.pass(); stampText(v) != "graded_on_host=true executed_on_host=true" {
		t.Errorf("on the host: %s", stampText(v))
	}
	if !c.record().Environment.Value(record.ContainerContract).IsNull() {
		t.Error("a grade on the host keeps the contract of a container")
	}
	first := c.file(record.ExecuteFile)
	c.options.AllowHost = false
	if v := c.pass(); stampText(v) != `graded_with_unpinned_image="byod-custom-image:0.1.0" executed_on_host=true` {
		t.Errorf("then in a cell: %s", stampText(v))
	}
	if c.file(record.ExecuteFile) != first {
		t.Error("the ungraded record was replaced by a graded one")
	}
	info := c.record().Environment
	if info.Text(record.GradedByEngine) != "bundle" || info.Text(record.GradedImageID) != imageID {
		t.Errorf("facts: %s", info.Bytes())
	}
}

func TestPinsAreIdentities(t *testing.T) {
	c := newCase(t, fixture.Pinned, nil)
	// The name leads elsewhere now; the pinned image is still in the store.
	moved := c.fake.images[imageID]
	moved.Pin.ID = otherID
	c.fake.images["byod-custom-image:0.1.0"] = moved
	c.pass()
	if got := c.fake.orders[0].Image.Pin.ID; got != imageID {
		t.Errorf("graded in %s", got)
	}

	c = newCase(t, fixture.Pinned, nil)
	delete(c.fake.images, imageID)
	c.fake.images["byod-custom-image:0.1.0"] = moved
	c.refused(Refused, otherID[:12], true)
	_, err := c.grade()
	if !strings.Contains(err.Error(), imageID[:12]) || !errors.Is(err, isolation.ErrNoImage) {
		t.Errorf("the pinned image is not named: %v", err)
	}

	c = newCase(t, fixture.Unpinned, nil)
	c.fake.images = nil
	c.refused(Refused, "byod-custom-image:0.1.0", true)
}

func TestInfrastructureLeavesTheRecord(t *testing.T) {
	t.Run("D-19: what was lost is named, and not a number of results", func(t *testing.T) {
		lost := func(*fakeCell, string, io.Writer) (isolation.Exit, error) {
			return isolation.Exit{}, fmt.Errorf("run: %w", isolation.ErrCellLost)
		}
		tests := []struct {
			name   string
			break_ func(*fakeEngines)
			text   string
		}{
			{"a cell that does not start", func(f *fakeEngines) { f.startup = errors.New("noexec") }, "noexec"},
			{"a lost cell", func(f *fakeEngines) { f.run = lost }, "criterion 1"},
			{"a removed image", func(f *fakeEngines) { f.layers = fmt.Errorf("layer gone: %w", isolation.ErrNoImage) }, "layer gone"},
		}
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				c := newCase(t, fixture.Pinned, nil)
				test.break_(c.fake)
				c.refused(Infrastructure, test.text, true)
				if !strings.Contains(c.file(record.GradeLog), test.text) {
					t.Errorf("the log does not say why: %s", c.file(record.GradeLog))
				}
				c.fake.run, c.fake.startup, c.fake.layers = newFake().run, nil, nil
				c.fake.cells = nil
				if v := c.pass(); v.Status != record.Success {
					t.Errorf("graded again: %s", v.Status)
				}
			})
		}
	})
}

func TestInterruptedRowIsAsItWas(t *testing.T) {
	c := newCase(t, fixture.Pinned, nil)
	ctx, cancel := context.WithCancel(context.Background())
	c.fake.run = func(*fakeCell, string, io.Writer) (isolation.Exit, error) {
		cancel()
		return isolation.Exit{}, ctx.Err()
	}
	_, err := c.gradeWith(ctx)
	if !errors.Is(err, context.Canceled) || ExitCode(err) != ExitInterrupted {
		t.Errorf("%v: exit %d", err, ExitCode(err))
	}
	c.unchanged()
	if entries, _ := os.ReadDir(c.dir); len(entries) != 2 {
		t.Errorf("left: %v", entries)
	}
}

func TestInterruptedBetweenCheckAndWrite(t *testing.T) {
	c := newCase(t, fixture.Pinned, nil)
	ctx, cancel := context.WithCancel(context.Background())
	c.fake.run = func(*fakeCell, string, io.Writer) (isolation.Exit, error) {
		cancel()
		return isolation.Exit{}, nil
	}
	if _, err := c.gradeWith(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	c.unchanged()
}

// cancelOn cancels when a text is written to it.
type cancelOn struct {
	text   string
	cancel func()
}

func (c cancelOn) Write(p []byte) (int, error) {
	if strings.Contains(string(p), c.text) {
		c.cancel()
	}
	return len(p), nil
}

func TestInterruptedAfterTheRecordWasWritten(t *testing.T) {
	c := newCase(t, fixture.Pinned, nil)
	run, err := record.OwningRun(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	// Without a summary there is a warning, after the record was written.
	os.Remove(filepath.Join(run, record.RunFile))
	ctx, cancel := context.WithCancel(context.Background())
	c.options.Notice = cancelOn{record.RunFile, cancel}
	v, err := c.gradeWith(ctx)
	if ctx.Err() == nil {
		t.Fatal("nothing was cancelled")
	}
	if err != nil || v.Status != record.Success || c.record().Status != record.Success {
		t.Errorf("a verdict that stands in the record is called %v", err)
	}
	if c.file(record.GradeLog) == "" {
		t.Error("the log of the verdict is gone")
	}
}

func TestAStateLayerIsNotLeftOut(t *testing.T) {
	c := newCase(t, fixture.Pinned, func(o *fixture.Order) {
		o.Environment = map[string]any{record.StateDiffID: "sha256:layer", record.State: record.StateKept}
		o.Change = func(task *tasks.Task) { task.PreRun = []tasks.PreRun{{Command: "a", Timeout: 1}} }
	})
	if v := c.pass(); stampText(v) != "" || c.fake.orders[0].State != "sha256:layer" {
		t.Errorf("stamps %s, state %q", stampText(v), c.fake.orders[0].State)
	}
	c.options.AllowHost = true
	if v := c.pass(); stampText(v) != "graded_on_host=true graded_without_pre_run=1" {
		t.Errorf("stamps %s", stampText(v))
	}
}

func TestACellThatCannotBeMadeFairlyIsRefused(t *testing.T) {
	for want, change := range map[string]func(*tasks.Sandbox){
		"cannot be written": func(s *tasks.Sandbox) {
			s.Podman = &tasks.Podman{ReadOnly: true, Egress: []string{}, State: "auto", Grade: "fresh"}
		},
	} {
		c := newCase(t, fixture.Pinned, func(o *fixture.Order) {
			o.Change = func(task *tasks.Task) { change(&task.Sandbox) }
		})
		c.refused(Refused, want, false)
		c.options.AllowHost = true
		c.pass()
	}
}

// TestStateThatIsNotThereIsStamped: what pre_run did outside of the workspace
// only counts where it is known.
func TestStateThatIsNotThereIsStamped(t *testing.T) {
	for state, want := range map[string]string{record.StateUnchanged: "", record.StateDropped: "graded_without_pre_run=1 graded_without_state=true", "": "graded_without_pre_run=1"} {
		c := newCase(t, fixture.Pinned, func(o *fixture.Order) {
			o.Environment = map[string]any{record.State: state}
			o.Change = func(task *tasks.Task) { task.PreRun = []tasks.PreRun{{Command: "a", Timeout: 1}} }
		})
		if v := c.pass(); stampText(v) != want {
			t.Errorf("%q: stamps %s", state, stampText(v))
		}
	}
}

func TestTheCellHasTheUserOfTheTask(t *testing.T) {
	c := newCase(t, fixture.Pinned, func(o *fixture.Order) {
		o.Change = func(task *tasks.Task) {
			task.Sandbox.Podman = &tasks.Podman{User: "1000", Egress: []string{}, State: "auto", Grade: "fresh"}
		}
	})
	if c.pass(); c.fake.orders[0].Image.User != "1000" {
		t.Errorf("the user is %q", c.fake.orders[0].Image.User)
	}
}

func TestACommandThatEndsItsCellFailsAlone(t *testing.T) {
	c := newCase(t, fixture.Pinned, criteriaOf(runCommand("kill"), runCommand("true")))
	c.fake.run = func(cell *fakeCell, line string, _ io.Writer) (isolation.Exit, error) {
		if line == "kill" {
			return isolation.Exit{Code: 137, Signal: 9, CellEnded: true}, nil
		}
		return isolation.Exit{}, nil
	}
	v := c.pass()
	if v.Status != record.Failure || v.Score != 0.5 {
		t.Errorf("%s %v", v.Status, v.Score)
	}
	if file := c.file(record.GradeCellFile); !strings.Contains(file, `"cells": 2`) {
		t.Errorf("the cell file does not say that the cell was made again:\n%s", file)
	}
}

func TestOutputThatIsHeldIsSaid(t *testing.T) {
	c := newCase(t, fixture.Pinned, nil)
	c.fake.run = func(*fakeCell, string, io.Writer) (isolation.Exit, error) {
		return isolation.Exit{TimedOut: true, Held: true}, nil
	}
	v := c.pass()
	if v.Status != record.Failure || !strings.Contains(*v.Results[0].Details, "left in the background") {
		t.Errorf("%s: %s", v.Status, *v.Results[0].Details)
	}
	if !strings.Contains(c.file(record.GradeLog), "in the background") {
		t.Errorf("log: %s", c.file(record.GradeLog))
	}
}

func TestRunsTheShellInTheWorkspace(t *testing.T) {
	c := newCase(t, fixture.Pinned, nil)
	c.pass()
	command := c.fake.cells[0].ran[0]
	if strings.Join(command.Argv, "|") != "/bin/sh|-c|test -f /opt/byod_marker" || command.Dir != oci.WorkspacePath {
		t.Errorf("%q in %s", command.Argv, command.Dir)
	}
	c = newCase(t, fixture.Pinned, nil)
	c.fake.run = func(*fakeCell, string, io.Writer) (isolation.Exit, error) {
		return isolation.Exit{}, fmt.Errorf("exec: %w", isolation.ErrNoProgram)
	}
	v := c.pass()
	if v.Status != record.Failure || !strings.Contains(v.Results[0].Reason(), "shell") {
		t.Errorf("an image without a shell: %s, %q", v.Status, v.Results[0].Reason())
	}
}

func TestAPathThatEscapesIsTheTasksFault(t *testing.T) {
	t.Run("D-73: a path that leads out is an error where something is there, and no oracle", func(t *testing.T) {
		c := newCase(t, fixture.Pinned, criteriaOf(fileExists("/etc/passwd")))
		c.refused(TaskFault, "/etc/passwd", true)
		c = newCase(t, fixture.Pinned, criteriaOf(fileExists("no/such/file")))
		if v := c.pass(); v.Status != record.Failure || v.Score != 0 {
			t.Errorf("%s %v", v.Status, v.Score)
		}
	})
}

func TestPostRunRunsOnce(t *testing.T) {
	c := newCase(t, fixture.Pinned, func(o *fixture.Order) {
		o.Change = func(task *tasks.Task) {
			task.PostRun = []tasks.PostRun{{Command: "clean", Timeout: 1}, {Command: "hang", Timeout: 1}}
		}
	})
	c.fake.run = func(_ *fakeCell, line string, out io.Writer) (isolation.Exit, error) {
		fmt.Fprintf(out, "ran %s\xff", line)
		return isolation.Exit{TimedOut: line == "hang"}, nil
	}
	if v := c.pass(); v.Status != record.Success {
		t.Errorf("%s: post_run changed the verdict", v.Status)
	}
	raw := c.record().Get(record.FieldPostRunResults)
	var results []record.HookResult
	if err := raw.Decode(&results); err != nil || len(results) != 2 {
		t.Fatalf("%s: %v", raw, err)
	}
	if *results[0].ExitCode != 0 || results[0].Stdout != "ran clean\ufffd" || results[1].ExitCode != nil || results[1].Error == nil {
		t.Errorf("results: %s", raw)
	}
	c.pass()
	if got := c.record().Get(record.FieldPostRunResults); string(got) != string(raw) {
		t.Errorf("a second grade changed post_run: %s", got)
	}
	if last := c.fake.cells[len(c.fake.cells)-1]; len(last.ran) != 1 {
		t.Errorf("a second grade ran %d commands", len(last.ran))
	}
}

func TestStatusPrecedence(t *testing.T) {
	tests := []struct {
		before           record.Status
		passed, maxTurns bool
		want             record.Status
	}{
		{record.NotGraded, true, false, record.Success},
		{record.NotGraded, true, true, record.Success},
		{record.NotGraded, false, false, record.Failure},
		{record.NotGraded, false, true, record.MaxTurnsExhausted},
		{record.MaxTurnsExhausted, true, true, record.Success},
		{record.Failure, true, false, record.Success},
		{record.Success, false, false, record.Failure},
		{record.Timeout, true, false, record.Timeout},
		{record.TokenBudgetExceeded, true, false, record.TokenBudgetExceeded},
		{record.CostBudgetExceeded, false, false, record.CostBudgetExceeded},
		{record.Error, true, false, record.Error},
		{record.BuildFailed, true, true, record.BuildFailed},
	}
	for _, test := range tests {
		if got := terminalStatus(test.before, test.passed, test.maxTurns); got != test.want {
			t.Errorf("%s, passed %v, max turns %v: %s, want %s", test.before, test.passed, test.maxTurns, got, test.want)
		}
	}
}

func TestAnInheritedFactIsKept(t *testing.T) {
	c := newCase(t, fixture.Pinned, nil)
	c.edit(`"NOT_GRADED"`, `"TIMEOUT"`)
	v := c.pass()
	if v.Status != record.Timeout || v.Score != 1 || v.Passed() || !v.Inherited {
		t.Errorf("%+v", v)
	}
	if r := c.record(); r.Results != 1 || r.Score == nil || *r.Score != 1 {
		t.Error("the criteria's results are missing")
	}
}

func TestEarlyStopSelectsTheArmedGate(t *testing.T) {
	// One armed criterion passes, one that is not armed fails.
	armed := &tasks.CommandExecuted{Base: base(tasks.TypeCommandExecuted, "nothing was run"), MinCount: 0}
	armed.StopEarly = &tasks.StopEarly{OnPass: "stop"}
	c := newCase(t, fixture.Pinned, criteriaOf(armed, fileExists("missing")))
	if v := c.pass(); v.Status != record.Failure {
		t.Errorf("the strict gate: %s", v.Status)
	}
	c = newCase(t, fixture.Pinned, criteriaOf(armed, fileExists("missing")))
	c.edit(`"early_stop": null`, `"early_stop": {"reason": "criterion_passed", "gate_threshold": 1.0}`)
	if v := c.pass(); v.Status != record.Success || v.Score != 0.5 {
		t.Errorf("the armed gate: %s %v", v.Status, v.Score)
	}
	for _, threshold := range []string{"0", "-1", "1.5", "NaN", `"0.1"`} {
		c = newCase(t, fixture.Pinned, criteriaOf(armed, fileExists("missing")))
		c.edit(`"early_stop": null`, `"early_stop": {"reason": "criterion_passed", "gate_threshold": `+threshold+`}`)
		c.refused(TaskFault, "gate_threshold", true)
	}
}

// TestGradesOfOneRowWaitForEachOther: each begins with what the one before it has
// written, so that all of them come to their verdict.
func TestGradesOfOneRowWaitForEachOther(t *testing.T) {
	c := newCase(t, fixture.Pinned, nil)
	var under, waited atomic.Int32
	notice := writerFunc(func(p []byte) (int, error) {
		if strings.Contains(string(p), "waiting for another grade") {
			waited.Add(1)
		}
		return len(p), nil
	})
	begun, goOn := make(chan bool), make(chan bool)
	var first sync.Once
	start := func(context.Context) (Engines, error) {
		if under.Add(1) != 1 {
			t.Error("two grades of a row at once")
		}
		first.Do(func() { close(begun); <-goOn })
		under.Add(-1)
		return newFake(), nil
	}
	o := c.options
	o.Start, o.Notice = start, notice
	grade := func(ctx context.Context) error {
		row, err := record.OpenRow(c.dir)
		if err != nil {
			return err
		}
		defer row.Close()
		_, err = Grade(ctx, row, o)
		return err
	}
	errs := make([]error, 4)
	var grades sync.WaitGroup
	for i := range errs {
		grades.Go(func() { errs[i] = grade(t.Context()) })
	}
	<-begun
	interrupted, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if err := grade(interrupted); !errors.Is(err, context.Canceled) {
		t.Errorf("who waits and is interrupted ends with %v", err)
	}
	close(goOn)
	grades.Wait()
	if err := errors.Join(errs...); err != nil || waited.Load() == 0 {
		t.Errorf("%d waited: %v", waited.Load(), err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestAChangedRecordIsNotUndone: where nobody can be kept waiting, as on a file
// system without locks, a grade never undoes what another one wrote.
func TestAChangedRecordIsNotUndone(t *testing.T) {
	c := newCase(t, fixture.Pinned, nil)
	c.options.Start = func(context.Context) (Engines, error) {
		c.edit(`"error_message": null`, `"error_message": "of another grade"`)
		return newFake(), nil
	}
	row, err := record.OpenRow(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer row.Close()
	if _, err := Grade(t.Context(), row, c.options); err == nil || !strings.Contains(err.Error(), "while the row was graded") {
		t.Errorf("it ends with %v", err)
	}
	if !strings.Contains(c.file(record.TaskFile), "of another grade") {
		t.Error("what the other grade wrote is gone")
	}
}

func TestEnvironmentOfTheRunWins(t *testing.T) {
	t.Run("D-28: what the run recorded of its surroundings wins, and the grade has keys of its own", func(t *testing.T) {
		c := newCase(t, fixture.Pinned, nil)
		before := c.record().Environment
		c.pass()
		after := c.record().Environment
		for _, name := range before.Names() {
			if string(before.Value(name)) != string(after.Value(name)) {
				t.Errorf("%s was changed to %s", name, after.Value(name))
			}
		}
		for name, want := range map[string]string{
			record.GradedByVersion: "9.9.9", record.WorkspaceView: "copy", record.GradedSpecSHA256: "spec",
		} {
			if got := after.Text(name); got != want {
				t.Errorf("%s: %q", name, got)
			}
		}
	})
}

func TestSameBytesSameVerdict(t *testing.T) {
	c := newCase(t, fixture.Pinned, nil)
	c.pass()
	first := c.record()
	c.pass()
	second := c.record()
	for _, field := range record.Fields() {
		if field == record.FieldGradingMS || field == record.FieldEnvironment {
			continue
		}
		if string(first.Get(field)) != string(second.Get(field)) {
			t.Errorf("%s differs between two grades", field)
		}
	}
	if a, b := first.Environment.Names(), second.Environment.Names(); strings.Join(a, " ") != strings.Join(b, " ") {
		t.Errorf("environment_info: %v, then %v", a, b)
	}
}

func TestRunSummaryIsRefreshed(t *testing.T) {
	c := newCase(t, fixture.Unpinned, nil)
	c.pass()
	run, err := record.OwningRun(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(run, record.RunFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"tasks_succeeded": 1`, `"status": "SUCCESS"`, `"pass_rate": 1.0`, `"graded_with_unpinned_image": "byod-custom-image:0.1.0"`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("run.json holds no %s:\n%s", want, data)
		}
	}
	os.Remove(filepath.Join(run, record.RunFile))
	c.pass()
	if !strings.Contains(c.notice.String(), "run.json") {
		t.Error("nothing says that no summary was refreshed")
	}
}

func TestTrajectoryReachesCriteria(t *testing.T) {
	used := &tasks.CommandExecuted{Base: base(tasks.TypeCommandExecuted, "ls"), ToolName: "Bash", CommandPattern: "^ls", MinCount: 1}
	c := newCase(t, fixture.Pinned, criteriaOf(used))
	c.edit(`"commands": []`, `"commands": [{"tool_name": "Bash", "parameters": {"command": "ls -l"}, "result_status": "success", "duration_ms": NaN}]`)
	if v := c.pass(); v.Status != record.Success {
		t.Errorf("%s: %s", v.Status, v.Results[0].Reason())
	}
	c = newCase(t, fixture.Pinned, criteriaOf(used))
	c.edit(`"commands": []`, `"commands": "none"`)
	c.refused(TaskFault, "trajectory", true)
}

func TestGradeCellFile(t *testing.T) {
	c := newCase(t, fixture.Pinned, nil)
	c.host["BEDROCK_MODEL"] = "top-secret-value"
	c.pass()
	for _, name := range []string{record.GradeCellFile, record.GradeLog, record.TaskFile, record.GradeCellLog} {
		if strings.Contains(c.file(name), "top-secret-value") {
			t.Errorf("%s holds the value of a variable", name)
		}
	}
	if strings.Contains(c.notice.String(), "top-secret-value") {
		t.Error("the value of a variable was printed")
	}
	if !strings.Contains(c.file(record.GradeCellFile), `"engine": "bundle"`) {
		t.Errorf("cell file: %s", c.file(record.GradeCellFile))
	}
}

func TestACriterionThatCannotBeCheckedIsRefusedBeforeAnythingStarts(t *testing.T) {
	// A case-insensitive backreference under the ASCII flag has no translation.
	wrong := &tasks.FileMatchesRegex{Base: base(tasks.TypeFileMatchesRegex, "a pattern"), Path: "a.txt", Pattern: `(?ai)(k)\1`, MustMatch: true}
	c := newCase(t, fixture.Pinned, criteriaOf(wrong))
	c.refused(TaskFault, "a pattern", false)
	c.unchanged()
}

// A page that somebody made of the row shows the verdict that stands in the
// record, and none is made for who asked for none.
func TestThePageOfARowFollowsItsVerdict(t *testing.T) {
	c := newCase(t, fixture.Pinned, nil)
	page := filepath.Join(c.dir, record.RowPage)
	c.pass()
	if _, err := os.Lstat(page); err == nil {
		t.Error("a page was made")
	}
	if err := os.WriteFile(page, []byte("an older verdict"), 0o644); err != nil {
		t.Fatal(err)
	}
	c.pass()
	if text := c.file(record.RowPage); strings.Contains(text, "older") || !strings.Contains(text, string(record.Success)) {
		t.Errorf("the page says %.200s", text)
	}
	target := filepath.Join(t.TempDir(), "target")
	if err := errors.Join(os.WriteFile(target, []byte("kept"), 0o644), os.Remove(page), os.Symlink(target, page)); err != nil {
		t.Fatal(err)
	}
	c.pass()
	if text, err := os.ReadFile(target); string(text) != "kept" || !strings.Contains(c.notice.String(), record.RowPage) {
		t.Errorf("a link was followed: %q, %v; said %q", text, err, c.notice.String())
	}
}
