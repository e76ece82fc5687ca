package worker

import (
	"encoding/json"
	"fmt"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// readSpec keeps the specification: measuring the cell needs it later.
func (c *cell) readSpec(raw json.RawMessage) error {
	var s specs.Spec
	if err := json.Unmarshal(raw, &s); err != nil {
		return fmt.Errorf("read the specification: %w", err)
	}
	if s.Linux == nil || s.Process == nil {
		return fmt.Errorf("the specification of cell %s has no process or no Linux part", c.name)
	}
	c.spec = &s
	return nil
}

// withoutResources is the specification for the runtime: the control group that
// it is started in has the limits already, and it makes none itself.
func (c *cell) withoutResources(raw json.RawMessage) (*specs.Spec, json.RawMessage, error) {
	if c.spec.Linux.Resources == nil {
		return c.spec, raw, nil
	}
	spec, linux := *c.spec, *c.spec.Linux
	linux.Resources, spec.Linux = nil, &linux
	raw, err := json.Marshal(&spec)
	return &spec, raw, err
}
