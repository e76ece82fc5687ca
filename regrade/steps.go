package regrade

import (
	"context"

	"podgrade/isolation"
	"podgrade/policy"
	"podgrade/tasks"
)

// steps are what makes of a bare cell the one that a task asks for. They stand
// in a table so that a test can take out one of them and show the verdict that
// hangs on it; podgrade itself always does all of them.
type steps struct {
	// build builds the image of a task that names a Dockerfile.
	build func(*execution, context.Context) error
	// user gives the image the user that the cell's commands are.
	user func(isolation.Image, *tasks.Task) isolation.Image
	// workingDir is where in the image the agent works; "": in a mounted
	// workspace.
	workingDir func(policy.Accepted, isolation.Image) string
	// templates put one source into the workspace, by the source's type.
	templates map[string]templateStep
	// inCell are done in the open cell, in upstream's order.
	inCell []cellStep
}

type templateStep func(e *execution, ctx context.Context, label string, source tasks.TemplateSource) error

// cellStep is one step of the set-up, called after the key of the task that
// asks for it.
type cellStep struct {
	name string
	do   func(*execution, context.Context) error
}

// allSteps is the set-up as it is always done.
func allSteps() *steps {
	return &steps{
		build:      (*execution).build,
		user:       asUser,
		workingDir: workingDirOf,
		templates: map[string]templateStep{
			tasks.TemplateDir:  (*execution).templateDir,
			tasks.StarterFiles: (*execution).starterFiles,
			tasks.Repo:         (*execution).repository,
		},
		inCell: []cellStep{
			{"template_sources", (*execution).templates},
			{"mock_path_dirs", (*execution).mocks},
			{"record_cli", (*execution).recordCLI},
			{"python", (*execution).python},
			{"node", (*execution).node},
			{"pre_run", (*execution).preRun},
		},
	}
}
