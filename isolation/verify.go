package isolation

import (
	"context"
	"errors"
	"fmt"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"podgrade/isolation/protocol"
	"podgrade/isolation/worker"
	"podgrade/oci"
)

// verify compares the started cell with its specification: what the worker
// measures from outside, and what the cell's filter does to the supervisor.
// No command has run yet.
func (c *cell) verify(ctx context.Context, spec *specs.Spec) error {
	reply, err := c.ask(ctx, worker.Request{Op: worker.OpMeasure})
	if err != nil {
		return &Fault{Tried: "measure the cell", Why: c.host.workerFault(err)}
	}
	differences := oci.Verify(spec, *reply.Measured, c.order.Plan.Network)
	if len(differences) == 0 {
		if differences, err = c.unfiltered(ctx, spec); err != nil {
			return err
		}
	}
	if len(differences) > 0 {
		return &Fault{Tried: "verify the cell", Why: errors.New("it is not what was asked for: " + strings.Join(differences, "; ")),
			Do: "check the OCI runtime " + c.host.runtime.Path}
	}
	c.made.Verified = true
	return nil
}

// unfiltered asks the supervisor to try the system calls that the filter of
// the specification refuses, and names those that came through.
func (c *cell) unfiltered(ctx context.Context, spec *specs.Spec) ([]string, error) {
	var names []string
	for _, call := range oci.RefusedCalls(spec) {
		names = append(names, string(call))
	}
	waiting, cancel := context.WithTimeout(ctx, helloGrace)
	defer cancel()
	answer, err := c.client.Do(waiting, protocol.Request{Op: protocol.OpThrough, Calls: names}, protocol.Sinks{})
	if err == nil && answer.Failure != nil {
		err = failure(answer.Failure)
	}
	if err != nil {
		return nil, &Fault{Tried: "try the cell's system call filter", On: "of " + c.order.Image.Pin.String(), Why: err,
			Do: "install podgrade and podgrade-init together"}
	}
	var differences []string
	for _, through := range answer.Through {
		differences = append(differences, fmt.Sprintf("seccomp: asked for a filter that refuses it, the cell let this system call through: %s", through))
	}
	return differences, nil
}
