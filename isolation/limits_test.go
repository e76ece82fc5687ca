package isolation_test

import (
	"slices"
	"strings"
	"testing"

	"podgrade/isolation"
	"podgrade/oci"
)

func asksForLimits(o *isolation.Order) { o.Plan.Limits = oci.Limits{MemoryMB: 64, CPUs: 1.5, PIDs: 40} }

// D-94: limits that nothing enforces are said to be not enforced, on either
// engine, and single commands have a floor of them all the same.
func TestD94LimitsThatAreNotEnforcedAreSaidToBeSo(t *testing.T) {
	overEngines(t, func(t *testing.T, engine string) {
		c := onEngine(t, engine, as(t, ""), asksForLimits)
		made := c.Made()
		if !slices.Equal(made.LimitsNotKept, []string{"memory", "cpus", "pids"}) || !slices.Equal(made.LimitsKept, []string{"output", "time"}) || made.LimitsAsked != (oci.Limits{MemoryMB: 64, CPUs: 1.5, PIDs: 40}) {
			t.Errorf("asked %+v, enforced %q, not enforced %q", made.LimitsAsked, made.LimitsKept, made.LimitsNotKept)
		}
		want(t, c, "awk '/^Max data size/ {print $4, $5} /^Max processes/ {print $3, $4}' /proc/self/limits", "67108864 67108864\n40 40\n")
	})
	c := open(t, as(t, ""), nil)
	if made := c.Made(); len(made.LimitsNotKept) > 0 {
		t.Errorf("without limits these are not enforced: %q", made.LimitsNotKept)
	}
}

// D-94: where limits are required and nothing enforces them, no cell is made.
func TestD94RequiredLimitsThatAreNotEnforcedAreRefused(t *testing.T) {
	for _, engine := range engines {
		o := order(t, as(t, ""))
		o.Engine, o.RequireLimits = engine, true
		asksForLimits(&o)
		c, err := host(t).Open(ctx(t), o)
		if err == nil {
			c.Close()
			t.Fatal("a cell was made")
		}
		for _, word := range []string{"memory, cpus, pids", "without --require-limits", "limits_not_enforced"} {
			if faultKind(err) != isolation.Refusal || !strings.Contains(err.Error(), word) {
				t.Errorf("kind %v: %q does not say %q", faultKind(err), err, word)
			}
		}
	}
	alive(t, open(t, as(t, ""), func(o *isolation.Order) { o.RequireLimits = true })) // it asks for none
}
