package report

import (
	"errors"
	"io"
	"io/fs"
	"slices"

	"github.com/hashicorp/go-multierror"

	"podgrade/tasks/record"
)

// About is what a run knows of itself beyond its rows.
type About struct {
	ExperimentID string // "": default
	Description  string
	// Ungraded: nothing was meant to be graded (execute), so that only those suites are
	// rolled up that have a file already.
	Ungraded bool
}

// Write writes all that a run leaves beside its rows: run.json and run.md,
// then the aggregates of variants, of the experiment and of suites. What cannot
// be written hides nothing else.
func Write(runDir string, s *record.Summary, about About) error {
	var errs *multierror.Error
	errs = multierror.Append(errs, WriteRun(runDir, s), writeExperiment(runDir, s, about))
	suites := s.Suites()
	if about.Ungraded {
		// execute makes none, and leaves none that tells of rows as they were before.
		suites = slices.DeleteFunc(suites, func(suite *record.Suite) bool { return !record.HasSuiteFile(runDir, suite) })
	}
	errs = multierror.Append(errs, writeSuites(runDir, suites))
	return errs.ErrorOrNil()
}

// writeExperiment writes the aggregates of the experiment and of its variants.
func writeExperiment(runDir string, s *record.Summary, about About) error {
	if about.ExperimentID == "" {
		about.ExperimentID = "default"
	}
	experiment := s.Experiment(about.ExperimentID, about.Description)
	errs := multierror.Append(nil,
		experiment.Write(runDir),
		record.WriteBelow(runDir, nil, record.ExperimentPage, ExperimentPage(experiment)))
	for _, id := range experiment.VariantIDs {
		v := experiment.Variants[id]
		if err := v.Write(runDir); err != nil { // also when it can name no directory
			errs = multierror.Append(errs, err)
			continue
		}
		errs = multierror.Append(errs, record.WriteBelow(runDir, []string{id}, record.VariantPage, VariantPage(v)))
	}
	return errs.ErrorOrNil()
}

// writeSuites writes the roll-ups of suites.
func writeSuites(runDir string, suites []*record.Suite) error {
	var errs *multierror.Error
	for _, suite := range suites {
		if err := suite.Write(runDir); err != nil { // also when it can name no directory
			errs = multierror.Append(errs, err)
			continue
		}
		errs = multierror.Append(errs, record.WriteBelow(runDir, suite.Path(), record.SuitePage, SuitePage(suite)))
	}
	return errs.ErrorOrNil()
}

// WriteRun writes run.json and run.md.
func WriteRun(runDir string, s *record.Summary) error {
	if err := s.Write(runDir); err != nil {
		return err
	}
	return record.WriteBelow(runDir, nil, record.RunPage, RunPage(s))
}

// Refresh writes run.md anew from run.json, after a grade has changed a row.
// A run that has no such page gets none.
func Refresh(runDir string) error {
	row, err := record.OpenRow(runDir)
	if err != nil {
		return err
	}
	defer row.Close()
	switch has, err := row.Has(record.RunPage); {
	case err != nil:
		return err
	case !has:
		return nil
	}
	s, err := record.ReadSummary(runDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return record.WriteBelow(runDir, nil, record.RunPage, RunPage(s))
}

// RefreshRow writes the page of a row anew, after a grade has changed its
// record. A row that has no such page gets none.
func RefreshRow(row *record.Row, r *record.Record, id record.Identity) error {
	if has, err := row.Has(record.RowPage); err != nil || !has {
		return err
	}
	return row.Replace(record.RowPage, func(w io.Writer) error { return RowPage(w, r, id) })
}
