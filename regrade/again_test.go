package regrade

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"podgrade/isolation"
	"podgrade/tasks/record"
	"podgrade/tasks/record/fixture"
)

// failsUnder makes commands fail in cells with a view.
func failsUnder(c *rowCase, view string) {
	c.fake.run = func(cell *fakeCell, _ string, _ io.Writer) (isolation.Exit, error) {
		if cell.made.View.Kind == view {
			return isolation.Exit{Code: 1}, nil
		}
		return isolation.Exit{}, nil
	}
}

func TestTheViewThatIsAskedForReachesTheCell(t *testing.T) {
	for _, view := range append(isolation.Views(), "") {
		c := newCase(t, fixture.Pinned, nil)
		c.options.View = view
		c.pass()
		if len(c.fake.orders) != 1 || c.fake.orders[0].View != view {
			t.Errorf("%q: orders %+v", view, c.fake.orders)
		}
		if loud := strings.Contains(c.notice.String(), "change the workspace itself"); loud != (view == isolation.ViewBind) {
			t.Errorf("%q: announced: %v", view, loud)
		}
	}
}

func TestALostPointUnderAnOverlayIsGradedAgainUnderACopy(t *testing.T) {
	c := newCase(t, fixture.Pinned, criteriaOf(fileExists("answer.txt"), runCommand("mv a b")))
	c.options.View = isolation.ViewOverlay
	failsUnder(c, isolation.ViewOverlay)
	if v := c.pass(); v.Status != record.Success || v.Score != 1 {
		t.Errorf("%s, score %v", v.Status, v.Score)
	}
	if len(c.fake.orders) != 2 || c.fake.orders[1].View != isolation.ViewCopy {
		t.Errorf("orders %+v", c.fake.orders)
	}
	info := c.record().Environment
	if view, reason := info.Text(record.WorkspaceView), info.Text(record.ViewReason); view != isolation.ViewCopy || !strings.Contains(reason, "criterion 2 scored 0.000 under an overlay") {
		t.Errorf("recorded: %s, %s", view, reason)
	}
	for _, name := range []string{record.GradeLog, record.GradeCellFile} {
		if !strings.Contains(c.file(name), "again under a copy") {
			t.Errorf("%s does not say that the row was graded again", name)
		}
	}
}

// The verdict of the copy counts also when it is no better.
func TestARowThatFailsUnderEveryViewIsGradedTwiceAtMost(t *testing.T) {
	c := newCase(t, fixture.Pinned, criteriaOf(runCommand("false")))
	c.options.View = isolation.ViewOverlay
	c.fake.run = func(*fakeCell, string, io.Writer) (isolation.Exit, error) {
		return isolation.Exit{Code: 1, NetworkAttempts: 1}, nil
	}
	if v := c.pass(); v.Status != record.Failure || len(c.fake.orders) != 2 || stampText(v) != "graded_without_network=1" {
		t.Errorf("%s after %d cells, %s", v.Status, len(c.fake.orders), stampText(v))
	}
}

func TestOnlyAnOverlayIsDoubted(t *testing.T) {
	for _, view := range []string{isolation.ViewCopy, isolation.ViewBind} {
		c := newCase(t, fixture.Pinned, criteriaOf(runCommand("false")))
		c.options.View = view
		failsUnder(c, view)
		if v := c.pass(); v.Status != record.Failure || len(c.fake.orders) != 1 {
			t.Errorf("%s: %s after %d cells", view, v.Status, len(c.fake.orders))
		}
	}
	c := newCase(t, fixture.Pinned, criteriaOf(runCommand("true")))
	c.options.View = isolation.ViewOverlay
	if c.pass(); len(c.fake.orders) != 1 || c.record().Environment.Text(record.WorkspaceView) != isolation.ViewOverlay {
		t.Errorf("a row that passes under an overlay took %d cells", len(c.fake.orders))
	}
}

// What is lost between the two grades leaves the row as it was.
func TestAnImageThatGoesWhileUnderAnOverlayIsInfrastructure(t *testing.T) {
	c := newCase(t, fixture.Pinned, criteriaOf(runCommand("false")))
	c.options.View = isolation.ViewOverlay
	failsUnder(c, isolation.ViewOverlay)
	c.fake.layers = fmt.Errorf("layer gone: %w", isolation.ErrNoImage)
	c.refused(Infrastructure, "layer gone", true)
}

func TestHazardsAreRecorded(t *testing.T) {
	c := newCase(t, fixture.Pinned, nil)
	c.fake.hazards = []string{`hard link: "a"`, `device: "b"`}
	c.pass()
	if raw := c.record().Environment.Value(record.ViewHazards); !strings.Contains(string(raw), `hard link: \"a\"`) || !strings.Contains(string(raw), `device: \"b\"`) {
		t.Errorf("recorded: %s", raw)
	}
	c.fake.hazards = nil
	c.pass()
	if raw := c.record().Environment.Value(record.ViewHazards); !raw.IsNull() {
		t.Errorf("hazards of an earlier grade are kept: %s", raw)
	}
}

// EPERM, EIO and ESTALE of the workspace are the row's own fault.
func TestWhatTheWorkspaceRefusesIsTheRowsFault(t *testing.T) {
	for _, refusal := range []error{isolation.ErrDenied, isolation.ErrNotExist} {
		c := newCase(t, fixture.Pinned, criteriaOf(runCommand("true")))
		c.fake.run = func(*fakeCell, string, io.Writer) (isolation.Exit, error) {
			return isolation.Exit{}, fmt.Errorf("%w: enter its directory", refusal)
		}
		v := c.pass()
		if v.Status != record.Failure || !strings.Contains(v.Results[0].Reason(), "enter its directory") {
			t.Errorf("%v: %s, %s", refusal, v.Status, v.Results[0].Reason())
		}
	}
}
