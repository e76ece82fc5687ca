package regrade

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"podgrade/isolation"
	"podgrade/policy"
	"podgrade/tasks"
	"podgrade/tasks/record"
)

// finish writes the record of the row. ended says how it ended, when it did
// not end well.
func (e *execution) finish(ended error) (*Executed, error) {
	e.name()
	e.judge(ended)
	e.environment()
	e.stamp()
	made, err := record.New(e.facts)
	if err != nil {
		return nil, &Error{Kind: Infrastructure, Tried: "make the record of", On: e.row.Dir, Why: err, Do: "report this as a defect of podgrade"}
	}
	if err := e.write(made); err != nil {
		return nil, err
	}
	return &Executed{
		Row: e.job.Identity(), Status: made.Status, Gradable: e.gradable(ended), Message: e.facts.ErrorMessage,
		Stamps: record.Stamps(made.Environment), Record: made, Live: e.liveGrade,
	}, nil
}

// gradable: the agent's phase began, or there was no agent to begin with, and
// what it left is known.
func (e *execution) gradable(ended error) bool {
	if e.settled == nil || e.options.Preserve == PreserveNone && !e.options.Graded {
		return false
	}
	why := brokenBy(ended)
	return ended == nil || e.facts.Iterations > 0 && why != nil && why.category != record.CategorySetup
}

// name says whose row it is.
func (e *execution) name() {
	f, row := &e.facts, e.job.Row
	f.TaskID, f.Description, f.VariantID = row.Task.TaskID, row.Task.Description, row.Variant
	f.AgentType, f.Model = row.Task.Agent.Type, row.Task.Agent.Model
	f.Started, f.Completed = e.started, time.Now()
	if e.liveGrade != nil {
		f.Completed = e.liveGrade.began // a grade is not of the run's time
	}
	f.Duration = f.Completed.Sub(f.Started)
	f.AgentConfig, f.ExpectedCommands = agentConfig(row.Task), row.Task.ExpectedCommands
	config, err := record.NewTaskConfig(row.Task, row.File.Source, absolute(row.File.Path))
	if err != nil {
		e.warn("the record holds no task: " + err.Error())
	}
	f.TaskConfig = config
	if e.settled != nil {
		f.SandboxPath = e.workspace
	}
}

// agentConfig is the agent block as the task has it, with the keys of its kind
// only.
func agentConfig(task *tasks.Task) any {
	resolved, err := task.MarshalJSON()
	if err != nil {
		return nil
	}
	whole, err := record.ParseObject(resolved)
	if err != nil {
		return nil
	}
	return record.Nested(whole.Value("agent"))
}

// judge gives the status. What nobody has classified is the host's fault.
func (e *execution) judge(ended error) {
	f := &e.facts
	f.Status = record.NotGraded
	if ended == nil {
		return
	}
	f.Status, f.ErrorMessage = record.Error, clipped(ended.Error())
	details := &record.ErrorDetails{
		Category: record.CategoryInfrastructure, Component: record.ComponentSetup, Message: f.ErrorMessage,
		TaskID: f.TaskID, Attempt: 1, AgentName: f.AgentType,
	}
	if b := brokenBy(ended); b != nil {
		f.Status, details.Category, details.Component = b.status, b.category, b.component
	} else if f.Iterations > 0 {
		details.Component = record.ComponentIteration
	}
	f.ErrorDetails = details
	e.logs.Note("podgrade", fmt.Sprintf("%s: %s", f.Status, ended))
	f.ErrorLogTail = e.logs.tail(f.Status == record.BuildFailed)
}

// environment is what the record says of the cell.
func (e *execution) environment() {
	info := record.NewObject()
	e.facts.Environment = info
	setText(info, record.Version, e.options.Version)
	setText(info, record.Engine, e.made.Engine)
	setText(info, record.Runtime, e.made.Runtime)
	if e.accepted.Place() == policy.InCell {
		pin := e.image.Pin
		setText(info, record.Image, pin.Reference)
		setText(info, record.ImageID, pin.ID)
		setText(info, record.ImageDigest, pin.Digest)
		setText(info, record.Platform, pin.Platform)
		setText(info, record.ImageOrigin, e.origin())
		if created := e.image.Created; !created.IsZero() {
			info.Set(record.ImageCreated, created.UTC().Format(time.RFC3339))
		}
		setText(info, record.SpecSHA256, e.made.SpecSHA256)
		info.Set(record.Variables, policy.Names(e.accepted.Variables()))
	}
	if digests, err := DigestsOf(e.job.Row, e.hidden()); err == nil {
		info.Set(record.RunDigest, digests.Run)
		info.Set(record.TaskDigest, digests.Task)
	}
	setText(info, record.BuildContext, e.context)
	setText(info, record.LimitsEnforced, policy.Names(e.made.LimitsKept))
	setText(info, record.CommandBasePath, e.agentPath)
	setText(info, record.ReferenceDigest, e.referenceDigest)
	if e.settled != nil {
		setText(info, record.WorkspaceDigest, e.settled.Digest)
		setText(info, record.WorkspaceTimes, cmp.Or(e.settled.Times, record.TimesNotKept))
		if n := e.settled.Excluded; n > 0 {
			info.Set(record.CaptureExcluded, n)
		}
		e.state(info)
	}
	if len(e.alive) > 0 {
		info.Set(record.Processes, processes(e.alive))
	}
}

// mostProcesses bounds what the record says of processes.
const mostProcesses = 50

// processes are the names and ports of what was alive.
func processes(alive []isolation.Process) string {
	var names []string
	for _, p := range alive[:min(len(alive), mostProcesses)] {
		name := p.Name
		for _, port := range p.Ports {
			name += fmt.Sprintf(" %s/%d", port.Protocol, port.Port)
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// stamp notes what makes the row less comparable.
func (e *execution) stamp() {
	info := e.facts.Environment
	if e.accepted.Place() == policy.OnHost {
		info.Set(record.ExecutedOnHost, true)
	}
	if e.attempts > 0 && e.sealed() {
		info.Set(record.ExecutedWithoutNetwork, e.attempts)
	}
	setText(info, record.LimitsNotEnforced, policy.Names(e.made.LimitsNotKept))
}

// write puts the record on the disk, last.
func (e *execution) write(made *record.Record) error {
	if e.cell != nil {
		file := cellFile{Version: e.options.Version, Cells: 1, Made: e.made}
		for _, grant := range e.accepted.Grants() {
			file.Grants = append(file.Grants, grant.String())
		}
		text, err := json.MarshalIndent(file, "", "  ")
		if err == nil {
			err = e.row.Write(record.ExecuteCellFile, append(text, '\n'))
		}
		if err != nil {
			e.warn(fmt.Sprintf("%s could not be written: %s", record.ExecuteCellFile, whyUnwritten(err)))
		}
	}
	e.sign(made)
	e.logs.Note("podgrade", fmt.Sprintf("%s: %s", e.job.Identity(), made.Status))
	if err := e.row.Write(record.TaskFile, made.Bytes()); err != nil {
		return &Error{Kind: Infrastructure, Tried: "write the record of", On: e.row.Dir, Why: err, Do: writeRemedy(err, "execute the row again")}
	}
	return nil
}
