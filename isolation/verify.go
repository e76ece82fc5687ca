package isolation

import (
	"context"
	"errors"
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
	type calls struct {
		open []string
		err  error
	}
	tried := make(chan calls, 1)
	go func() { // the supervisor tries while the worker measures
		open, err := c.openCalls(ctx, spec)
		tried <- calls{open, err}
	}()
	reply, err := c.ask(ctx, worker.Request{Op: worker.OpMeasure})
	answer := <-tried
	if err != nil {
		return &Fault{Tried: "measure the cell", Why: c.host.workerFault(err)}
	}
	if answer.err != nil {
		return answer.err
	}
	reply.Measured.Open = answer.open
	if differences := oci.Verify(spec, *reply.Measured, c.order.Plan.Network); len(differences) > 0 {
		c.host.filters.forget(c.profile)
		return &Fault{Tried: "verify the cell", Why: errors.New("it is not what was asked for: " + strings.Join(differences, "; ")),
			Do: "check the OCI runtime " + c.host.runtime.Path}
	}
	c.made.Verified = true
	c.host.filters.verified(c.profile, reply.Filter)
	return nil
}

// openCalls asks the supervisor to try the system calls that the filter of
// the specification refuses, and names those that it let through.
func (c *cell) openCalls(ctx context.Context, spec *specs.Spec) ([]string, error) {
	var names []string
	for _, call := range oci.RefusedCalls(spec) {
		names = append(names, string(call))
	}
	waiting, cancel := context.WithTimeout(ctx, helloGrace)
	defer cancel()
	answer, err := c.client.Do(waiting, protocol.Request{Op: protocol.OpOpen, Calls: names}, protocol.Sinks{})
	if err == nil && answer.Failure != nil {
		err = failure(answer.Failure)
	}
	if err != nil {
		return nil, &Fault{Tried: "try the cell's system call filter", On: "of " + c.order.Image.Pin.String(), Why: err,
			Do: "install podgrade and podgrade-init together"}
	}
	return answer.Open, nil
}
