package isolation

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// newuidmap asks the source of nsswitch.conf and no file, so the maps that it is asked
// for must be that source's.
func TestRangesOfAnotherSourceAreAskedFor(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	t.Setenv("USER", "dana")
	ask := func(script, file string) ([]idRange, error) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(bin, "getsubids"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
		return callerRanges(context.Background(), file, "sss")
	}
	name := callerNames()[len(callerNames())-1]
	const script = `if [ "$1" = -g ]; then echo "0: $2 2147483648 65536"; else echo "0: $1 2147549184 65536"; echo "1: $1 300000 10"; fi`
	users, err1 := ask(script, subuidFile)
	groups, err2 := ask(script, subgidFile)
	if want := []idRange{{name, 2147549184, 65536}, {name, 300000, 10}}; err1 != nil || !slices.Equal(users, want) {
		t.Errorf("users %+v (%v), want %+v", users, err1, want)
	}
	if want := []idRange{{name, 2147483648, 65536}}; err2 != nil || !slices.Equal(groups, want) {
		t.Errorf("groups %+v (%v), want %+v", groups, err2, want)
	}
	if _, err := ask("echo no ranges >&2; exit 1", subgidFile); err == nil || !strings.Contains(err.Error(), "getsubids -g "+name) || !strings.Contains(err.Error(), "no ranges") {
		t.Errorf("error %v", err)
	}
	if _, err := ask("echo 0: dana x 65536", subuidFile); err == nil {
		t.Error("a range that starts nowhere is none")
	}
	os.Remove(filepath.Join(bin, "getsubids"))
	file := filepath.Join(bin, "subuid") // older shadow-utils know no other source
	if err := os.WriteFile(file, []byte(name+":700000:65536\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := callerRanges(context.Background(), file, "sss"); err != nil || !slices.Equal(got, []idRange{{name, 700000, 65536}}) {
		t.Errorf("without getsubids: %+v, %v", got, err)
	}
}
