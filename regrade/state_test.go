package regrade_test

import (
	"context"
	"strings"
	"testing"

	"podgrade/isolation"
	"podgrade/isolation/testimages"
	"podgrade/regrade"
	"podgrade/tasks"
	"podgrade/tasks/record"
)

// stateTask changes something outside of the workspace before its agent starts
// and while it works.
func stateTask(state, preRun, agent, criterion string) string {
	text := "task_id: state\ndescription: what is kept\n" + agentOf(agent) +
		strings.Replace(sealedBusybox, "driver", "podman: {state: "+state+"}, driver", 1)
	if preRun != "" {
		text += "pre_run: [{command: '" + preRun + "'}]\n"
	}
	return text + "success_criteria:\n  - {type: run_command, command: '" + criterion + "', description: it is there}\n"
}

// TestStatePolicies: which layers a row keeps, which of them its grade stands
// on, and what is said of what is lost.
func TestStatePolicies(t *testing.T) {
	const before, after = "mkdir /opt/before && echo fixture >/opt/before/f", "mkdir /opt/after && rm /opt/before/f"
	const sawBoth, sawBefore, sawNone = "test -d /opt/after && test ! -e /opt/before/f", "test ! -e /opt/after && test -e /opt/before/f", "test ! -e /opt/after && test ! -e /opt/before"
	const changed = record.GradedWithoutState + "="
	b := newBench(t, isolation.EngineBundle, testimages.Busybox())
	for name, c := range map[string]struct {
		state, preRun, agent, criterion string
		before, after                   string // what the record says
		stamps                          string
	}{
		"final":                               {"final", before, after, sawBoth, "", "kept", ""},
		"keep is final":                       {"keep", before, after, sawBoth, "", "kept", ""},
		"auto":                                {"auto", before, after, sawBoth, "", "kept", ""},
		"both":                                {"both", before, after, sawBoth, "kept", "kept", ""},
		"pre_run":                             {"pre_run", before, after, sawBefore, "kept", "dropped", changed + "2"},
		"pre_run, and the agent changed none": {"pre_run", before, "echo x >f", "test -e /opt/before/f", "kept", "kept", ""},
		"pre_run, and nothing changed":        {"pre_run", "", "echo x >f", "test -e f", "unchanged", "unchanged", ""},
		"none":                                {"none", before, after, sawNone, "", "dropped", record.GradedWithoutPreRun + "=1 " + changed + "2"},
		"none, without pre_run":               {"none", "", "mkdir /opt/after", sawNone, "", "dropped", changed + "1"},
		"none, and nothing changed":           {"none", "true", "echo x >f", "test -e f", "", "unchanged", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := *b
			b.t = t
			r := b.executes(load(t, write(t, stateTask(c.state, c.preRun, c.agent, c.criterion), nil), tasks.Request{}))
			if r.Status != record.NotGraded {
				t.Fatalf("%s: %s", r.Status, r.Message)
			}
			info := r.Record.Environment
			if got := info.Text(record.PreRunState); got != c.before {
				t.Errorf("before the agent: %q, want %q", got, c.before)
			}
			if got := info.Text(record.State); got != c.after {
				t.Errorf("after the agent: %q, want %q\n%s", got, c.after, info.Text(record.StateChanges))
			}
			for _, id := range record.StateLayers(info) {
				if !b.host.HasState(id) {
					t.Errorf("%s is named and not kept", id)
				}
			}
			if verdict := r.grades(); verdict.Status != record.Success {
				t.Errorf("graded %s\n%s", verdict.Status, r.file(record.GradeLog))
			}
			if got := r.stamps(); got != c.stamps {
				t.Errorf("stamps %q, want %q", got, c.stamps)
			}
		})
	}
}

// TestWhatChangedIsListed: the record names what changed outside of the
// workspace, the system's own apart, and what no layer holds.
func TestWhatChangedIsListed(t *testing.T) {
	b := newBench(t, isolation.EngineBundle, testimages.Busybox())
	agent := `mkdir -p /opt/x /usr/local/bin; echo 1 >/opt/one; cp /bin/busybox /usr/local/bin/mine; rm /bin/wc; echo a >"/opt/two
lines"; echo x >>/etc/hosts; echo x >/etc/hostname; i=0; while [ $i -lt 210 ]; do i=$((i+1)); echo x >/opt/x/n$i; done`
	r := b.executes(load(t, write(t, stateTask("auto", "", agent, "true"), nil), tasks.Request{}))
	info := r.Record.Environment
	lines := strings.Split(info.Text(record.StateChanges), "\n")
	for _, want := range []string{"C  /opt/one", "C! /usr/local/bin/mine", "C! /etc/hosts", "D! /bin/wc"} {
		if !strings.Contains(info.Text(record.StateChanges)+"\n", want+"\n") {
			t.Errorf("%q is not in %q", want, lines)
		}
	}
	if len(lines) != 201 || lines[200] != "and 15 more" || string(info.Value(record.StateChanged)) != "215" {
		t.Errorf("%d lines, the last %q, of %s", len(lines), lines[len(lines)-1], info.Value(record.StateChanged))
	}
	if got := info.Text(record.StateNotCarried); !strings.HasPrefix(got, "/etc/hostname: ") {
		t.Errorf("not carried: %q", got)
	}
	if regrade.FollowsSchema(t, r.file(record.TaskFile)); r.grades().Status != record.Success {
		t.Error("it is not graded")
	}
}

// keepless engines can keep no state layer.
type keepless struct{ shared }

func (e keepless) Open(ctx context.Context, o isolation.Order) (isolation.Cell, error) {
	cell, err := e.shared.Open(ctx, o)
	return keeplessCell{cell}, err
}

type keeplessCell struct{ isolation.Cell }

func (c keeplessCell) Made() isolation.Made {
	made := c.Cell.Made()
	made.StateProblem = "the storage driver keeps none"
	return made
}

func (c keeplessCell) Settle(ctx context.Context, s isolation.Settle) (isolation.Settled, error) {
	settled, err := c.Cell.Settle(ctx, isolation.Settle{Capture: s.Capture, Ignore: s.Ignore})
	settled.State.Problem = c.Made().StateProblem
	return settled, err
}

// TestAStateThatMustBeKept: a row that names a layer does not start where none
// can be kept.
func TestAStateThatMustBeKept(t *testing.T) {
	b := newBench(t, isolation.EngineBundle, testimages.Busybox())
	b.options.Start = func(context.Context) (regrade.Engines, error) { return keepless{shared{b.host}}, nil }
	for _, state := range []string{"final", "both", "pre_run", "keep"} {
		_, err := b.try(t.Context(), load(t, write(t, stateTask(state, "", "true", "true"), nil), tasks.Request{}))
		if regrade.KindOf(err) != regrade.Refused || !strings.Contains(err.Error(), "state: ") {
			t.Errorf("%s: %v", state, err)
		}
	}
	r := b.executes(load(t, write(t, stateTask("auto", "", "true", "true"), nil), tasks.Request{}))
	if r.grades(); r.stamps() != record.GradedWithoutState+"=true" {
		t.Errorf("nobody knows what changed, and the stamps are %q", r.stamps())
	}
}
