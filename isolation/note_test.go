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
