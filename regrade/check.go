package regrade

import (
	"github.com/hashicorp/go-multierror"

	"podgrade/oci"
	"podgrade/policy"
)

// RowFindings are all reasons why a row cannot be run, as far as they can be
// known before anything starts (spec/regrade.md 5, D-90); with grade also those
// why it could not be graded then.
func RowFindings(job Job, o ExecuteOptions, grade bool) []Finding {
	file, task := job.Row.File.Path, job.Row.Task
	var found []Finding
	if grade {
		found = add(found, criteriaProblems(file, task)...)
	}
	paths := task.CheckPaths(job.Row.File.Dir)
	found = add(found, findings(paths)...)
	if err := CheckJob(job, o); err != nil && len(paths) == 0 {
		found = add(found, Finding{File: file, Text: refusalText(err)})
	}
	if grade && len(paths) == 0 {
		request := job.request(o)
		request.Phase = oci.Grade
		if _, err := policy.Grants(request); err != nil {
			found = add(found, Finding{File: file, Text: refusalText(err)})
		}
	}
	return found
}

// CheckJobs refuses a run of which a row cannot be run, before anything starts.
// The error is a *Error that names every reason once.
func CheckJobs(jobs []Job, o ExecuteOptions, grade bool) error {
	var all []Finding
	for _, job := range jobs {
		all = add(all, RowFindings(job, o, grade)...)
	}
	if len(all) == 0 {
		return nil
	}
	list := &multierror.Error{ErrorFormat: oneALine}
	for _, f := range all {
		list = multierror.Append(list, f)
	}
	return &Error{Kind: Refused, Tried: "run the tasks", Why: list, Do: "correct them, or leave them out; `podgrade plan` shows them all"}
}
