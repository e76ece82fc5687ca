package tasks

import (
	"fmt"
	"slices"
)

// Armed reports whether early stop can end the agent: some criterion has a
// stop_early block and the run limits do not veto it (task-file 5.1).
func (t *Task) Armed() bool {
	if t.RunLimits.StopEarly != nil && !*t.RunLimits.StopEarly {
		return false
	}
	return slices.ContainsFunc(t.SuccessCriteria, func(c Criterion) bool {
		return c != nil && c.Common().StopEarly != nil
	})
}

// checkEarlyStop makes the checks of resolution in upstream's order; the first
// one that fails is the error.
func (t *Task) checkEarlyStop(l *Loader, n *node) error {
	fail := func(at *node, path, format string, args ...any) error {
		return fmt.Errorf("%w: %w", ErrEarlyStop, Problem{at.place(), path, fmt.Sprintf(format, args...)})
	}
	limits := n.get("run_limits")
	if s := t.RunLimits.StopEarly; s != nil && *s {
		return fail(limits.get("stop_early"), "run_limits.stop_early", "can only be false; arm criteria with stop_early blocks instead of true")
	}
	if !t.Armed() {
		return nil
	}
	kind := t.agentType()
	switch {
	case t.simulated():
		return fail(n.get("simulation"), "simulation", "cannot be enabled while a criterion has stop_early")
	case !slices.Contains(slices.Concat(agentKinds, l.Kinds), kind), kind == NoAgent, kind == CommandLine, kind == Oracle:
		return fail(n.get("agent"), "agent.type", "%s cannot be stopped early, and a criterion has stop_early", quote(kind))
	case t.RunLimits.StopEarlyGateThreshold <= 0:
		return fail(limits.get("stop_early_gate_threshold"), "run_limits.stop_early_gate_threshold", "must be greater than 0 while a criterion has stop_early")
	}
	return nil
}
