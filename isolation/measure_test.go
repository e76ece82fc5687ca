package isolation_test

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"podgrade/isolation"
	"podgrade/oci"
)

// record makes TestACellMeasuresAsItsSpecificationSays write what the tests of
// package oci falsify: oci/testdata/measured.json.
var record = flag.String("record", "", "write the specification and the measurement of a cell to this file")

// A running cell measures the same later as when it was opened, whatever its
// commands do meanwhile.
func TestACellMeasuresAsItsSpecificationSays(t *testing.T) {
	for _, kind := range cellsToAttack {
		t.Run(kind.name, func(t *testing.T) {
			c := open(t, as(t, kind.user), func(o *isolation.Order) { o.Reference = t.TempDir(); kind.change(o) })
			want(t, c, "sleep 1000 >/dev/null 2>&1 & ulimit -n 100; echo 500 > /proc/self/oom_score_adj; hostname", "cell\n")
			measured, err := isolation.Measure(ctx(t), c)
			if err != nil {
				t.Fatal(err)
			}
			spec := c.Made().Spec
			if differences := oci.Verify(spec, *measured, oci.Sealed); len(differences) > 0 {
				t.Errorf("differences: %s", strings.Join(differences, "; "))
			}
			if kind.name == "docker as root" && *record != "" {
				write(t, *record, spec, measured)
			}
		})
	}
}

// write writes both without the paths of this machine.
func write(t *testing.T, path string, spec *specs.Spec, measured *oci.Measured) {
	text, err := json.MarshalIndent(map[string]any{"spec": spec, "measured": measured}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	neutral := strings.ReplaceAll(string(text), shared.dir, "/podgrade")
	if err := os.WriteFile(path, []byte(neutral+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}
