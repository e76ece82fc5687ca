package regrade

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"podgrade/isolation"
	"podgrade/policy"
	"podgrade/tasks"
	"podgrade/tasks/record"
)

// keeping says which state layers a row keeps.
type keeping struct {
	before, after bool // the agent
	must          bool // a row that cannot keep them is an error
}

func keepingOf(statePolicy string) keeping {
	switch statePolicy {
	case tasks.StateNone:
		return keeping{}
	case tasks.StatePreRun:
		return keeping{before: true, must: true}
	case tasks.StateBoth:
		return keeping{before: true, after: true, must: true}
	case tasks.StateFinal:
		return keeping{after: true, must: true}
	}
	return keeping{after: true}
}

// keeps is what can be kept of what the task asks for. A row whose set-up failed
// is never graded, so nothing needs what it left.
func (e *execution) keeps() keeping {
	k := keepingOf(e.task.Sandbox.StatePolicy())
	if e.made.StateProblem != "" {
		k.before, k.after = false, false
	}
	if e.facts.Setup == nil {
		k.after = false
	}
	return k
}

// refusesState: a row that must keep its state does not start where that cannot
// be done.
func (e *execution) refusesState() error {
	if e.made.StateProblem == "" || !e.keeps().must {
		return nil
	}
	return &Error{Kind: Refused, Tried: "execute", On: e.job.Identity().String(),
		Why: fmt.Errorf("%s, and nothing outside of the workspace can be kept: %s", e.stateAsked(), e.made.StateProblem),
		Do:  "use --engine bundle, or write state: " + tasks.StateAuto}
}

func (e *execution) stateAsked() string {
	return "the task says state: " + e.task.Sandbox.StatePolicy()
}

// keepBefore keeps what the set-up changed, where the task asks for that.
func (e *execution) keepBefore(ctx context.Context) error {
	if !e.keeps().before {
		return nil
	}
	state, err := e.cell.KeepBefore(ctx)
	if err != nil {
		return err
	}
	if state.Problem != "" {
		return setupFailed(e.stateAsked() + ", and what pre_run changed cannot be kept: " + state.Problem)
	}
	e.before = &state
	return nil
}

// stateProblem says that what the agent changed outside of its workspace could
// not be kept, for what it is. That is the agent's doing: the row is graded in
// the image alone, unless the task wants the state.
func (e *execution) stateProblem() error {
	problem, keeps := e.settled.State.Problem, e.keeps()
	if problem == "" || !keeps.after {
		return nil
	}
	if keeps.must {
		return &broken{record.Error, record.CategoryAgent, record.ComponentIteration, e.stateAsked() + ", and it cannot be kept: " + problem}
	}
	e.warn("changes outside of the workspace are not kept: " + problem)
	return nil
}

// state says what became of changes outside of the workspace.
func (e *execution) state(info *record.Object) {
	if e.accepted.Place() == policy.OnHost {
		return
	}
	if e.before != nil {
		info.Set(record.PreRunState, record.StateUnchanged)
		if id := e.before.DiffID; id != "" {
			info.Set(record.PreRunState, record.StateKept)
			info.Set(record.PreRunDiffID, id)
		}
	}
	state := e.settled.State
	switch {
	case state.Problem != "":
		info.Set(record.State, record.StateDropped)
		return
	case state.DiffID == "":
		info.Set(record.State, record.StateUnchanged)
	case e.keeps().after || e.before != nil && e.before.DiffID == state.DiffID:
		info.Set(record.State, record.StateKept)
		info.Set(record.StateDiffID, state.DiffID)
	default:
		info.Set(record.State, record.StateDropped)
	}
	stateChanges(info, state)
}

// mostChanges bounds the paths that a record names, mostChangeBytes each.
const (
	mostChanges     = 200
	mostChangeBytes = 300
)

// stateChanges lists what changed outside of the workspace.
func stateChanges(info *record.Object, state isolation.StateLayer) {
	var lines []string
	for _, kind := range []struct {
		letter string
		paths  []string
	}{{"C", state.Changed}, {"D", state.Deleted}} {
		for _, path := range kind.paths {
			mark := " "
			if isSystem(path) {
				mark = "!"
			}
			lines = append(lines, kind.letter+mark+" "+policy.Clip(path, mostChangeBytes))
		}
	}
	n := len(lines) + state.More
	if n > 0 {
		info.Set(record.StateChanged, n)
	}
	slices.SortFunc(lines, func(a, b string) int { // the system's first
		return cmp.Or(-cmp.Compare(a[1], b[1]), strings.Compare(a[3:], b[3:]))
	})
	if n > mostChanges {
		lines = append(lines[:min(len(lines), mostChanges)], fmt.Sprintf("and %d more", n-min(len(lines), mostChanges)))
	}
	setText(info, record.StateChanges, strings.Join(lines, "\n"))
	var not []string
	for _, line := range state.NotCarried {
		not = append(not, policy.Clip(line, mostChangeBytes))
	}
	setText(info, record.StateNotCarried, strings.Join(not, "\n"))
}

// maxCounted bounds a number that only a record says.
const maxCounted = 1 << 30

// systemDirs hold what the image's programs are made of and run by.
var systemDirs = []string{"bin", "boot", "etc", "lib", "lib32", "lib64", "libx32", "sbin", "usr"}

// isSystem tells whether an absolute path lies in the system rather than with
// the user's own files.
func isSystem(path string) bool {
	top, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return slices.Contains(systemDirs, top)
}

// sawState tells whether the grade saw what had changed outside of the workspace
// when the agent had ended, or that nothing had.
func (g *grading) sawState() bool {
	info := g.record.Environment
	state := info.Text(record.State)
	kept := state == record.StateKept && info.Text(record.StateDiffID) != ""
	return g.accepted.Place() == policy.InCell && (kept || state == record.StateUnchanged)
}

// sawPreRun tells whether the grade saw what pre_run had changed there.
func (g *grading) sawPreRun(drifted bool) bool {
	info := g.record.Environment
	before := info.Text(record.PreRunState)
	known := before == record.StateKept && info.Text(record.PreRunDiffID) != "" || before == record.StateUnchanged
	return g.options.Live != nil || !drifted && g.accepted.Place() == policy.InCell && (g.sawState() || known)
}

// lostState is the value of the stamp for changes outside of the workspace that
// the grade did not see; nil: there are none, or another stamp says so.
func (g *grading) lostState(drifted bool, view string) any {
	info := g.record.Environment
	state, layer := info.Text(record.State), info.Text(record.StateDiffID)
	known := state == record.StateUnchanged || state == record.StateKept && layer != "" && !drifted
	if g.options.Live != nil || g.accepted.Place() != policy.InCell || view == isolation.ViewCapture || known || state == "" {
		return nil
	}
	if n, ok := info.Value(record.StateChanged).Number(); ok && n >= 1 {
		return int(min(n, maxCounted))
	}
	return true
}
