package report

import (
	"github.com/hashicorp/go-multierror"

	"podgrade/tasks/record"
)

// RefreshAggregates makes the files of variants, of the experiment and of suites
// anew after rows of a run were graded, and returns those suites of these rows that
// missed a threshold. A run without experiment.json gets none, nor any of variants.
// Suites get theirs with the first verdict of a row, since execute makes none.
func RefreshAggregates(runDir string, graded []record.Identity) (missed []*record.Suite, err error) {
	unlock, err := record.LockSummary(runDir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	s, err := record.ReadWithSuites(runDir)
	if err != nil {
		return nil, err
	}
	var errs *multierror.Error
	if id, description, ok := record.ReadExperimentNames(runDir); ok {
		errs = multierror.Append(errs, writeExperiment(runDir, s, About{ExperimentID: id, Description: description}))
	}
	judged, err := writeJudged(runDir, s)
	errs = multierror.Append(errs, err)
	of := suitesOf(s, graded)
	for _, suite := range judged {
		if !suite.Passed && of[suiteKey{suite.VariantID, suite.SuiteID}] {
			missed = append(missed, suite)
		}
	}
	return missed, errs.ErrorOrNil()
}

// Rebuild writes all that a run leaves beside its rows into a directory, from a
// summary that was made anew from the records of the run in runDir.
func Rebuild(runDir, to string, s *record.Summary) error {
	if err := WriteRun(to, s); err != nil {
		return err
	}
	id, description, _ := record.ReadExperimentNames(runDir)
	errs := multierror.Append(nil, writeExperiment(to, s, About{ExperimentID: id, Description: description}))
	_, err := writeJudged(to, s)
	return multierror.Append(errs, err).ErrorOrNil()
}

// writeJudged writes the suites of which a row was graded, and those that have a
// file, which is to say nothing old. It returns them.
func writeJudged(runDir string, s *record.Summary) (judged []*record.Suite, err error) {
	for _, suite := range s.Suites() {
		if suite.AverageScore != nil || record.HasSuiteFile(runDir, suite) {
			judged = append(judged, suite)
		}
	}
	return judged, writeSuites(runDir, judged)
}

// suiteKey is a suite under a variant.
type suiteKey struct{ variant, suite string }

// suitesOf are the suites that rows belong to.
func suitesOf(s *record.Summary, rows []record.Identity) map[suiteKey]bool {
	among := map[record.Identity]bool{}
	for _, id := range rows {
		among[id] = true
	}
	of := map[suiteKey]bool{}
	for _, row := range s.Rows {
		if among[row.Identity] {
			of[suiteKey{row.VariantID, row.SuiteID}] = true
		}
	}
	return of
}
