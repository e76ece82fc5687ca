package isolation_test

import (
	"testing"

	"podgrade/isolation"
)

// engines are those that the tests of this file and of the dump run over.
var engines = []string{isolation.EngineBundle, isolation.EnginePodman}

// onEngine opens a cell on one engine.
func onEngine(t testing.TB, engine string, i isolation.Image, change func(*isolation.Order)) isolation.Cell {
	t.Helper()
	return open(t, i, func(o *isolation.Order) {
		o.Engine = engine
		if change != nil {
			change(o)
		}
	})
}

// overEngines runs a test over both.
func overEngines(t *testing.T, test func(t *testing.T, engine string)) {
	for _, engine := range engines {
		t.Run(engine, func(t *testing.T) { test(t, engine) })
	}
}

func TestCellSaysWhichEngineMadeItAndWhy(t *testing.T) {
	overEngines(t, func(t *testing.T, engine string) {
		c := onEngine(t, engine, as(t, ""), nil)
		if m := c.Made(); m.Engine != engine || m.EngineReason != "asked for" || !m.Verified {
			t.Errorf("made by %q because %q, verified %v", m.Engine, m.EngineReason, m.Verified)
		}
		want(t, c, "cat hello.txt", "hello\n")
	})
}
