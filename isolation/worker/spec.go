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
