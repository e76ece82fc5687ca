package regrade

import (
	"errors"
	"fmt"
	"path/filepath"
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
	// Engine is the one that podgrade prefers; a host that cannot use it
	// takes another.
	Engine string `json:"engine"`
	// Image is the reference, or the Dockerfile with Built; "" is the default
	// image where none is set.
	Image        string `json:"image"`
	Built        bool   `json:"built"`
	DefaultImage bool   `json:"default_image"`
	Network      string `json:"network"` // of the agent's cell
	// Execute and Grade are the grants of the two phases.
	Execute []PlannedGrant `json:"execute_grants"`
	Grade   []PlannedGrant `json:"grade_grants"`
}

// PlannedGrant is one grant.
type PlannedGrant struct {
	Kind   policy.Kind `json:"kind"`
	Value  string      `json:"value"`
	Reason string      `json:"reason"`
}

// grantsSeen shares equal lists between the rows of a dataset.
type grantsSeen map[string][]PlannedGrant

func (s grantsSeen) share(grants []policy.Grant) []PlannedGrant {
	list := make([]PlannedGrant, len(grants))
	var key strings.Builder
	for i, g := range grants {
		list[i] = PlannedGrant(g)
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
	request := p.request(row)
	one.image(request)
	p.needs(task, one)
	planned.Problems = add(planned.Problems, criteriaProblems(planned.Path, task)...)
	paths := task.CheckPaths(row.File.Dir)
	planned.Problems = add(planned.Problems, findings(paths)...)
	for _, phase := range []oci.Phase{oci.Execute, oci.Grade} {
		request.Phase = phase
		grants, err := policy.Grants(request)
		// A path that is not there has been named already, with its place.
		if err != nil && len(paths) == 0 {
			planned.Problems = add(planned.Problems, Finding{File: planned.Path, Text: refusalText(err)})
		}
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
		Driver: row.Task.Sandbox.Driver, Engine: isolation.EngineBundle,
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

func (p *planner) request(row tasks.Row) policy.Request {
	file := row.File.Path
	if absolute, err := filepath.Abs(file); err == nil {
		file = absolute
	}
	return policy.Request{
		Task: row.Task, Place: policy.InCell, Planned: true, DefaultImage: p.options.DefaultImage, Pull: p.options.Pull,
		TaskFile: file, Lookup: p.options.Lookup,
	}
}

// needs notes what this host lacks to run the row.
func (p *planner) needs(task *tasks.Task, one *PlannedRow) {
	need := func(text string) {
		if !slices.Contains(p.plan.Needs, text) {
			p.plan.Needs = append(p.plan.Needs, text)
		}
	}
	if one.DefaultImage && one.Image == "" {
		need("a default image, for rows that name none: " + getDefaultImage)
	}
	if value, _ := p.options.Lookup(oci.EnvInContainer); value == "1" {
		need("a host that is no container: " + oci.EnvInContainer + "=1 says that podgrade itself runs in one; unset it where that is wrong")
	}
	for _, criterion := range task.SuccessCriteria {
		if asksModel(criterion) {
			need("a way to reach a model, for criteria of type " + criterion.Common().Type)
		}
	}
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

// refusalText is a refusal of policy without its list of grants.
func refusalText(err error) string {
	var refusal *policy.Refusal
	if errors.As(err, &refusal) {
		return refusal.What + "; " + refusal.Do
	}
	return err.Error()
}
