package regrade

import (
	"context"
	"maps"
	"slices"

	"podgrade/isolation"
	"podgrade/policy"
	"podgrade/tasks"
)

// Steps names the steps of the set-up that SwitchOff switches off, sorted. The
// templates are one step for each type.
func Steps() []string {
	s := allSteps()
	names := slices.Collect(maps.Keys(s.templates))
	for _, step := range s.inCell {
		if step.name != "template_sources" {
			names = append(names, step.name)
		}
	}
	return slices.Sorted(slices.Values(append(names, "dockerfile", "user", "working_dir")))
}

// SwitchOff leaves one step of the set-up's code out, as if nobody had written
// it; the task stays as it is.
func (o *ExecuteOptions) SwitchOff(name string) {
	s := allSteps()
	o.steps = s
	switch name {
	case "dockerfile": // what is not built is what the task was to be built from
		image := o.DefaultImage
		s.build = func(e *execution, ctx context.Context) (err error) {
			e.image, err = e.engines.Image(ctx, image)
			return err
		}
		return
	case "user":
		s.user = func(image isolation.Image, _ *tasks.Task) isolation.Image {
			image.User = ""
			return image
		}
		return
	case "working_dir":
		s.workingDir = func(policy.Accepted, isolation.Image) string { return "" }
		return
	}
	if s.templates[name] != nil {
		s.templates[name] = func(*execution, context.Context, string, tasks.TemplateSource) error { return nil }
		return
	}
	before := len(s.inCell)
	s.inCell = slices.DeleteFunc(s.inCell, func(step cellStep) bool { return step.name == name })
	if len(s.inCell) == before {
		panic("there is no step " + name)
	}
}
