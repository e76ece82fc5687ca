package record

import (
	"os"
	"strings"
)

// ReadWithSuites reads a run's summary, and from the records of its rows what no
// summary holds: which suite each belongs to, and what a suite needs of it. A row
// whose record cannot be read counts in the suite that its task id names, so that no
// suite looks smaller, and better, than it is. Nothing is written.
func ReadWithSuites(runDir string) (*Summary, error) {
	dir, err := resolved(runDir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	s, err := readSummary(root)
	if err != nil {
		return nil, err
	}
	b := &rebuilder{root: root, old: s, rows: map[Identity]*foundRow{}}
	if err := b.walk(); err != nil {
		return nil, err
	}
	var lost []*SummaryRow
	for _, row := range s.Rows {
		found := b.rows[row.Identity]
		if found == nil {
			lost = append(lost, row)
			continue
		}
		row.SuiteID, row.RowID, row.results = found.SuiteID, found.RowID, found.results
	}
	s.adopt(lost)
	return s, nil
}

// adopt finds the suites of rows without a record, among those of the other rows:
// the task id of a row of a suite is SUITE/ROW.
func (s *Summary) adopt(lost []*SummaryRow) {
	if len(lost) == 0 {
		return
	}
	suites := s.Suites()
	for _, row := range lost {
		for _, suite := range suites {
			if id, ok := strings.CutPrefix(row.TaskID, suite.SuiteID+"/"); ok && suite.VariantID == row.VariantID {
				row.SuiteID, row.RowID = suite.SuiteID, id
			}
		}
	}
}

// LockSummary keeps other podgrades from refreshing the run's summary, and the files
// beside it, until unlock is called.
func LockSummary(runDir string) (unlock func(), err error) {
	root, err := os.OpenRoot(runDir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return lock(root, RunFile)
}

// ReadExperimentNames returns how the run's experiment is called and described;
// false when no file says it.
func ReadExperimentNames(runDir string) (id, description string, ok bool) {
	root, err := os.OpenRoot(runDir)
	if err != nil {
		return "", "", false
	}
	defer root.Close()
	data, err := readPlain(root, ExperimentFile, MaxRun)
	if err != nil {
		return "", "", false
	}
	doc, err := ParseObject(data)
	if err != nil {
		return "", "", false
	}
	return doc.Text("experiment_id"), doc.Text("description"), true
}

// HasSuiteFile tells whether the suite has a file below the run directory.
func HasSuiteFile(runDir string, s *Suite) bool {
	elements, err := s.elements()
	if err != nil {
		return false
	}
	root, err := below(runDir, elements, existing)
	if err != nil {
		return false
	}
	defer root.Close()
	_, err = root.Lstat(SuiteFile)
	return err == nil
}
