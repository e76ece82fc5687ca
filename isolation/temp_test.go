package isolation_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"podgrade/isolation"
)

// noteEnvironments puts before this host's programs others that note a variable
// of their environment, one a line, and go on as the real ones.
func noteEnvironments(t *testing.T, variables map[string]string) (notes string) {
	t.Helper()
	dir := t.TempDir()
	notes = filepath.Join(dir, "notes")
	for name, variable := range variables {
		path, err := exec.LookPath(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), fmt.Appendf(nil, "#!/bin/sh\necho %s $%s >>%s\nexec %s \"$@\"\n", name, variable, notes, path), 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return notes
}

// Podman's and the runtime's temporary files lie in the run, where gc finds what a
// killed podgrade left of them: those of a build are as large as its context.
func TestTemporaryFilesOfToolsLieInTheRun(t *testing.T) {
	i := as(t, "")
	notes := noteEnvironments(t, map[string]string{"podman": "TMPDIR", "crun": "_LIBCONTAINER_STATEDIR"})
	o := options(t)
	h := start(t, o)
	defer h.Close()
	ord := order(t, i)
	ord.Engine = isolation.EngineBundle
	want(t, openOn(t, h, ord), "echo cell", "cell\n")
	if _, err := h.Image(ctx(t), i.Pin.ID); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(notes)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		name, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		if dir == "" && name == "crun" {
			continue // asked for its version before there is a run
		}
		found[name] = true
		if info, err := os.Stat(dir); !strings.HasPrefix(dir, o.Scratch+"/") || err != nil || !info.IsDir() {
			t.Errorf("%s has its temporary files in %q: %v", name, dir, err)
		}
	}
	if !found["podman"] || !found["crun"] {
		t.Errorf("noted:\n%s", text)
	}
}
