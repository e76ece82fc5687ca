package isolation

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"podgrade/isolation/protocol"
	"podgrade/oci"
)

// Names of the limits that a task can ask for of a whole cell.
const (
	LimitMemory    = oci.LimitMemory
	LimitCPUs      = oci.LimitCPUs
	LimitProcesses = oci.LimitProcesses
)

// Names of the limits that podgrade itself enforces in every cell.
const (
	LimitOutput = "output" // of a command: what is beyond its cap is not kept
	LimitTime   = "time"   // of a command: its time-out ends all that it started
)

// limit decides which limits are enforced for the cell as a whole. Without a
// control group of its own there are only limits of single processes, as a
// floor (commandLimits).
func (c *cell) limit() {
	var err error
	if c.made.Engine != EngineHost {
		c.limits, err = c.host.groups.make(filepath.Base(c.host.run.dir)+"-"+c.name, c.order.Plan.Limits)
	}
	c.limitsWhy = c.host.noGroups
	switch {
	case err != nil:
		c.limitsWhy = err.Error()
	case c.made.Engine == EngineHost:
		c.limitsWhy = "without a container there is no control group of its own"
	}
	c.noteLimits()
}

// unlimited goes on without the cell's control group, which does not work.
func (c *cell) unlimited(why error) error {
	c.limits.remove() // it has no process, or goes with podgrade's own group
	c.limits, c.limitsWhy = nil, why.Error()
	c.noteLimits()
	return c.limitsFault()
}

// limitsHold tells whether the started cell is in its control group, with its
// limits in the kernel. started is why it did not start.
func (c *cell) limitsHold(started error) error {
	if c.limits == nil || started != nil {
		return nil
	}
	if err := c.limits.holds(); err != nil {
		return &Fault{Tried: "limit the cell", On: "of " + c.order.Image.Pin.String(), Why: err, Do: "see what `podgrade doctor` says of control groups"}
	}
	return nil
}

// killedForMemory tells whether the cell ended because its commands used more
// memory than they may: their own doing. The kernel ends whom it likes then, the
// supervisor too. It ends what is left of the cell.
func (c *cell) killedForMemory(client *protocol.Client, err error) bool {
	if !errors.Is(err, protocol.ErrClosed) || errors.Is(err, protocol.ErrFrame) || c.host.gone() {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || !c.limits.overMemory() {
		return false
	}
	if c.client == client {
		c.end(true, true)
	}
	return true
}

// noteLimits sorts what was asked for, and what podgrade does itself, into what
// is enforced and what is not.
func (c *cell) noteLimits() {
	kept := []string{LimitOutput, LimitTime}
	if c.limits != nil {
		kept = append(slices.Clone(c.limits.kept), kept...)
	}
	c.made.LimitsKept = kept
	c.made.LimitsNotKept = slices.DeleteFunc(asked(c.order.Plan.Limits), func(name string) bool { return slices.Contains(kept, name) })
}

// asked are the names of the limits that were asked for.
func asked(l oci.Limits) []string {
	names := []string{}
	for _, limit := range []struct {
		name  string
		asked bool
	}{{LimitMemory, l.MemoryMB > 0}, {LimitCPUs, l.CPUs > 0}, {LimitProcesses, l.PIDs > 0}} {
		if limit.asked {
			names = append(names, limit.name)
		}
	}
	return names
}

// limitsFault refuses a cell whose limits are required and would not be
// enforced: nothing of it has been made yet.
func (c *cell) limitsFault() error {
	missing := c.made.LimitsNotKept
	if !c.order.RequireLimits || len(missing) == 0 {
		return nil
	}
	on := ""
	if c.made.Engine != EngineHost {
		on = "of " + c.order.Image.Pin.String()
	}
	do := "start podgrade in a control group of its own (" + c.host.privilege.scope() + " podgrade ...)"
	if c.limitsWhy == notUnified {
		do = "see what `podgrade doctor` says of control groups"
	}
	return &Fault{Kind: Refusal, Tried: "make a cell with the limits that the task asks for", On: on,
		Why: fmt.Errorf("nothing enforces these for a whole cell: %s (%s)", strings.Join(missing, ", "), c.limitsWhy),
		Do:  do + ", or grade without --require-limits: the row is then stamped limits_not_enforced, and each command has its own limits as a floor"}
}
