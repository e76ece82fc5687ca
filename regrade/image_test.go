package regrade

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"podgrade/isolation"
	"podgrade/oci"
	"podgrade/policy"
	"podgrade/tasks"
)

// A row gets the image that its task names, or the default one; it is fetched
// only where that was accepted, and without any the refusal says how to get
// one.
func TestARowWithoutAnImageIsRefusedWithWhatToDo(t *testing.T) {
	here := isolation.Image{Pin: oci.Pin{Reference: "here:1", ID: imageID}}
	for name, c := range map[string]struct {
		named, byDefault string
		pull             bool
		says             []string // of the refusal; none: there is an image
		policy           isolation.PullPolicy
	}{
		"named":               {named: "here:1", policy: isolation.PullNever},
		"named, with a pull":  {named: "here:1", pull: true, policy: isolation.PullMissing},
		"the default one":     {byDefault: "here:1", policy: isolation.PullNever},
		"the named one first": {named: "here:1", byDefault: "there:1", policy: isolation.PullNever},
		"none": {says: []string{"names no image, and no default image is set", "podgrade images import or build", "podgrade images ls",
			"--default-image REFERENCE", "PODGRADE_DEFAULT_IMAGE", "configuration file"}},
		"not in the store": {named: "there:1", policy: isolation.PullNever, says: []string{"there:1", isolation.ErrNoImage.Error(), "podgrade images", "--pull missing"}},
	} {
		task := &tasks.Task{Sandbox: tasks.Sandbox{Driver: tasks.DriverDocker, Docker: tasks.Docker{Image: c.named}}}
		accepted, err := policy.Consent(policy.Request{Task: task, Phase: oci.Execute, Planned: true, Place: policy.InCell, DefaultImage: c.byDefault, Pull: c.pull,
			Lookup: func(string) (string, bool) { return "", false }}, policy.Answer{RecordedCommands: true}, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		fake := &fakeEngines{images: map[string]isolation.Image{"here:1": here}}
		image, err := plannedImage(t.Context(), fake, accepted)
		if c.policy == "" != (len(fake.policies) == 0) || len(fake.policies) > 0 && !slices.Equal(fake.policies, []isolation.PullPolicy{c.policy}) {
			t.Errorf("%s: looked up with %q", name, fake.policies)
		}
		if len(c.says) == 0 {
			if err != nil || !image.Pin.Same(here.Pin) {
				t.Errorf("%s: %s, %v", name, image.Pin, err)
			}
			continue
		}
		if KindOf(err) != Refused || ExitCode(err) != ExitUsage || (c.named != "") != errors.Is(err, isolation.ErrNoImage) {
			t.Errorf("%s: kind %s: %v", name, KindOf(err), err)
			continue
		}
		for _, words := range c.says {
			if !strings.Contains(err.Error(), words) {
				t.Errorf("%s: %v does not say %q", name, err, words)
			}
		}
	}
}
