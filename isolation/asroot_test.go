//go:build asroot

package isolation_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/sys/unix"

	"podgrade/isolation"
	"podgrade/oci"
)

// These tests need root, which is why they are built only with the tag asroot:
// `make test` runs them when root runs it.

func init() {
	if os.Geteuid() == 0 {
		engines = []string{isolation.EngineBundle} // root has no other
	}
}

// TestAsRoot runs what shows of the engine for an ordinary user that it keeps
// its promises, as root.
func TestAsRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("these tests need root: sudo make test")
	}
	for name, test := range map[string]func(*testing.T){
		"users":           TestEveryUserOfAnImageCanWork,
		"groups":          TestANamedUserHasItsGroups,
		"capabilities":    TestACellHasExactlyTheCapabilitiesAskedFor,
		"from inside":     TestACellSeenFromInside,
		"sealed":          TestASealedCellHasOnlyLoopback,
		"own mounts":      TestOwnMountsCannotBeChanged,
		"evidence":        TestEvidenceIsReadAndWrittenAndNeverChanged,
		"brought":         TestWhatATaskBringsIsReadOnlyAndFiltered,
		"made again":      TestACellThatACommandEndedIsMadeAgain,
		"state":           TestAStateLayerIsWhatTheAgentLeft,
		"states":          TestStateLayersAreKeptUntilTheyAreRemoved,
		"state of a user": TestAUsersStateIsItsOwn,
		"shared state":    TestASharedStateLayerIsWhatTheAgentLeft,
		"damaged state":   TestASharedStateLayerWithoutItsBytesIsRefused,
		"others' files":   TestFilesOfOthersStayTheirs,
		"task dir":        TestAnExecuteCellHasAnEmptyTaskDirectory,
		"worker killed":   TestAKilledWorkerIsInfrastructure,
		"gc":              TestGCRemovesWhatIsDeadAndNothingThatLives,
		"measured":        TestACellMeasuresAsItsSpecificationSays,
	} {
		t.Run(name, test)
	}
}

// Root of a cell is nobody on the host, and nothing of a cell is root there.
func TestAsRootNoProcessOfACellIsRoot(t *testing.T) {
	for user, id := range map[string]uint32{"": 0, "1000": 1000} {
		c := open(t, as(t, user), withDockerCapabilities)
		ids := c.Made().HostIDs
		if ids == nil || ids.Users < 65536 || ids.Groups < 65536 || ids.Count != oci.MapSize || ids.From == "" {
			t.Fatalf("the record says that its ids are %+v", ids)
		}
		want(t, c, "sleep 300 >/dev/null 2>&1 </dev/null & tr -s ' ' < /proc/self/uid_map", " 0 0 1\n 1 1 65535\n")
		space := strings.TrimSpace(sh(t, c, "readlink /proc/self/ns/user").out)
		all, err := filepath.Glob("/proc/[0-9]*")
		must(t, err)
		found := 0
		for _, process := range all {
			if of, err := os.Readlink(process + "/ns/user"); err != nil || of != space {
				continue
			}
			found++
			status, err := os.ReadFile(process + "/status")
			must(t, err)
			for _, line := range []string{fmt.Sprintf("\nUid:\t%[1]d\t%[1]d\t%[1]d\t%[1]d\n", ids.Users+id), fmt.Sprintf("\nGid:\t%[1]d\t%[1]d\t%[1]d\t%[1]d\n", ids.Groups+id)} {
				if !strings.Contains(string(status), line) {
					t.Errorf("a process of the cell has not %q:\n%s", line, status)
				}
			}
			mapped, err := os.ReadFile(process + "/uid_map")
			must(t, err)
			if got := strings.Join(strings.Fields(string(mapped)), " "); got != fmt.Sprintf("0 %d 1 1 %d 65535", ids.Users, ids.Users+1) {
				t.Errorf("the ids of the cell are %q", got)
			}
		}
		if found < 2 {
			t.Errorf("%d processes of the cell were found from outside", found)
		}
		must(t, c.Close())
	}
}

// What the upper layers of an image delete is gone: Podman writes that down
// where only root of the host can read it.
func TestAsRootLayersOfAnImageHideWhatTheyDelete(t *testing.T) {
	i := deletingImage(t)
	opaque := make([]byte, 8)
	size, err := unix.Lgetxattr(filepath.Join(i.Layers[0], "home/grader"), "trusted.overlay.opaque", opaque)
	if err != nil || string(opaque[:size]) != "y" {
		t.Fatalf("the layer %s has no directory that hides another (%v): this test shows nothing", i.Layers[0], err)
	}
	c := open(t, i, nil)
	want(t, c, "ls -A /home/grader; stat -c %u:%g /home/grader/new; test ! -e /etc/group && echo gone", "new\n1000:50\ngone\n")
	want(t, c, "rm -r /home/grader && mkdir /home/grader && ls -A /home/grader && echo x > /etc/group && cat /etc/group", "x\n")
	o := executeOrder(t, i)
	c = openOn(t, host(t), o)
	want(t, c, "rm -r /home/grader && mkdir /home/grader && echo newer > /home/grader/newer", "")
	state := settle(t, c, isolation.Settle{KeepState: true}).State
	want(t, openOn(t, host(t), graded(t, o, state.DiffID)), "ls -A /home/grader; test ! -e /etc/group && echo gone", "newer\ngone\n")
}

// deletingImage is busybox with a layer above that hides /home/grader and
// deletes /etc/group.
func deletingImage(t testing.TB) isolation.Image {
	t.Helper()
	base := as(t, "")
	archive := filepath.Join(t.TempDir(), "base.tar")
	if out, err := host(t).RunPodman(ctx(t), "save", "--output", archive, base.Pin.ID); err != nil {
		t.Fatal(out, err)
	}
	lower, err := tarball.ImageFromPath(archive, nil)
	must(t, err)
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, h := range []tar.Header{
		{Name: "home/grader/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "home/grader/.wh..wh..opq", Typeflag: tar.TypeReg},
		{Name: "home/grader/new", Typeflag: tar.TypeReg, Mode: 0o644, Uid: 1000, Gid: 50},
		{Name: "etc/.wh.group", Typeflag: tar.TypeReg},
	} {
		must(t, w.WriteHeader(&h))
	}
	must(t, w.Close())
	upper, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil })
	must(t, err)
	whole, err := mutate.AppendLayers(lower, upper)
	must(t, err)
	const reference = "localhost/podgrade-test/deleting:1"
	tag, err := name.NewTag(reference)
	must(t, err)
	path := filepath.Join(t.TempDir(), "whole.tar")
	must(t, tarball.WriteToFile(path, tag, whole))
	file, err := os.Open(path)
	must(t, err)
	defer file.Close()
	_, err = host(t).ImportFile(ctx(t), file, 0, reference, isolation.ImageConfig{})
	must(t, err)
	found, err := host(t).Image(ctx(t), reference)
	must(t, err)
	if len(found.Layers) != 2 {
		t.Fatalf("the image has the layers %q", found.Layers)
	}
	return found
}

// A workspace inside the image is captured as root's, and is graded with the
// state layer and without it.
func TestAsRootAWorkspaceInsideTheImage(t *testing.T) {
	for _, user := range []string{"", "grader"} {
		t.Run("user "+user, func(t *testing.T) {
			o := isolation.Order{Plan: oci.Plan{Phase: oci.Execute, Network: oci.Sealed}, Image: as(t, user), Create: true, WorkingDir: "/home/grader"}
			if user == "" {
				o.WorkingDir = "/srv/here"
			}
			c := openOn(t, host(t), o)
			want(t, c, "echo new > a; ln a hard; mkdir -m 0 locked; echo x > /tmp/elsewhere", "")
			before := sh(t, c, seenHere).out
			capture := filepath.Join(t.TempDir(), "artifacts")
			must(t, os.Mkdir(capture, 0o755))
			settled := settle(t, c, isolation.Settle{Capture: capture, KeepState: true})
			ownedBy(t, capture, 0)
			for _, state := range []string{settled.State.DiffID, ""} {
				g := graded(t, o, state)
				g.Workspace = capture
				grade := openOn(t, host(t), g)
				if after := sh(t, grade, seenHere).out; after != before {
					t.Errorf("the agent saw\n%s\nthe grade sees\n%s", before, after)
				}
				if view := grade.Made().View; view.Digest != settled.Digest {
					t.Errorf("settled as %+v, the view is %+v", settled, view)
				}
				if _, err := grade.Stat(ctx(t), "/tmp", "elsewhere"); (err == nil) != (state != "") {
					t.Errorf("with the state layer %q: %v", state, err)
				}
			}
		})
	}
}

// What a cell leaves in its workspace is root's afterwards, and the grade sees
// what the agent saw.
func TestAsRootAWorkspaceComesBack(t *testing.T) {
	const leave = `set -e
mkdir locked sub && echo inside > locked/inside && echo x > sub/x
ln sub/x hard; ln -s sub/x link; ln -s /etc/passwd link-out; mkfifo pipe
chmod 2775 sub; echo secret > private; chmod 0 private
touch -d 2001-02-03 sub/x private; chmod 0 locked`
	for _, user := range []string{"", "1000", "grader", "65532:65532"} {
		t.Run("user "+user, func(t *testing.T) {
			o := executeOrder(t, as(t, user))
			before, settled := left(t, o, leave)
			ownedBy(t, o.Workspace, 0)
			if len(settled.OtherOwners) > 0 {
				t.Errorf("of others: %q", settled.OtherOwners)
			}
			gradedAs(t, o, before, settled)
		})
	}
}

// A set-user-id file of an agent is never root's: whoever can start it would be
// root. Its tree stays as it is, and is graded as the agent left it.
func TestAsRootNoSetUserIDFileBecomesRoots(t *testing.T) {
	for name, leave := range map[string]string{
		"set-user-id":    "cp /bin/busybox evil && chmod 4755 evil; echo x > plain",
		"set-group-id":   "cp /bin/busybox evil && chmod 2755 evil",
		"a user's":       "cp /bin/busybox evil && chmod 4755 evil && chown 1000 evil && chmod 4755 evil",
		"in a directory": "mkdir -m 700 d && cp /bin/busybox d/evil && chmod 6755 d/evil && chmod 0 d",
	} {
		t.Run(name, func(t *testing.T) {
			o := executeOrder(t, as(t, ""))
			withDockerCapabilities(&o)
			before, settled := left(t, o, leave)
			nobody := int(hostIDs(t).Users)
			armed := 0
			must(t, filepath.WalkDir(o.Workspace, func(path string, d os.DirEntry, err error) error {
				var st unix.Stat_t
				if err == nil {
					err = unix.Lstat(path, &st)
				}
				if err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
					armed++
				}
				if err == nil && (int(st.Uid) < nobody || int(st.Gid) < nobody) {
					t.Errorf("%s belongs to %d:%d", path, st.Uid, st.Gid)
				}
				return err
			}))
			if armed != 1 {
				t.Errorf("%d files have their bit", armed)
			}
			gradedAs(t, o, before, settled)
		})
	}
}

// left runs a line in an execute cell and settles it.
func left(t testing.TB, o isolation.Order, line string) (before string, settled isolation.Settled) {
	t.Helper()
	c := openOn(t, host(t), o)
	want(t, c, line, "")
	before = sh(t, c, seenHere).out
	return before, settle(t, c, isolation.Settle{})
}

const seenHere = `stat -c '%N %u:%g %a %s %Y' . *`

func gradedAs(t testing.TB, o isolation.Order, before string, settled isolation.Settled) {
	t.Helper()
	for _, view := range []string{isolation.ViewCopy, isolation.ViewOverlay} {
		grade := openOn(t, host(t), isolation.Order{Plan: oci.Plan{Phase: oci.Grade, Network: oci.Sealed}, Image: o.Image, Workspace: o.Workspace, View: view})
		if after := sh(t, grade, seenHere); after.out != before {
			t.Errorf("the agent saw\n%s\nthe grade sees by %s\n%s", before, view, after.out)
		}
		if made := grade.Made().View; made.Digest != settled.Digest || made.Entries != settled.Entries || made.Bytes != settled.Bytes {
			t.Errorf("settled as %+v, the grade's view is %+v", settled, made)
		}
	}
}

func ownedBy(t testing.TB, dir string, id int) {
	t.Helper()
	entries := 0
	must(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil {
			err = unix.Lstat(path, &st)
		}
		if entries++; err == nil && (int(st.Uid) != id || int(st.Gid) != id) {
			t.Errorf("%s belongs to %d:%d", path, st.Uid, st.Gid)
		}
		return err
	}))
	if entries < 2 {
		t.Errorf("%s is empty", dir)
	}
}

// hostIDs are those that cells have.
func hostIDs(t testing.TB) oci.HostIDs {
	t.Helper()
	c := open(t, as(t, ""), nil)
	defer c.Close()
	return *c.Made().HostIDs
}

// An overlay of a tree that is somebody's shows its files as the image user's,
// without a copy of anything; a bind does as well, and root's own tree is not
// bound.
func TestAsRootTreesOfAnybodyAreShown(t *testing.T) {
	for _, owner := range []int{0, 1234} {
		for _, user := range []string{"", "1000"} {
			for _, view := range []string{isolation.ViewOverlay, isolation.ViewBind, isolation.ViewCopy} {
				t.Run(fmt.Sprintf("of %d for %q by %s", owner, user, view), func(t *testing.T) {
					dir := plainTree(t)
					must(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
						if err == nil {
							err = os.Lchown(path, owner, owner)
						}
						return err
					}))
					o := order(t, as(t, user))
					o.Workspace, o.View = dir, view
					if view == isolation.ViewBind && owner == 0 {
						if c, err := host(t).Open(ctx(t), o); faultKind(err) != isolation.Refusal || !strings.Contains(err.Error(), "root's") {
							t.Errorf("%v, %v", c, err)
						}
						return
					}
					c := openOn(t, host(t), o)
					checkView(t, c, view, "asked for")
					want(t, c, "test -O hello.txt && test -O sub && echo more >> hello.txt && cat hello.txt && rm -r sub && echo new > new && test -O new && echo done", "hello\nmore\ndone\n")
					must(t, c.Close())
					wantLeft := "hello\n"
					if view == isolation.ViewBind {
						wantLeft = "hello\nmore\n"
						ownedBy(t, dir, owner)
					}
					if text, err := os.ReadFile(filepath.Join(dir, "hello.txt")); string(text) != wantLeft {
						t.Errorf("the tree holds %q, %v", text, err)
					}
				})
			}
		}
	}
}

// Root has no Podman engine, and runs no row on the host.
func TestAsRootRefusesOtherEngines(t *testing.T) {
	o := order(t, as(t, ""))
	o.Engine = isolation.EnginePodman
	if _, err := host(t).Open(ctx(t), o); faultKind(err) != isolation.Refusal || !strings.Contains(err.Error(), "--engine bundle") {
		t.Errorf("the Podman engine: %v", err)
	}
	if _, err := host(t).OpenOnHost(ctx(t), o); faultKind(err) != isolation.Refusal || !strings.Contains(err.Error(), "who owns the rows") {
		t.Errorf("on the host: %v", err)
	}
	if !slices.Equal(engines, []string{isolation.EngineBundle}) {
		t.Errorf("the engines are %q", engines)
	}
}

// A scratch directory that only root may pass is refused in words.
func TestAsRootAClosedScratchIsRefused(t *testing.T) {
	closed := filepath.Join(t.TempDir(), "closed")
	must(t, os.Mkdir(closed, 0o700))
	o := isolation.Options{Libexec: libexec(), Scratch: filepath.Join(closed, "scratch")}
	for what, err := range map[string]error{"Start": startError(t, o), "CheckHost": isolation.CheckHost(o)} {
		if faultKind(err) != isolation.Refusal || !strings.Contains(err.Error(), "may not pass") || !strings.Contains(err.Error(), "--scratch") {
			t.Errorf("%s: %v", what, err)
		}
	}
	// A directory that is there already is somebody's.
	o = options(t)
	o.Scratch = isolation.Whole(o).Scratch
	must(t, os.Mkdir(o.Scratch, 0o700))
	for what, err := range map[string]error{"Start": startError(t, o), "CheckHost": isolation.CheckHost(o)} {
		if err == nil || !strings.Contains(err.Error(), "no directory that podgrade made for these ids") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Where control groups are of version 1, root's cells have their own, and what a
// task asks for is enforced by the kernel.
func TestAsRootLimitsAreEnforced(t *testing.T) {
	memory := filepath.Join("/sys/fs/cgroup/memory")
	if _, err := os.Stat(filepath.Join(memory, "memory.limit_in_bytes")); err != nil {
		t.Fatal("this test needs control groups of version 1, alone or beside version 2: ", err)
	}
	h := host(t)
	o := order(t, as(t, ""))
	o.Plan.Limits = oci.Limits{MemoryMB: 48, CPUs: 0.2, PIDs: 40}
	o.RequireLimits = true
	c := openOn(t, h, o)
	if made := c.Made(); !slices.Equal(made.LimitsKept, []string{"memory", "cpus", "pids", "output", "time"}) || len(made.LimitsNotKept) > 0 {
		t.Errorf("enforced %q, not enforced %q", made.LimitsKept, made.LimitsNotKept)
	}
	groups := map[string]string{}
	for _, controller := range oci.LimitControllers() {
		found := groupsOf(t, controller, h)
		if len(found) != 1 {
			t.Fatalf("groups for %s: %q", controller, found)
		}
		groups[controller] = found[0]
	}
	for file, want := range map[string]string{
		"memory/memory.limit_in_bytes": "50331648", "cpu/cpu.cfs_quota_us": "20000", "pids/pids.max": "64",
	} {
		controller, name := filepath.Split(file)
		if text, err := os.ReadFile(filepath.Join(groups[strings.Trim(controller, "/")], name)); strings.TrimSpace(string(text)) != want {
			t.Errorf("%s is %q, %v; want %s", file, text, err, want)
		}
	}
	// What a limit of single processes does not count: files in memory.
	if got := sh(t, c, "dd if=/dev/zero of=/dev/shm/x bs=1M count=60"); got.Code == 0 {
		t.Errorf("60 MB of memory were used: %+v", got)
	}
	want(t, c, "rm -f /dev/shm/x; cat hello.txt", "hello\n") // it is the command that failed
	run(t, c, 2*time.Second, "/bin/sh", "-c", "while :; do :; done")
	if text, err := os.ReadFile(filepath.Join(groups["cpu"], "cpu.stat")); err != nil || strings.Contains(string(text), "nr_throttled 0\n") {
		t.Errorf("nothing was throttled: %s, %v", text, err)
	}
	isolation.EndBy(c) // and made again in the same groups
	alive(t, c)
	must(t, c.Close())
	for controller, group := range groups {
		if _, err := os.Stat(group); !os.IsNotExist(err) {
			t.Errorf("the group for %s is left: %v", controller, err)
		}
	}
}

// groupsOf are the groups of a host's cells in the tree of a controller.
func groupsOf(t testing.TB, controller string, h *isolation.Host) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir("/sys/fs/cgroup/"+controller, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), "podgrade-cell-"+isolation.RunName(h)+"-") {
			found = append(found, path)
		}
		return nil
	})
	must(t, err)
	return found
}

// The groups of a killed podgrade's cells are removed with the rest.
func TestAsRootTheGroupsOfADeadPodgradeAreRemoved(t *testing.T) {
	own, err := os.ReadFile("/proc/self/cgroup")
	must(t, err)
	_, rest, found := strings.Cut(string(own), ":pids:")
	if !found {
		t.Fatal("this test needs control groups of version 1, alone or beside version 2")
	}
	below, _, _ := strings.Cut(rest, "\n")
	o := options(t)
	must(t, os.MkdirAll(filepath.Join(o.Scratch, "run-dead"), 0o700))
	must(t, os.Chmod(filepath.Dir(filepath.Dir(o.Scratch)), 0o711))
	ids := hostIDs(t)
	must(t, os.Lchown(o.Scratch, int(ids.Users), int(ids.Groups)))
	must(t, os.Lchown(filepath.Join(o.Scratch, "run-dead"), int(ids.Users), int(ids.Groups)))
	group := filepath.Join("/sys/fs/cgroup/pids", below, "podgrade-cell-run-dead-cell-1")
	must(t, os.Mkdir(group, 0o755))
	defer os.Remove(group)
	sweep(t, o, false)
	if _, err := os.Stat(group); !os.IsNotExist(err) {
		t.Errorf("the group is left: %v", err)
	}
}
