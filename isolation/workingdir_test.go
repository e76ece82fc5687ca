package isolation_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"podgrade/isolation"
	"podgrade/oci"
)

const testbed = "/testbed"

// workedIn is an image whose own workspace is testbed.
func workedIn(t testing.TB, user string) isolation.Image {
	return built(t, "localhost/podgrade-test/built:testbed-"+user, `RUN mkdir -p /testbed/src /testbed/.venv/bin && echo old > /testbed/src/a && echo doomed > /testbed/src/doomed \
 && echo python > /testbed/.venv/bin/python && ln -s ../src/a /testbed/.venv/link && chown -R `+user+" /testbed && chmod 700 /testbed\nUSER "+user+"\n", map[string]string{})
}

const work = `set -e
echo new > src/a; rm src/doomed; mkdir -m 0 locked; echo x > src/x; chmod 0 src/x; ln src/a src/hard; mkfifo pipe
echo changed > .venv/bin/python; echo elsewhere > /tmp/elsewhere; mkdir -p src/.cache && echo noise > src/.cache/noise
touch -d 2001-02-03 src/a`

const seenWork = `ls -A; cat src/a; stat -c '%N %a %h %s' src/* pipe | sort; stat -c '%N %a' locked src; test ! -e src/doomed; cat .venv/bin/python; ls /tmp /testbed/src/.cache 2>/dev/null`

var leftOut = []string{".venv", ".cache"}

func workOrder(t testing.TB, user string) isolation.Order {
	return isolation.Order{Plan: oci.Plan{Phase: oci.Execute, Network: oci.Sealed}, Image: workedIn(t, user), Create: true, WorkingDir: testbed}
}

// captured works in the image and captures what it left.
func captured(t testing.TB, h *isolation.Host, o isolation.Order, keep bool) (capture, seen string, settled isolation.Settled) {
	t.Helper()
	capture = filepath.Join(t.TempDir(), "artifacts")
	if err := os.Mkdir(capture, 0o755); err != nil {
		t.Fatal(err)
	}
	c := openOn(t, h, o)
	if dir := c.Places().Workspace; dir != testbed {
		t.Errorf("the workspace is %s", dir)
	}
	want(t, c, "pwd; test ! -e /work/workspace", testbed+"\n")
	want(t, c, work, "")
	seen = sh(t, c, seenWork).out
	return capture, seen, settle(t, c, isolation.Settle{Capture: capture, Ignore: leftOut, KeepState: keep})
}

// A workspace inside the image is captured as the caller's, and a grade on the
// state layer sees what the agent saw.
func TestAWorkspaceInsideTheImage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ user, engine string }{{"root", isolation.EngineBundle}, {"grader", isolation.EngineBundle}, {"grader", isolation.EnginePodman}} {
		if !slices.Contains(engines, test.engine) {
			continue
		}
		t.Run(test.user+" "+test.engine, func(t *testing.T) {
			o := workOrder(t, test.user)
			o.Engine = test.engine
			capture, before, settled := captured(t, host(t), o, true)
			ownedByCaller(t, capture)
			if settled.Excluded != 2 || settled.Entries != 6 {
				t.Errorf("%+v", settled)
			}
			if info, err := os.Stat(capture); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("the capture: %v, %v", info, err)
			}
			if text, err := os.ReadFile(capture + "/src/hard"); err != nil || string(text) != "new\n" {
				t.Errorf("%q, %v", text, err)
			}
			g := graded(t, o, settled.State.DiffID)
			g.Workspace = capture
			grade := openOn(t, host(t), g)
			if after := sh(t, grade, seenWork).out; after != before {
				t.Errorf("the agent saw\n%s\nthe grade sees\n%s", before, after)
			}
			if view := grade.Made().View; view.Kind != isolation.ViewState || view.Digest != settled.Digest {
				t.Errorf("%+v", view)
			}
			want(t, grade, "echo criterion > made && cat /tmp/elsewhere", "elsewhere\n")
			if test.engine == isolation.EnginePodman {
				return // its root goes with the container
			}
			isolation.EndBy(grade)
			want(t, grade, "cat made", "criterion\n")
		})
	}
}

// Without the state layer the capture is laid over the image's directory: what
// the agent deleted is gone, what was not captured is the image's.
func TestACaptureIsLaidOverTheImage(t *testing.T) {
	t.Parallel()
	for _, user := range []string{"root", "grader"} {
		o := workOrder(t, user)
		capture, _, settled := captured(t, host(t), o, false)
		if settled.State.DiffID != "" {
			t.Errorf("a state layer was kept: %+v", settled.State)
		}
		a, err1 := os.Stat(capture + "/src/a")
		hard, err2 := os.Stat(capture + "/src/hard")
		if err1 != nil || err2 != nil || !os.SameFile(a, hard) {
			t.Errorf("a hard link was not captured as one: %v, %v", err1, err2)
		}
		for _, engine := range []string{isolation.EngineBundle, isolation.EnginePodman} {
			t.Run(user+" "+engine, func(t *testing.T) {
				g := graded(t, o, "")
				g.Workspace, g.Ignore, g.Engine = capture, leftOut, engine
				grade := openOn(t, host(t), g)
				want(t, grade, "pwd; cat src/a src/hard .venv/bin/python .venv/link; ls src; ls /tmp; test -O src/a && stat -c %a src/x src/a locked . && stat -c %h src/a && test -p pipe",
					testbed+"\nnew\nnew\npython\nnew\na\nhard\nx\n0\n644\n0\n700\n2\n")
				if view := grade.Made().View; view.Kind != isolation.ViewCapture || view.Digest != settled.Digest {
					t.Errorf("%+v", view)
				}
			})
		}
		ownedByCaller(t, capture)
	}
}

// A working directory that the image has not is made for its user.
func TestAWorkingDirectoryIsMade(t *testing.T) {
	t.Parallel()
	o := workOrder(t, "grader")
	o.WorkingDir = "/srv/new/here"
	c := openOn(t, host(t), o)
	want(t, c, "pwd; stat -c '%U %a' . .. /srv", "/srv/new/here\ngrader 755\nroot 755\nroot 755\n")
}

func TestWorkingDirectoriesThatAreTaken(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"relative", "/proc/self", "/work", "/work/workspace", "/.podgrade/x", "/a/../b", "/etc/passwd"} {
		o := workOrder(t, "root")
		o.WorkingDir = dir
		c, err := host(t).Open(ctx(t), o)
		if err == nil {
			c.Close()
			t.Errorf("%s: was taken", dir)
			continue
		}
		var fault *isolation.Fault
		if !errors.As(err, &fault) || fault.Kind != isolation.Refusal || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", dir, err)
		}
	}
}
