package isolation

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"podgrade/isolation/states"
)

// A layer that an import relies on was used by it: it is not the next to go.
func TestANoteOfARowIsAUseOfTheLayer(t *testing.T) {
	h := &Host{options: Options{Scratch: t.TempDir()}, privilege: ordinary{}}
	id := "sha256:" + strings.Repeat("1", 64)
	info := states.InfoFile(h.stateDir(id))
	old := time.Now().Add(-time.Hour)
	if err := os.MkdirAll(filepath.Dir(info), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(info, []byte(`{"diff_id":"`+id+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(info, old, old); err != nil {
		t.Fatal(err)
	}
	if err := h.NoteState(id, "/runs/a/00"); err != nil {
		t.Fatal(err)
	}
	state, err := readState(h.stateDir(id))
	if err != nil || time.Since(state.Used) > time.Minute {
		t.Errorf("it was used at %v, %v", state.Used, err)
	}
}

// What an import holds is not pruned before it is noted who needs it, and is again once
// it is released.
func TestAHeldLayerIsNotPruned(t *testing.T) {
	o := Options{Scratch: t.TempDir()}
	h := &Host{options: o, privilege: ordinary{}}
	id := "sha256:" + strings.Repeat("1", 64)
	info := states.InfoFile(h.stateDir(id))
	if err := os.MkdirAll(filepath.Dir(info), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, none := range []string{id, "", "sha256:..", "../" + id} {
		if _, err := h.HoldState(none); err != ErrNoState {
			t.Errorf("%q is held: %v", none, err)
		}
	}
	if err := os.WriteFile(info, []byte(`{"diff_id":"`+id+`","made":"2026-01-01T00:00:00Z"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	release, err := h.HoldState(id)
	if err != nil {
		t.Fatal(err)
	}
	prune := func() int {
		t.Helper()
		gone, err := PruneStates(t.Context(), o, StatePrune{Most: 0, UnusedFor: time.Nanosecond, DryRun: true})
		if err != nil {
			t.Fatal(err)
		}
		return len(gone)
	}
	if prune() != 0 {
		t.Error("what is held would be pruned")
	}
	release()
	if prune() != 1 {
		t.Error("what was released is held")
	}
}
