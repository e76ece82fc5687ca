package regrade

import (
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/hashicorp/go-multierror"

	"podgrade/isolation"
	"podgrade/oci"
	"podgrade/policy"
	"podgrade/tasks"
	"podgrade/tasks/agents"
	"podgrade/tasks/criteria"
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
	for _, path := range []string{absolute(file), o.keyDir()} {
		if !utf8.ValidString(path) {
			found = add(found, Finding{File: file, Text: strconv.QuoteToASCII(path) + ": its path is not UTF-8, and no cell could be told of it"})
		}
	}
	if grade {
		found = add(found, criteriaProblems(file, task)...)
	}
	paths := task.CheckPaths(job.Row.File.Dir)
	found = add(found, inFile(file, findings(paths))...)
	for _, refused := range o.cannotGive(task) {
		found = add(found, refused.finding(file))
	}
	found = add(found, setUpProblems(file, task)...)
	if len(paths) > 0 {
		return found // what is not there has been named, with its place
	}
	request := job.request(o)
	for _, phase := range []oci.Phase{oci.Execute, oci.Grade} {
		request.Phase = phase
		if phase == oci.Grade && !grade {
			break
		}
		if phase == oci.Grade && o.gradesOnHost() {
			request.Place = policy.OnHost
		}
		if _, err := policy.Ask(request, o.Policy); err != nil {
			found = add(found, Finding{File: file, Text: refusalText(err)})
		}
	}
	return found
}

// gradesOnHost: every row is graded on this host, whatever it was executed in.
func (o ExecuteOptions) gradesOnHost() bool { return o.Grading != nil && o.Grading.AllowHost }

// setUpProblems are what the set-up of the cell, or the start of the agent, would
// fail with for what the task file itself says.
func setUpProblems(file string, task *tasks.Task) (found []Finding) {
	if _, err := criteria.NewRecorder(task.Sandbox.RecordCLI); err != nil {
		found = add(found, Finding{File: file, Key: "sandbox.record_cli", Text: err.Error()})
	}
	if task.Agent == nil || task.Agent.Type != tasks.CommandLine {
		return found // a solution is read when the row is executed
	}
	agent, err := agents.For(task.Agent.Type)
	if err == nil {
		var start *agents.Start
		if start, err = agent.Start(agents.Request{Prompt: task.InitialPrompt, Shell: shell, Command: task.Agent.Command, Way: task.Agent.Prompt}); err == nil {
			err = fitsStdin(start)
		}
	}
	if err != nil {
		found = add(found, Finding{File: file, Key: "initial_prompt", Text: err.Error()})
	}
	if n := len(task.Agent.Command); n >= mostArgument {
		found = add(found, Finding{File: file, Key: "agent.command", Text: fmt.Sprintf("it has %d bytes, and a program takes fewer than %d: put it into a file of the task directory", n, mostArgument)})
	}
	return found
}

// keyDir is the directory of the key that verdicts are signed with, which no cell may
// show.
func (o ExecuteOptions) keyDir() string {
	if o.Grading == nil {
		return keyDirOf(o.Keys)
	}
	return keyDirOf(o.Grading.Keys)
}

// mostArgument is what the kernel gives one argument of a program, in bytes, with the
// one that ends it (execve(2), MAX_ARG_STRLEN).
const mostArgument = 128 << 10

// fitsStdin refuses a prompt that is more than a cell takes on standard input.
func fitsStdin(start *agents.Start) error {
	if len(start.Stdin) > isolation.MaxStdin {
		return fmt.Errorf("the prompt has %d bytes, and standard input takes %d: write prompt: file", len(start.Stdin), isolation.MaxStdin)
	}
	return nil
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
	return refusedFor(all)
}

// refusedFor is the refusal of a run for all that was found; nil: nothing was.
func refusedFor(all []Finding) error {
	if len(all) == 0 {
		return nil
	}
	list := &multierror.Error{ErrorFormat: oneALine}
	for _, f := range all {
		list = multierror.Append(list, f)
	}
	return &Error{Kind: Refused, Tried: "run the tasks", Why: list, Do: "correct them, or leave them out; `podgrade plan` shows them all"}
}
