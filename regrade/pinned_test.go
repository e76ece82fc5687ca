package regrade

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"podgrade/isolation"
	"podgrade/oci"
	"podgrade/tasks"
	"podgrade/tasks/record"
	"podgrade/tasks/record/fixture"
)

// moved makes the reference of the byod task name another image, and removes the
// pinned one.
func moved(c *rowCase, change func(*oci.Pin)) {
	image := c.fake.images[imageID]
	image.Pin.ID = otherID
	if change != nil {
		change(&image.Pin)
	}
	delete(c.fake.images, imageID)
	c.fake.images["byod-custom-image:0.1.0"], c.fake.images[otherID] = image, image
}

func TestDriftIsAskedForAndStamped(t *testing.T) {
	c := newCase(t, fixture.Pinned, func(o *fixture.Order) {
		o.Environment = map[string]any{record.StateDiffID: "sha256:layer", record.State: record.StateKept}
		o.Change = func(task *tasks.Task) { task.PreRun = []tasks.PreRun{{Command: "a", Timeout: 1}} }
	})
	c.options.ImageDrift = true
	if v := c.pass(); stampText(v) != "" {
		t.Errorf("the pinned image is there, and the row is stamped %s", stampText(v))
	}
	moved(c, nil)
	if v := c.pass(); stampText(v) != `graded_without_pre_run=1 graded_without_state=true graded_with_unpinned_image="drift"` {
		t.Errorf("stamps %s", stampText(v))
	}
	order := c.fake.orders[len(c.fake.orders)-1]
	if order.Image.Pin.ID != otherID || order.State != "" {
		t.Errorf("graded in %s with the state %q", order.Image.Pin, order.State)
	}
	if info := c.record().Environment; info.Text(record.ImageID) != imageID || info.Text(record.GradedImageID) != otherID {
		t.Errorf("recorded: %s", info.Bytes())
	}
	for _, want := range []string{imageID[:12], otherID[:12], "is gone", "left out"} {
		if !strings.Contains(c.notice.String(), want) {
			t.Errorf("nothing is said about %q: %s", want, c.notice.String())
		}
	}
	if !strings.Contains(c.notice.String(), "or where it is gone of the one that has its name now") {
		t.Error("the page of grants does not say it")
	}
}

// TestDriftIsNoOtherPlatform: both identities are named, and no option helps.
func TestDriftIsNoOtherPlatform(t *testing.T) {
	for _, drift := range []bool{false, true} {
		c := newCase(t, fixture.Pinned, nil)
		c.options.ImageDrift = drift
		moved(c, func(pin *oci.Pin) { pin.Platform = "linux/s390x" })
		c.refused(Refused, otherID[:12], true)
		_, err := c.grade()
		for _, want := range []string{imageID[:12], "linux/s390x", oci.HostPlatform(), "another platform"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q is not named: %v", want, err)
			}
		}
	}
}

func TestAnImageOfAnotherPlatformIsRefused(t *testing.T) {
	foreign := func(c *rowCase) {
		image := c.fake.images[imageID]
		image.Pin.Platform = "linux/s390x"
		c.fake.images[imageID], c.fake.images["byod-custom-image:0.1.0"] = image, image
	}
	c := newCase(t, fixture.Pinned, nil)
	foreign(c)
	c.refused(Refused, "what this host has is of another platform", true)

	c = newCase(t, fixture.Pinned, func(o *fixture.Order) { o.Pin.Platform = "linux/s390x/v8" })
	foreign(c)
	c.refused(Refused, "grade it on a host of linux/s390x", true)

	c = newCase(t, fixture.Unpinned, nil)
	foreign(c)
	c.refused(Refused, "this host runs programs of "+oci.HostPlatform(), true)

	c = newCase(t, fixture.Pinned, func(o *fixture.Order) { o.Pin.Platform = oci.HostPlatform() + "/v9" })
	c.pass()
}

// TestAMissingImageNamesTheWaysOut: what to do depends on what is left.
func TestAMissingImageNamesTheWaysOut(t *testing.T) {
	c := newCase(t, fixture.Pinned, nil)
	moved(c, nil)
	c.refused(Refused, "--allow-image-drift", true)

	c = newCase(t, fixture.Pinned, nil)
	c.fake.images = nil
	c.refused(Refused, "no image has this name now", true)

	c = newCase(t, fixture.Pinned, func(o *fixture.Order) {
		o.Change = func(task *tasks.Task) { task.Sandbox.Docker.DockerfilePath = "/there/Dockerfile" }
	})
	c.fake.images = nil
	c.refused(Refused, "build /there/Dockerfile under this name", true)
}

// TestABuiltImageIsNotBuiltAgain: the recorded image counts while it is there, a
// changed directory is named, and another build is stamped.
func TestABuiltImageIsNotBuiltAgain(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "Dockerfile")
	os.WriteFile(file, []byte("FROM a\n"), 0o644)
	digest, err := treeDigest(dir, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	built := func(recorded string) *rowCase {
		c := newCase(t, fixture.Pinned, func(o *fixture.Order) {
			o.Environment = map[string]any{record.BuildContext: recorded}
			o.Change = func(task *tasks.Task) { task.Sandbox.Docker.DockerfilePath = file }
		})
		c.options.Answer.TaskFile = true
		return c
	}
	c := built(digest)
	if v := c.pass(); stampText(v) != "" || strings.Contains(c.notice.String(), "has changed") {
		t.Errorf("stamps %s: %s", stampText(v), c.notice.String())
	}
	c = built("0" + digest)
	if v := c.pass(); stampText(v) != "" || !strings.Contains(c.notice.String(), file+" or what lies beside it has changed") {
		t.Errorf("stamps %s: %s", stampText(v), c.notice.String())
	}
	c = built("0" + digest)
	c.options.Answer.TaskFile = false
	if c.pass(); strings.Contains(c.notice.String(), "has changed") {
		t.Errorf("a record made podgrade read %s", dir)
	}
	c = built(digest)
	c.options.ImageDrift = true
	moved(c, nil)
	if v := c.pass(); stampText(v) != `graded_with_rebuilt_image="`+file+`" graded_with_unpinned_image="drift"` {
		t.Errorf("stamps %s", stampText(v))
	}
}

// TestAGradeCanNeitherBuildNorFetch: what a grade gets of the engines has no
// such method, so that a line of code that tried would not compile.
func TestAGradeCanNeitherBuildNorFetch(t *testing.T) {
	var names []string
	engines := reflect.TypeFor[GradeEngines]()
	for i := range engines.NumMethod() {
		names = append(names, engines.Method(i).Name)
	}
	if got := strings.Join(names, " "); got != "Close HasState Hold Image ImageByPin Lost Open OpenOnHost" {
		t.Errorf("a grade can %s: say what each new one starts", got)
	}
	c := newCase(t, fixture.Pinned, nil)
	delete(c.fake.images, imageID)
	if _, err := c.grade(); !errors.Is(err, isolation.ErrNoImage) || len(c.fake.policies) > 0 {
		t.Errorf("%v; fetched %v", err, c.fake.policies)
	}
}

// A record that says that state was kept and names no layer is not graded with
// one, and must not look as if it were.
func TestStateThatNamesNoLayerIsNoState(t *testing.T) {
	for _, c := range []struct {
		info  map[string]any
		stamp string
	}{
		{map[string]any{record.State: record.StateKept}, "graded_without_pre_run=1 graded_without_state=true"},
		{map[string]any{record.State: record.StateDropped}, "graded_without_pre_run=1 graded_without_state=true"},
		{map[string]any{record.State: record.StateUnchanged}, ""},
		{map[string]any{record.State: record.StateKept, record.StateDiffID: "sha256:layer"}, ""},
	} {
		r := newCase(t, fixture.Pinned, func(o *fixture.Order) {
			o.Environment = c.info
			o.Change = func(task *tasks.Task) { task.PreRun = []tasks.PreRun{{Command: "a", Timeout: 1}} }
		})
		r.fake.states = []string{"sha256:layer"}
		if got := stampText(r.pass()); got != c.stamp {
			t.Errorf("%v: stamps %q, want %q", c.info, got, c.stamp)
		}
	}
}
