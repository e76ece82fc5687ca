package regrade

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"podgrade/isolation"
	"podgrade/oci"
	"podgrade/policy"
	"podgrade/tasks"
	"podgrade/tasks/criteria"
)

// PlannedRow is one task × variant with its replicates.
type PlannedRow struct {
	Dirs    []string `json:"dirs"` // row directories, relative to the run directory
	TaskID  string   `json:"task_id"`
	Variant string   `json:"variant"`
	Agent   string   `json:"agent"`
	Model   string   `json:"model,omitempty"`
	Driver  string   `json:"driver"`
	// Engine is the one that makes the cells, as far as it is known before
	// images are looked for, and EngineReason why it is that one.
	Engine       string `json:"engine"`
	EngineReason string `json:"engine_reason"`
	// Image is the reference, or the Dockerfile with Built; "" is the default
	// image where none is set.
	Image        string `json:"image"`
	Built        bool   `json:"built"`
	DefaultImage bool   `json:"default_image"`
	Network      string `json:"network"` // of the agent's cell
	// RefusedHere is why run refuses the row on this host or in this release.
	RefusedHere []string `json:"refused_here"`
	// Execute and Grade are the grants of the two phases.
	Execute []PlannedGrant `json:"execute_grants"`
	Grade   []PlannedGrant `json:"grade_grants"`
}

// PlannedGrant is one grant.
type PlannedGrant = policy.Grant

// grantsSeen shares equal lists between the rows of a dataset.
type grantsSeen map[string][]PlannedGrant

func (s grantsSeen) share(grants []policy.Grant) []PlannedGrant {
	list := make([]PlannedGrant, len(grants))
	var key strings.Builder
	for i, g := range grants {
		list[i] = g
		key.WriteString(string(g.Kind) + "\x00" + g.Value + "\x00" + g.Reason + "\x00")
	}
	if known, ok := s[key.String()]; ok {
		return known
	}
	s[key.String()] = list
	return list
}

// row plans one row and makes the checks on which run and evaluate would
// refuse it (spec/regrade.md 5, D-90).
func (p *planner) row(planned *PlannedFile, row tasks.Row, shared grantsSeen) *PlannedRow {
	task := row.Task
	planned.Warnings = add(planned.Warnings, findings(task.Warnings())...)
	one := describe(row)
	options := p.executing()
	request := Job{Row: row}.request(options)
	one.image(request)
	one.Engine, one.EngineReason = isolation.PlannedEngine(p.options.Engine)
	if options.onHost(task) {
		one.Engine, one.EngineReason, one.Image, one.DefaultImage = isolation.EngineHost, "asked for", "", false
	}
	one.RefusedHere = p.needs(task, options)
	planned.Problems = add(planned.Problems, rowProblems(Job{Row: row}, options, true)...)
	for _, phase := range []oci.Phase{oci.Execute, oci.Grade} {
		request.Phase = phase
		grants, _ := policy.Grants(request) // the error is one of the problems
		if phase == oci.Execute {
			one.Execute = shared.share(grants)
		} else {
			one.Grade = shared.share(grants)
		}
	}
	return one
}

func describe(row tasks.Row) *PlannedRow {
	one := &PlannedRow{
		Dirs: []string{row.Dir()}, TaskID: row.Task.TaskID, Variant: row.Variant,
		Driver: row.Task.Sandbox.Driver,
	}
	one.Network, _ = row.Task.Network()
	if agent := row.Task.Agent; agent != nil {
		one.Agent, one.Model = agent.Type, agent.Model
	}
	return one
}

// image fills in what the row's cells are made of.
func (one *PlannedRow) image(r policy.Request) {
	docker := r.Task.Sandbox.Docker
	switch one.DefaultImage = r.WantsDefaultImage(); {
	case one.DefaultImage:
		one.Image = r.DefaultImage
	case docker.DockerfilePath != "":
		one.Image, one.Built = docker.DockerfilePath, true
	default:
		one.Image = docker.Image
	}
}

// executing is how a run with the options of the plan executes.
func (p *planner) executing() ExecuteOptions {
	return ExecuteOptions{DefaultImage: p.options.DefaultImage, Pull: p.options.Pull, OnHost: p.options.OnHost, Policy: p.options.Policy, Lookup: p.options.Lookup}
}

// needs notes, and returns, what this release or this host lacks to run the row:
// run refuses it here, and nothing is wrong with the file.
func (p *planner) needs(task *tasks.Task, o ExecuteOptions) []string {
	list := []string{}
	for _, lack := range o.lacks(task) {
		list = append(list, lack.why.Error()+"; "+lack.do)
	}
	for _, need := range list {
		p.plan.Needs = once(p.plan.Needs, need)
	}
	for _, criterion := range task.SuccessCriteria {
		if asksModel(criterion) {
			p.plan.GradeNeeds = once(p.plan.GradeNeeds, "criteria of type "+criterion.Common().Type+" call a model, and this release has no way to one; set enabled: false")
		}
	}
	return list
}

func once(list []string, text string) []string {
	if slices.Contains(list, text) {
		return list
	}
	return append(list, text)
}

// asksModel tells whether a criterion is a judge that is enabled.
func asksModel(criterion tasks.Criterion) bool {
	switch c := criterion.(type) {
	case *tasks.LLMJudge:
		return c.Enabled
	case *tasks.AgentJudge:
		return c.Enabled
	case *tasks.SystemOneJudge:
		return c.Enabled
	}
	return false
}

// criteriaProblems are criteria that no grade can check.
func criteriaProblems(file string, task *tasks.Task) []Finding {
	if len(task.SuccessCriteria) == 0 {
		return []Finding{{File: file, Key: criteriaKey, Text: errNoCriteria.Error()}}
	}
	var found []Finding
	for _, wrong := range criteria.Validate(task.SuccessCriteria) {
		found = append(found, Finding{File: file, Key: fmt.Sprintf("%s[%d]", criteriaKey, wrong.Index), Text: wrong.Reason})
	}
	return found
}

const criteriaKey = "success_criteria"

// errNoCriteria is why a task without criteria is not graded.
var errNoCriteria = errors.New("it has no criteria, so that any row would pass")

// refusalText is a refusal of policy on one line.
func refusalText(err error) string {
	var refusal *policy.Refusal
	if errors.As(err, &refusal) {
		text := refusal.What
		for i, g := range refusal.Grants {
			text += []string{" ", ", "}[min(i, 1)] + string(g.Kind) + " " + g.Value
		}
		return text + "; " + refusal.Do
	}
	return err.Error()
}
