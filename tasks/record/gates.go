package record

import (
	"fmt"
	"io/fs"
	"os"
)

// Gate is what a suite's file says about its thresholds.
type Gate struct {
	SuiteID   string
	VariantID string
	Passed    bool
	Missed    []string // what was missed, one line each
}

// maxSuite bounds what is read of a suite's file, in bytes.
const maxSuite = 16 << 20

// ReadGates reads the suites of a run, by their place below the variants.
// Files that cannot be read are left out.
func ReadGates(runDir string) []Gate {
	root, err := os.OpenRoot(runDir)
	if err != nil {
		return nil
	}
	defer root.Close()
	names, err := fs.Glob(root.FS(), "*/*/"+SuiteFile)
	if err != nil {
		return nil
	}
	var gates []Gate
	for _, name := range names {
		data, err := readPlain(root, name, maxSuite)
		if err != nil {
			continue
		}
		doc, err := ParseObject(data)
		if err != nil {
			continue
		}
		gates = append(gates, gateOf(doc))
	}
	return gates
}

// gateOf counts a suite that does not say that it passed as one that did not.
func gateOf(doc *Object) Gate {
	g := Gate{SuiteID: doc.Text("suite_id"), VariantID: doc.Text(FieldVariantID)}
	g.Passed, _ = doc.Value("passed").Bool()
	aggregates, _ := doc.Value("criterion_aggregates").Elements()
	for i, raw := range aggregates {
		aggregate := objectOf(raw)
		label := fmt.Sprintf("criterion %d (%s)", i+1, aggregate.Text("criterion_type"))
		if text := aggregate.Text("error"); text != "" {
			g.Missed = append(g.Missed, label+": "+text)
		}
		checks, _ := aggregate.Value("threshold_checks").Elements()
		for _, raw := range checks {
			check := objectOf(raw)
			if passed, _ := check.Value("passed").Bool(); passed {
				continue
			}
			g.Missed = append(g.Missed, fmt.Sprintf("%s: %s is %s, and at least %s was asked for",
				label, check.Text("metric"), check.Value("actual_value"), check.Value("min_value")))
		}
	}
	return g
}
