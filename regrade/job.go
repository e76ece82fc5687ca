package regrade

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"podgrade/oci"
	"podgrade/policy"
	"podgrade/tasks"
	"podgrade/tasks/agents"
	"podgrade/tasks/record"
)

// Job is one row that is to be executed.
type Job struct {
	Row tasks.Row
}

// Identity names the job's row.
func (j Job) Identity() record.Identity {
	return record.Identity{VariantID: j.Row.Variant, TaskID: j.Row.Task.TaskID, Replicate: j.Row.Replicate}
}

// Preservation says what becomes of a row's workspace (spec/run-record.md 1.5).
type Preservation string

// The preservation modes, by the names that upstream gives them.
const (
	PreserveNone   Preservation = "NONE"          // it is removed once nothing needs it
	PreserveMove   Preservation = "MOVE_ON_WRITE" // it gets its name when the row has ended
	PreserveDirect Preservation = "DIRECT_WRITE"  // it has its name while the agent works
)

// Preservations returns the modes that can be asked for.
func Preservations() []Preservation {
	return []Preservation{PreserveNone, PreserveMove, PreserveDirect}
}

// ExecuteOptions say how rows are executed.
type ExecuteOptions struct {
	// Start starts the engines. It is called after every check that needs none,
	// at most once a row.
	Start func(context.Context) (Engines, error)
	// DefaultImage is the image of rows that name none; "": none is set.
	DefaultImage string
	// Pull fetches images that the store lacks (--pull missing).
	Pull bool
	// OnHost executes tempdir rows without a container (--on-host).
	OnHost bool
	// Preserve is the preservation mode; "": by the driver.
	Preserve Preservation
	// Graded: the row is graded right after, so that preservation NONE keeps the
	// workspace until Discard.
	Graded bool
	// Grading is how it is graded then: a row with `grade: live` is asked in the
	// agent's own cell. nil: no row is.
	Grading *Options
	// RequireLimits refuses a cell without the limits that the task asks for
	// (--require-limits). Else the row is stamped.
	RequireLimits bool
	// Output is told each line that the agent prints, as it comes and not made
	// safe to print, of both streams at once; nil: nobody watches.
	Output func(stream, line string)
	// Notice receives warnings, safe to print.
	Notice io.Writer
	// Policy is the operator's policy file; nil: there is none. Of a task file only
	// what it denies counts.
	Policy *policy.File
	// Lookup finds a variable of this host.
	Lookup func(name string) (string, bool)
	// Version of podgrade, for the record.
	Version string
	// Keys are what rows are signed with; nil: none is.
	Keys *policy.Keys
	// Scratch is the directory of podgrade's own data, which nothing is given of;
	// "": the engines know it.
	Scratch string

	steps *steps // of tests; nil: allSteps
}

// Executed is what an execute came to.
type Executed struct {
	Row    record.Identity
	Status record.Status
	// Gradable: there is a workspace that a grade means something for. It is
	// not after a failed set-up or build, nor when the host took the cell away.
	Gradable bool
	Message  string // why the status is no better; not made safe to print
	Stamps   []record.Stamp
	Record   *record.Record
	Live     *Live // for its grade; nil: the criteria are asked in a cell of their own
}

// consentTo makes every refusal that needs nothing started, as of an agent that
// this release cannot start or a network that it cannot give, and returns what
// the row may do: its task file is the operator's own, so that nobody is asked.
func consentTo(job Job, o ExecuteOptions) (policy.Accepted, error) {
	if err := o.refuses(job.Row.Task); err != nil {
		return policy.Accepted{}, &Error{Kind: Refused, Tried: "execute", On: job.Identity().String(), Why: err.why, Do: err.do}
	}
	return policy.Consent(job.request(o), policy.Answer{TaskFile: true, Policy: o.Policy}, io.Discard)
}

func (j Job) request(o ExecuteOptions) policy.Request {
	place := policy.InCell
	if o.onHost(j.Row.Task) {
		place = policy.OnHost
	}
	return policy.Request{
		Task: j.Row.Task, Phase: oci.Execute, Planned: true, Place: place, HostAllowed: true,
		DefaultImage: o.DefaultImage, Pull: o.Pull, TaskFile: absolute(j.Row.File.Path), Lookup: o.Lookup, KeyDir: keyDirOf(o.Keys),
	}
}

// onHost: only rows of upstream's default driver may run without a container.
func (o ExecuteOptions) onHost(task *tasks.Task) bool {
	return o.OnHost && task.Sandbox.Driver == tasks.DriverTempdir
}

// obstacle is why a row cannot be executed here, and the way around.
type obstacle struct {
	why error
	do  string
}

// refuses finds what no engine is needed to find: the first of it.
func (o ExecuteOptions) refuses(task *tasks.Task) *obstacle {
	for _, found := range [][]obstacle{o.lacks(task), o.cannotGive(task)} {
		if len(found) > 0 {
			return &found[0]
		}
	}
	return nil
}

// lacks lists what this release or this host has not, and another may have:
// nothing is wrong with the task.
func (o ExecuteOptions) lacks(task *tasks.Task) []obstacle {
	list := noModelFor(task)
	if o.onHost(task) {
		return list
	}
	if value, _ := o.Lookup(oci.EnvInContainer); value == "1" {
		list = append(list, obstacle{fmt.Errorf("%s=1 says that podgrade itself runs in a container", oci.EnvInContainer), "unset it where that is wrong"})
	}
	if wantsDefaultImage(task) && o.DefaultImage == "" {
		list = append(list, obstacle{errNoDefaultImage, getDefaultImage})
	}
	return list
}

func wantsDefaultImage(task *tasks.Task) bool {
	return policy.Request{Task: task, Planned: true, Place: policy.InCell}.WantsDefaultImage()
}

// noModelFor lists what of the task calls a model.
func noModelFor(task *tasks.Task) (list []obstacle) {
	kind := ""
	if task.Agent != nil {
		kind = task.Agent.Type
	}
	works := "give --type " + strings.Join(agents.Kinds(), ", --type ")
	if kind == "" {
		list = append(list, obstacle{errors.New("no agent is set"), works})
	} else if _, err := agents.For(kind); err != nil {
		list = append(list, obstacle{err, works})
	}
	if task.Simulation != nil && task.Simulation.Enabled {
		list = append(list, obstacle{errors.New("a simulated user calls a model, and this release has no way to one"), "switch the simulation off in the task"})
	}
	if network, _ := task.Network(); network == tasks.NetworkLLMOnly {
		list = append(list, obstacle{errors.New("the network llm_only lets a model through, and this release has no way to one"), "give -D sandbox.docker.network=none"})
	}
	return list
}

// cannotGive lists what the task asks for and no cell of the agent can have.
func (o ExecuteOptions) cannotGive(task *tasks.Task) (list []obstacle) {
	if o.onHost(task) {
		return nil
	}
	refuse := func(is bool, why, do string) {
		if is {
			list = append(list, obstacle{errors.New(why), do})
		}
	}
	network, _ := task.Network()
	reaches := network == tasks.NetworkBridge || network == tasks.NetworkEgress || network == tasks.NetworkLLMOnly
	refuse(len(task.Sandbox.Hosts()) > 0 && !reaches,
		"the task names single hosts, and this release gives a cell every network or none", "take them out, or ask for bridge")
	if docker := task.Sandbox.Docker; task.Sandbox.Driver != tasks.DriverTempdir {
		refuse(len(docker.ExtraMounts) > 0, "the task mounts "+strings.Join(docker.ExtraMounts, ", ")+", and this release mounts nothing of the host into the agent's cell", "make a template_dir of it")
	}
	if podman := task.Sandbox.Podman; podman != nil {
		refuse(podman.SetUID, "the task asks for set_uid, and every cell of this release has no_new_privs", "use an image that needs no sudo")
		refuse(podman.ReadOnly, "the task asks for read_only, and every root file system of this release can be written", "leave it out")
		refuse(podman.Grade == tasks.GradeLive && task.Reference != nil,
			"the task asks for a live grade and has a reference, which would lie where what the agent left running can read it", "write grade: fresh, or take the reference out")
	}
	return list
}
