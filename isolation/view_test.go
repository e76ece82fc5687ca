package isolation_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"podgrade/isolation"
)

// onView opens a cell on a workspace with a view.
func onView(t testing.TB, i isolation.Image, workspace, view string) isolation.Cell {
	t.Helper()
	return open(t, i, func(o *isolation.Order) { o.Workspace, o.View = workspace, view })
}

// largeTree has more entries than are copied unasked, and a directory.
func largeTree(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for n := range 20_000 {
		if n%1000 == 0 {
			must(t, os.Mkdir(fmt.Sprintf("%s/%02d", dir, n/1000), 0o755))
		}
		must(t, os.WriteFile(fmt.Sprintf("%s/%02d/%03d", dir, n/1000, n%1000), []byte("x\n"), 0o600))
	}
	return dir
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func checkView(t *testing.T, c isolation.Cell, kind, reason string) {
	t.Helper()
	if made := c.Made().View; made.Kind != kind || !strings.Contains(made.Reason, reason) {
		t.Errorf("the view is a %s, because: %s; want a %s, because of %q; hazards %q", made.Kind, made.Reason, kind, reason, made.Hazards)
	}
}

func TestAutoCopiesSmallTreesAndOverlaysLargeOnes(t *testing.T) {
	t.Parallel()
	small := onView(t, as(t, ""), order(t, as(t, "")).Workspace, isolation.ViewAuto)
	checkView(t, small, isolation.ViewCopy, "of this size")
	dir, heavy := largeTree(t), t.TempDir()
	file, err := os.Create(heavy + "/x")
	must(t, err)
	_, err = file.WriteString("x\n")
	must(t, errors.Join(err, unix.Fallocate(int(file.Fd()), 0, 0, 513<<20), file.Close()))
	many := onView(t, as(t, ""), dir, "")
	checkView(t, many, isolation.ViewOverlay, "more than 20000 entries")
	want(t, many, "cat 19/998; echo more >> 19/998; cat 19/998; rm -r 00; touch new; ls | wc -l", "x\nx\nmore\n20\n")
	much := onView(t, as(t, "1000"), heavy, "")
	checkView(t, much, isolation.ViewOverlay, "more than 512 MiB")
	want(t, much, "head -n 1 x; rm x; echo more >> x; cat x; touch new; ls | wc -l", "x\nmore\n2\n")
	// What nobody wrote of the file is no part of a copy: this one is as quick.
	must(t, os.Link(heavy+"/x", heavy+"/hard"))
	c := onView(t, as(t, ""), heavy, "")
	checkView(t, c, isolation.ViewCopy, "hard link")
	want(t, c, "head -n 1 x; echo more > hard; cat x; ls | wc -l", "x\nmore\n2\n")
}

// A group that the id map of cells does not have: the test user is in one.
func foreignGroup(t testing.TB) int {
	t.Helper()
	groups, err := os.Getgroups()
	must(t, err)
	for _, g := range groups {
		if g != os.Getgid() {
			return g
		}
	}
	t.Fatal("the user of the tests is in one group only: run .ci/prepare, or add it to another one")
	return 0
}

// hazards are what an overlay would show otherwise than it is.
func hazards(t testing.TB) map[string]func(dir string) {
	return map[string]func(dir string){
		"hard link":                 func(dir string) { must(t, os.Link(dir+"/hello.txt", dir+"/hard")) },
		"overlay attribute":         func(dir string) { must(t, unix.Setxattr(dir+"/sub", "user.overlay.opaque", []byte("y"), 0)) },
		"device":                    func(dir string) { must(t, unix.Mknod(dir+"/whiteout", unix.S_IFCHR|0o600, 0)) },
		"group outside of the id":   func(dir string) { must(t, os.Chown(dir+"/hello.txt", -1, foreignGroup(t))) },
		`overlay attribute: "plain`: func(dir string) { must(t, unix.Setxattr(dir+"/plain", "user.overlay.metacopy", nil, 0)) },
	}
}

func plainTree(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.WriteFile(dir+"/hello.txt", []byte("hello\n"), 0o640))
	must(t, os.WriteFile(dir+"/plain", []byte("plain\n"), 0o600))
	must(t, os.Mkdir(dir+"/sub", 0o700))
	must(t, os.WriteFile(dir+"/sub/file", []byte("file\n"), 0o600))
	return dir
}

// What an agent left to hide or bend files in an overlay makes the view a copy,
// in which all is there and can be written.
func TestHazardsMakeTheViewACopyAndAreRecorded(t *testing.T) {
	for hazard, plant := range hazards(t) {
		t.Run(hazard, func(t *testing.T) {
			dir := plainTree(t)
			plant(dir)
			c := onView(t, as(t, ""), dir, isolation.ViewOverlay)
			checkView(t, c, isolation.ViewCopy, hazard)
			if found := c.Made().View.Hazards; len(found) == 0 || !strings.Contains(found[0], hazard) {
				t.Errorf("hazards: %q", found)
			}
			want(t, c, "cat hello.txt plain sub/file && echo more >> hello.txt && rm -r sub && mv hello.txt plain && cat plain", "hello\nplain\nfile\nhello\nmore\n")
		})
	}
}

// A run directory inside the workspace is hidden, which an overlay cannot do
// and a bind must not.
func TestHiddenDirectoriesAreHiddenInEveryView(t *testing.T) {
	dir := plainTree(t)
	hide := func(o *isolation.Order) { o.Workspace, o.Hidden = dir, []string{dir + "/sub"} }
	c := open(t, as(t, ""), func(o *isolation.Order) { hide(o); o.View = isolation.ViewOverlay })
	checkView(t, c, isolation.ViewCopy, "hidden directory")
	want(t, c, "ls", "hello.txt\nplain\n")
	o := order(t, as(t, ""))
	hide(&o)
	o.View = isolation.ViewBind
	if _, err := host(t).Open(ctx(t), o); faultKind(err) != isolation.Refusal || !strings.Contains(err.Error(), "no cell may see") {
		t.Errorf("bound: %v", err)
	}
}

// In an overlay, too, the root of the workspace and what lies in it are the
// image user's, with the modes and times of the tree.
func TestAnOverlayHasTheModesAndTimesOfTheTree(t *testing.T) {
	t.Parallel()
	dir := plainTree(t)
	must(t, os.Chmod(dir, 0o750|os.ModeSetgid))
	must(t, unix.Setxattr(dir+"/plain", "user.colour", []byte("blue"), 0))
	must(t, os.Symlink("plain", dir+"/link"))
	for _, name := range []string{"hello.txt", "plain", "sub", "sub/file", ""} {
		must(t, unix.UtimesNanoAt(unix.AT_FDCWD, dir+"/"+name, []unix.Timespec{unix.NsecToTimespec(1e18), unix.NsecToTimespec(1e18)}, 0))
	}
	overEngines(t, func(t *testing.T, engine string) {
		for user, id := range map[string]string{"": "0 0", "1000:65532": "1000 65532"} {
			c := onEngine(t, engine, as(t, user), func(o *isolation.Order) { o.Workspace, o.View = dir, isolation.ViewOverlay })
			checkView(t, c, isolation.ViewOverlay, "asked for")
			want(t, c, "stat -c '%a %u %g %Y' . hello.txt sub sub/file; stat -c '%u %g' link",
				strings.ReplaceAll("2750 ID 1000000000\n640 ID 1000000000\n700 ID 1000000000\n600 ID 1000000000\nID\n", "ID", id))
			want(t, c, "echo more >> link; cat plain; mkdir new; mv hello.txt new; ls new; rm -r sub; ls", "plain\nmore\nhello.txt\nlink\nnew\nplain\n")
		}
	})
	if left, err := os.ReadFile(dir + "/plain"); string(left) != "plain\n" {
		t.Errorf("the evidence holds %q, %v", left, err)
	}
}

func TestBindChangesTheWorkspaceItself(t *testing.T) {
	overEngines(t, func(t *testing.T, engine string) {
		dir := filepath.Join(t.TempDir(), "a: b,c")
		must(t, os.Rename(plainTree(t), dir))
		c := onEngine(t, engine, as(t, ""), func(o *isolation.Order) { o.Workspace, o.View = dir, isolation.ViewBind })
		checkView(t, c, isolation.ViewBind, "asked for")
		want(t, c, "cat hello.txt; echo more >> hello.txt; mv sub moved; ls; grep ' /work/workspace ' /proc/self/mountinfo | grep -c 'nosuid,nodev'", "hello\nhello.txt\nmoved\nplain\n1\n")
		must(t, c.Close())
		if left, err := os.ReadFile(dir + "/hello.txt"); string(left) != "hello\nmore\n" {
			t.Errorf("the workspace holds %q, %v", left, err)
		}
		if _, err := os.Stat(dir + "/moved/file"); err != nil {
			t.Error(err)
		}
	})
}

func TestBindIsRefusedForAnotherUserThanRoot(t *testing.T) {
	o := order(t, as(t, "1000"))
	o.View = isolation.ViewBind
	if _, err := host(t).Open(ctx(t), o); faultKind(err) != isolation.Refusal || !strings.Contains(err.Error(), "not root") {
		t.Errorf("bound for user 1000: %v", err)
	}
	o.View = "mirror"
	if _, err := host(t).Open(ctx(t), o); faultKind(err) != isolation.Refusal || !strings.Contains(err.Error(), "auto, copy, overlay, bind") {
		t.Errorf("a view that there is not: %v", err)
	}
}

// A cell that a command ended is made again on the same view.
func TestViewsOutliveTheirCell(t *testing.T) {
	for _, view := range []string{isolation.ViewCopy, isolation.ViewOverlay, isolation.ViewBind} {
		c := onView(t, as(t, ""), plainTree(t), view)
		want(t, c, "echo kept > kept", "")
		isolation.EndBy(c)
		want(t, c, "cat kept hello.txt", "kept\nhello\n")
		checkView(t, c, view, "asked for")
	}
}

// Without a container there is no mount of the worker's to see.
func TestOnTheHostTheWorkspaceIsACopyOrItself(t *testing.T) {
	for view, want := range map[string]struct{ kind, reason string }{
		"":                    {isolation.ViewCopy, "of this size"},
		isolation.ViewOverlay: {isolation.ViewCopy, "outside of a cell"},
		isolation.ViewBind:    {isolation.ViewBind, "asked for"},
	} {
		dir := plainTree(t)
		c, err := host(t).OpenOnHost(ctx(t), isolation.Order{Workspace: dir, View: view})
		must(t, err)
		checkView(t, c, want.kind, want.reason)
		if got := sh(t, c, "cat hello.txt; echo more >> hello.txt"); got.Code != 0 || got.out != "hello\n" {
			t.Errorf("%s: %+v", view, got)
		}
		must(t, c.Close())
		if left, _ := os.ReadFile(dir + "/hello.txt"); (string(left) != "hello\n") != (want.kind == isolation.ViewBind) {
			t.Errorf("%s: the workspace holds %q", view, left)
		}
	}
}

// TestATaskBringsNoHugeTree: a record can name any directory as its task's.
func TestATaskBringsNoHugeTree(t *testing.T) {
	defer isolation.BoundBrought(3, 100)()
	dir := t.TempDir()
	must(t, os.Mkdir(dir+"/.git", 0o755))
	for _, name := range []string{"1", "2", "3", ".git/4", ".git/5"} {
		must(t, os.WriteFile(dir+"/"+name, []byte("x"), 0o644))
	}
	c := open(t, as(t, ""), func(o *isolation.Order) { o.TaskDir = dir })
	want(t, c, "ls "+c.Places().TaskDir, "1\n2\n3\n")
	must(t, os.WriteFile(dir+"/6", nil, 0o644))
	o := order(t, as(t, ""))
	o.TaskDir = dir
	_, err := host(t).Open(ctx(t), o)
	if faultKind(err) != isolation.Refusal || !strings.Contains(fmt.Sprint(err), "more than 3 entries") || !strings.Contains(fmt.Sprint(err), "a directory of its own") {
		t.Errorf("a task directory that is too large: %v", err)
	}
}

// A task directory may hold the scratch: a copy of it must not copy itself.
func TestAScratchBelowTheTaskDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "task.yaml"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	i := as(t, "")
	o := options(t)
	o.Scratch = filepath.Join(dir, "scratch")
	h := start(t, o)
	defer h.Close()
	order := order(t, i)
	order.TaskDir = dir
	want(t, openOn(t, h, order), "ls /work/task_dir", "task.yaml\n")
}
