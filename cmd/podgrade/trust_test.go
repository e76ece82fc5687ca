package main

import (
	"bytes"
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"podgrade/oci"
	"podgrade/regrade"
	"podgrade/tasks/record/fixture"
)

// TestTheOrderOfRowsIsNoMatterForTheExitCode of trust verify: a row that
// nobody has signed says more than an argument that is no row.
func TestTheOrderOfRowsIsNoMatterForTheExitCode(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	row := consentRow(t, fixture.Pinned, oci.Pin{ID: "11", Platform: oci.HostPlatform()})
	none := filepath.Join(t.TempDir(), "none")
	for _, rows := range [][]string{{none, row}, {row, none}, {none, row, none}} {
		if code := run(t.Context(), append([]string{"podgrade", "trust", "verify"}, rows...), io.Discard, io.Discard); code != regrade.ExitFailed {
			t.Errorf("%q: exit code %d", rows, code)
		}
	}
}

// TestTrustVerifySaysThatItSawNoWorkspace: a changed workspace does not change its
// answer, so it must not be read as one about the workspace.
func TestTrustVerifySaysThatItSawNoWorkspace(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	row := consentRow(t, fixture.Pinned, oci.Pin{ID: "11", Platform: oci.HostPlatform()})
	for option, want := range map[string]string{"--json=false": "  workspace: not compared here", "--json": `"workspace":"not compared"`} {
		var out bytes.Buffer
		run(t.Context(), []string{"podgrade", "trust", "verify", option, row}, &out, io.Discard)
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s: %s", option, &out)
		}
	}
}

func TestTrustIsInterrupted(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	row := consentRow(t, fixture.Pinned, oci.Pin{ID: "11", Platform: oci.HostPlatform()})
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	for _, verb := range []string{"verify", "show"} {
		if code := run(interrupted, []string{"podgrade", "trust", verb, row, row}, io.Discard, io.Discard); code != regrade.ExitInterrupted {
			t.Errorf("trust %s: exit code %d", verb, code)
		}
	}
}
