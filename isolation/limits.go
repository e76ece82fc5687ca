package isolation

import (
	"errors"
	"strings"

	"podgrade/oci"
)

// Names of the limits that a task can ask for.
const (
	LimitMemory    = "memory"
	LimitCPUs      = "cpus"
	LimitProcesses = "pids"
)

// notKept are the limits that were asked for and that nothing enforces for the
// cell as a whole: without a delegated cgroup there are only limits of single
// processes, as a floor (commandLimits).
func notKept(l oci.Limits) []string {
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
	return &Fault{Kind: Refusal, Tried: "make a cell with the limits that the task asks for", On: on,
		Why: errors.New("nothing enforces these for a whole cell on this host: " + strings.Join(missing, ", ")),
		Do:  "grade without --require-limits: the row is then stamped limits_not_enforced, and each command has its own limits as a floor"}
}
