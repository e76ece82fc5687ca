package isolation

import (
	"os"
	"path/filepath"
	"testing"
)

func TestStoresOfMountProgramsAreNotTakenForTheKernelsOverlay(t *testing.T) {
	for content, want := range map[string]string{"true": overlayByProgram, "true\n": overlayByProgram, "false": overlayDriver, "": overlayDriver} {
		store := t.TempDir()
		layer := filepath.Join(store, "abc", "diff")
		if err := os.MkdirAll(layer, 0o700); err != nil {
			t.Fatal(err)
		}
		if content != "" {
			if err := os.WriteFile(filepath.Join(store, ".has-mount-program"), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var i inspected
		i.GraphDriver.Name = overlayDriver
		if got := i.driver([]string{layer}); got != want {
			t.Errorf("a store that says %q: driver %q, want %q", content, got, want)
		}
		h := &Host{}
		engine, reason, err := h.chooseEngine(Order{Image: Image{Driver: i.driver([]string{layer})}})
		if wantEngine := map[bool]string{true: EnginePodman, false: EngineBundle}[want == overlayByProgram]; err != nil || engine != wantEngine {
			t.Errorf("a store that says %q: engine %q (%s, %v), want %q", content, engine, reason, err, wantEngine)
		}
	}
}

func TestSELinuxEnforces(t *testing.T) {
	dir := t.TempDir()
	for content, want := range map[string]bool{"1": true, "1\n": true, "0": false, "": false} {
		file := filepath.Join(dir, "enforce")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := seLinuxEnforces(file); got != want {
			t.Errorf("%q: %v, want %v", content, got, want)
		}
	}
	if seLinuxEnforces(filepath.Join(dir, "absent")) {
		t.Error("a host without SELinux enforces it")
	}
}
