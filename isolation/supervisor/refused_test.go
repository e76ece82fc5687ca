package supervisor_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"podgrade/isolation/protocol"
	"podgrade/oci"
)

// Where no filter refuses them, the calls of oci come through, each with what
// became of it, and do no harm: those that a kernel can tell apart from a
// refusal of its own always, the others where there is the capability.
func TestCallsThatNothingRefusesComeThrough(t *testing.T) {
	certain := []oci.Call{
		oci.CallMount, oci.CallUnmount, oci.CallUnshare, oci.CallSetns, oci.CallClone, oci.CallClone3, oci.CallOpenTree,
		oci.CallKeyctl, oci.CallAddKey, oci.CallRequestKey, oci.CallPerfEventOpen, oci.CallPrlimit,
	}
	forEach(t, everyCell, func(t *testing.T, c *cell) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		for _, call := range oci.Calls() {
			a, err := c.Do(ctx, protocol.Request{Op: protocol.OpOpen, Calls: []string{string(call)}}, protocol.Sinks{})
			if err != nil || a.Failure != nil {
				t.Fatalf("%s: %+v, %v", call, a.Failure, err)
			}
			switch {
			case len(a.Open) == 0 && slices.Contains(certain, call):
				t.Errorf("%s is said to be refused", call)
			case len(a.Open) > 0 && !strings.HasPrefix(a.Open[0], string(call)+" ("):
				t.Errorf("%s: %q", call, a.Open)
			}
		}
		a, err := c.Do(ctx, protocol.Request{Op: protocol.OpOpen, Calls: []string{"getpid"}}, protocol.Sinks{})
		if err != nil || a.Failure == nil || !strings.Contains(a.Failure.Message, `"getpid"`) {
			t.Errorf("an unknown call: %+v, %v", a, err)
		}
		c.alive()
	})
}
