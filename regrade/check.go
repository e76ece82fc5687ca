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
	found := rowProblems(job, o, grade)
	for _, lack := range o.lacks(job.Row.Task) {
		found = add(found, lack.finding(job.Row.File.Path))
	}
	return found
}

// rowProblems are the reasons that lie in the task.
func rowProblems(job Job, o ExecuteOptions, grade bool) (found []Finding) {
	file, task := job.Row.File.Path, job.Row.Task
	if grade {
		found = add(found, criteriaProblems(file, task)...)
	}
	paths := task.CheckPaths(job.Row.File.Dir)
	found = add(found, findings(paths)...)
	for _, refused := range o.cannotGive(task) {
		found = add(found, refused.finding(file))
	}
	if len(paths) > 0 {
		return found // what is not there has been named, with its place
	}
	request := job.request(o)
	for _, phase := range []oci.Phase{oci.Execute, oci.Grade} {
		request.Phase = phase
		if phase == oci.Grade && !grade {
			break
		}
		if _, err := policy.Ask(request, o.Policy); err != nil {
			found = add(found, Finding{File: file, Text: refusalText(err)})
		}
	}
	return found
}

func (o obstacle) finding(file string) Finding {
	return Finding{File: file, Text: o.why.Error() + "; " + o.do}
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
