package isolation_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"podgrade/isolation"
	"podgrade/isolation/testimages"
)

// TestAStoreWithoutOverlayIsForThePodmanEngine: auto takes the engine that
// works, says why, and the bundle engine is refused with a remedy.
func TestAStoreWithoutOverlayIsForThePodmanEngine(t *testing.T) {
	// Podman's own data base remembers driver and place of a store, and what it
	// remembers wins over its configuration: so all of it lies elsewhere.
	dir := t.TempDir()
	t.Setenv(dataVariable, dir)
	t.Setenv("XDG_CONFIG_HOME", dir)
	t.Setenv("STORAGE_DRIVER", "vfs")
	t.Setenv(storeVariable, "") // so that it is set again afterwards
	os.Unsetenv(storeVariable)
	h := start(t, options(t))
	defer func() {
		if err := h.Sweep(ctx(t), filepath.Join(dir, "containers")); err != nil {
			t.Error(err)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}()
	o := order(t, importOn(t, h, testimages.BusyboxAs("1000")))
	cell := openOn(t, h, o)
	m := cell.Made()
	if m.Engine != isolation.EnginePodman || !strings.Contains(m.EngineReason, "vfs") || !m.Verified {
		t.Errorf("made by %q because %q, verified %v", m.Engine, m.EngineReason, m.Verified)
	}
	want(t, cell, "id -u; cat hello.txt", "1000\nhello\n")
	if err := cell.CheckImage(ctx(t)); err != nil {
		t.Error(err)
	}
	if err := cell.Close(); err != nil {
		t.Error(err)
	}
	o.Engine = isolation.EngineBundle
	if _, err := h.Open(ctx(t), o); faultKind(err) != isolation.Refusal || !strings.Contains(err.Error(), "--engine podman") {
		t.Errorf("the bundle engine: %v", err)
	}
}
