package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"podgrade/isolation"
	"podgrade/isolation/states"
	"podgrade/regrade"
)

// A layer is found by what its diff id begins with, where that is one only.
func TestAStateLayerIsNamedByAPrefix(t *testing.T) {
	var kept []isolation.State
	for _, id := range []string{"sha256:abcd01", "sha256:abcd02", "sha256:ff"} {
		kept = append(kept, isolation.State{Info: states.Info{DiffID: id}})
	}
	for id, want := range map[string]string{"f": "sha256:ff", "sha256:abcd02": "sha256:abcd02", "abcd01": "sha256:abcd01", "abcd": "", "0": "", "": "", "sha256:": ""} {
		got, err := stateNamed(kept, id)
		if got.DiffID != want || (want == "") != (regrade.KindOf(err) == regrade.Refused) {
			t.Errorf("%q: %q (%v), want %q", id, got.DiffID, err, want)
		}
	}
}

// A layer that rows need is removed by no one who was not asked; the rows are
// named. What no row needs is removed without a word.
func TestAStateLayerThatRowsNeedIsAskedAbout(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	was := os.Stdin
	os.Stdin = null
	defer func() { os.Stdin = was }()
	layers := []isolation.State{{Info: states.Info{DiffID: "sha256:ff"}}}
	var out bytes.Buffer
	if err := askForStates(context.Background(), &out, layers, func(isolation.State) []string { return nil }); err != nil || out.Len() > 0 {
		t.Errorf("needed by none: %v, %q", err, out.String())
	}
	err = askForStates(context.Background(), &out, layers, func(isolation.State) []string { return []string{"/r/default/t/00"} })
	if regrade.KindOf(err) != regrade.Refused || !strings.Contains(err.Error(), "--yes") || !strings.Contains(out.String(), "sha256:ff is needed by /r/default/t/00") {
		t.Errorf("needed by a row: %v, %q", err, out.String())
	}
}
