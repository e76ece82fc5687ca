package regrade

import (
	"context"
	"errors"

	"podgrade/isolation"
	"podgrade/oci"
	"podgrade/policy"
	"podgrade/tasks"
	"podgrade/tasks/criteria"
	"podgrade/tasks/record"
)

// networkWithheld tells whether the run had a network and this grade has none.
func (g *grading) networkWithheld() bool {
	if live := g.options.Live; live != nil {
		return live.sealed
	}
	return g.accepted.NetworkWithheld()
}

// place makes the place where the row is graded; nothing is opened yet. What was
// accepted must still mean the same.
func (g *grading) place(ctx context.Context, engines GradeEngines, view string) (spot *place, unpinned string, err error) {
	if err := g.accepted.StillHolds(); err != nil {
		return nil, "", err
	}
	if err := refuseTaskDirOfRun(g.accepted.TaskDir(), g.run()); err != nil {
		return nil, "", err
	}
	spot = &place{accepted: g.accepted, whole: g.logs.whole, around: surroundings{
		task: g.task, accepted: g.accepted, lookup: g.options.Lookup,
		recorded: g.record.Environment.Text(record.CommandBasePath),
	}}
	order := isolation.Order{
		Row:       g.row.Dir,
		Workspace: g.workspace,
		View:      view,
		TaskDir:   g.accepted.TaskDir(),
		Reference: g.accepted.Reference(),
		Hidden:    g.hidden(),
		Log:       g.logs.cell,
		Programs:  criteria.Programs(),

		RequireLimits: g.options.RequireLimits,
		Plan: oci.Plan{
			Phase:        oci.Grade,
			Network:      g.accepted.Network(),
			Capabilities: g.accepted.Capabilities(),
			Limits:       limitsOf(g.task.Sandbox.Limits),
		},
	}
	if g.accepted.Place() == policy.OnHost {
		spot.open = func(ctx context.Context) (isolation.Cell, error) {
			cell, err := g.checkedCell(engines.OpenOnHost(ctx, order))
			return g.provisioned(ctx, spot, cell, err)
		}
		return spot, "", nil
	}
	if spot.image, unpinned, err = g.image(ctx, engines); err != nil {
		return nil, "", err
	}
	if err := checkImage(g.accepted, spot.image); err != nil {
		return nil, "", err
	}
	order.WorkingDir, order.Ignore = workingDirOf(g.accepted, spot.image), notCaptured
	order.Image = asUser(spot.image, g.task)
	if unpinned != record.Drift { // a state layer lies over its own image only
		order.State = g.accepted.State()
		if g.clean {
			order.State = g.accepted.CleanState()
		}
		order.BeforeAgent = order.State != g.record.Environment.Text(record.StateDiffID)
	}
	spot.open = func(ctx context.Context) (isolation.Cell, error) {
		cell, err := g.checkedCell(engines.Open(ctx, order))
		return g.provisioned(ctx, spot, cell, err)
	}
	return spot, unpinned, nil
}

// checkedCell is the cell, unless its workspace is not the one that was signed.
func (g *grading) checkedCell(cell isolation.Cell, err error) (isolation.Cell, error) {
	if err != nil {
		return nil, err
	}
	if err := g.checkWorkspace(cell.Made().View); err != nil {
		return nil, errors.Join(err, cell.Close())
	}
	return cell, nil
}

// hidden are the directories that no view may show.
func (g *grading) hidden() hidden {
	return hiddenFrom(g.run(), g.options.Keys, g.options.Scratch)
}

// run is the directory of the run that the row belongs to.
func (g *grading) run() string {
	if g.options.Run != "" {
		return g.options.Run
	}
	id := g.rowIdentity()
	if many := g.options.summaries; many != nil {
		return many.owners.RunOf(g.row.Dir, id)
	}
	return record.RunOf(g.row.Dir, id)
}

// asUser is the image with the user that its task names instead.
func asUser(image isolation.Image, task *tasks.Task) isolation.Image {
	if podman := task.Sandbox.Podman; podman != nil && podman.User != "" && task.Sandbox.Driver != tasks.DriverTempdir {
		image.User = podman.User
	}
	return image
}

func limitsOf(l tasks.Limits) oci.Limits {
	return oci.Limits{MemoryMB: int64(l.MaxMemoryMB), CPUs: l.MaxCPUs, PIDs: int64(l.MaxPIDs)}
}
