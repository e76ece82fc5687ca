package isolation_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"podgrade/isolation"
	"podgrade/oci"
)

// executeOrder orders an execute cell with a fresh workspace.
func executeOrder(t testing.TB, i isolation.Image) isolation.Order {
	t.Helper()
	workspace := filepath.Join(t.TempDir(), "artifacts")
	if err := os.Mkdir(workspace, 0o755); err != nil {
		t.Fatal(err)
	}
	return isolation.Order{Plan: oci.Plan{Phase: oci.Execute, Network: oci.Sealed}, Image: i, Workspace: workspace, Create: true}
}

func settle(t testing.TB, c isolation.Cell, s isolation.Settle) isolation.Settled {
	t.Helper()
	settled, err := c.Settle(ctx(t), s)
	if err != nil {
		t.Fatal(err)
	}
	return settled
}

// leaveAll makes every kind of thing that an agent may leave in its workspace.
const leaveAll = `set -e
mkdir locked sub && echo inside > locked/inside && echo x > sub/x
ln sub/x hard; ln -s sub/x link; ln -s /etc/passwd link-out; mkfifo pipe
echo '#!/bin/sh' > setuid; chmod 6755 setuid; chmod 2775 sub
echo secret > private; chmod 0 private
touch -d 2001-02-03 sub/x private; chmod 500 .
chmod 0 locked`

// seen describes a workspace as its owner sees it: what he may not read, too.
const seen = `stat -c '%N %u:%g %a %h %s %Y' . * sub/*`

// The workspace of an execute cell belongs to the image's user while the cell
// lives and to the caller afterwards, and a grade sees what the agent saw.
func TestAWorkspaceGoesToTheImagesUserAndBack(t *testing.T) {
	for _, user := range []string{"", "1000", "grader", "1000:0", "65532:65532"} {
		t.Run("user "+user, func(t *testing.T) {
			o := executeOrder(t, as(t, user))
			c := openOn(t, host(t), o)
			want(t, c, "pwd; test -O . && stat -c %a .", oci.WorkspacePath+"\n755\n")
			want(t, c, leaveAll, "")
			before := sh(t, c, seen)
			settled := settle(t, c, isolation.Settle{})
			if _, err := c.Run(ctx(t), isolation.Command{Argv: []string{"/bin/true"}}); err == nil {
				t.Error("a settled cell runs commands")
			}
			ownedByCaller(t, o.Workspace)
			if settled.Entries != 9 && settled.Entries != 10 {
				t.Errorf("the workspace has %d entries", settled.Entries)
			}
			if len(settled.OtherOwners) > 0 {
				t.Errorf("of others: %q", settled.OtherOwners)
			}
			grade := openOn(t, host(t), isolation.Order{Plan: oci.Plan{Phase: oci.Grade, Network: oci.Sealed}, Image: o.Image, Workspace: o.Workspace})
			if after := sh(t, grade, seen); after.out != before.out {
				t.Errorf("the agent saw\n%s\nthe grade sees\n%s", before.out, after.out)
			}
			if view := grade.Made().View; view.Digest != settled.Digest || view.Entries != settled.Entries || view.Bytes != settled.Bytes {
				t.Errorf("settled as %+v, the grade's view is %+v", settled, view)
			}
		})
	}
}

// ownedByCaller checks every entry that can be reached, and that those that
// cannot be are closed by their mode alone.
func ownedByCaller(t *testing.T, dir string) {
	t.Helper()
	var closed []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if errors.Is(err, os.ErrPermission) {
			closed = append(closed, path)
			return nil
		}
		var st unix.Stat_t
		if err = errors.Join(err, unix.Lstat(path, &st)); err == nil && (int(st.Uid) != os.Getuid() || int(st.Gid) != os.Getgid()) {
			t.Errorf("%s belongs to %d:%d", path, st.Uid, st.Gid)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		os.Chmod(dir, 0o700)
		for _, path := range closed {
			os.Chmod(path, 0o700)
		}
	})
}

// Every engine lends the workspace, and gives it back.
func TestEveryEngineSettles(t *testing.T) {
	for _, engine := range []string{isolation.EnginePodman, isolation.EngineHost} {
		t.Run(engine, func(t *testing.T) {
			o := executeOrder(t, as(t, "1000"))
			open := host(t).Open
			if o.Engine = engine; engine == isolation.EngineHost {
				open = host(t).OpenOnHost
			}
			c, err := open(ctx(t), o)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			want(t, c, leaveAll, "")
			want(t, c, "test -O "+c.Places().TaskDir+" && touch "+c.Places().TaskDir+"/x && ls "+c.Places().TaskDir, "x\n")
			settled := settle(t, c, isolation.Settle{KeepState: engine == isolation.EngineHost})
			if engine == isolation.EngineHost && (settled.State.Problem == "" || c.Made().StateProblem == "") {
				t.Error("on the host a state was kept")
			}
			ownedByCaller(t, o.Workspace)
			grade := openOn(t, host(t), isolation.Order{Plan: oci.Plan{Phase: oci.Grade, Network: oci.Sealed}, Image: o.Image, Workspace: o.Workspace})
			if view := grade.Made().View; view.Digest != settled.Digest || view.Entries != settled.Entries {
				t.Errorf("settled as %+v, the grade's view is %+v", settled, view)
			}
		})
	}
}

// What belongs to others is named, and left to them.
func TestFilesOfOthersStayTheirs(t *testing.T) {
	o := executeOrder(t, as(t, ""))
	withDockerCapabilities(&o)
	c := openOn(t, host(t), o)
	want(t, c, "mkdir theirs && echo x > theirs/x && chown -R 1000:1000 theirs && touch grouped && chgrp 50 grouped", "")
	settled := settle(t, c, isolation.Settle{})
	if want := []string{`"theirs" of user 1000, group 1000`, `"theirs/x" of user 1000, group 1000`}; !slices.Equal(settled.OtherOwners, want) {
		t.Errorf("of others: %q, want %q", settled.OtherOwners, want)
	}
	grade := openOn(t, host(t), isolation.Order{Plan: oci.Plan{Phase: oci.Grade, Network: oci.Sealed}, Image: o.Image, Workspace: o.Workspace})
	want(t, grade, "stat -c '%u:%g' theirs/x grouped", "1000:1000\n0:50\n")
	if err := grade.Close(); err != nil {
		t.Fatal(err)
	}
	dir, err := os.Open(o.Workspace)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if err := host(t).RemoveTree(ctx(t), dir); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(o.Workspace); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// A cell that is closed and never settled gives its workspace back too.
func TestAClosedCellGivesItsWorkspaceBack(t *testing.T) {
	o := executeOrder(t, as(t, "1000"))
	c, err := host(t).Open(ctx(t), o)
	if err != nil {
		t.Fatal(err)
	}
	want(t, c, "mkdir -m 0 locked; echo x > x", "")
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	ownedByCaller(t, o.Workspace)
}

const closedWork = "mkdir closed; echo x > closed/x; chmod 0 closed; touch done"

// Nothing that an agent made is lost when podgrade is killed, and none of it
// stays with an owner whom the caller is not.
func TestAKilledPodgradesWorkspaceIsGivenBack(t *testing.T) {
	for _, how := range []string{"gc", "start", "removal", "start while it is out of reach, then gc"} {
		t.Run(how, func(t *testing.T) {
			o := options(t)
			l := looper{Options: o, Order: executeOrder(t, as(t, "1000")), Stay: true, Line: closedWork}
			l.Options.Log = nil
			cmd, said := startLooper(t, l)
			if !said.Scan() || said.Text() != "ready" {
				t.Fatal(said.Text())
			}
			workspace := l.Order.Workspace
			for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
				if _, err := os.Stat(workspace + "/done"); err == nil {
					break
				}
				if time.Now().After(end) {
					t.Fatal("it never worked")
				}
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			cmd.Wait()
			allGone(t, o.Scratch)
			if err := os.RemoveAll(workspace); err == nil {
				t.Fatal("the workspace was the caller's all the time")
			}
			switch how {
			case "gc":
				swept, err := isolation.Sweep(ctx(t), o, false)
				if err != nil || len(swept.Left) != 2 || swept.Left[0].Kind != isolation.LeftoverWorkspace || swept.Left[0].Name != workspace || !swept.Left[0].Removed {
					t.Errorf("%+v, %v", swept, err)
				}
			case "start":
				if err := start(t, o).Close(); err != nil {
					t.Fatal(err)
				}
			case "start while it is out of reach, then gc":
				above := filepath.Dir(workspace)
				if err := os.Chmod(above, 0); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { os.Chmod(above, 0o700) })
				if err := start(t, o).Close(); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(above, 0o700); err != nil {
					t.Fatal(err)
				}
				if _, err := isolation.Sweep(ctx(t), o, false); err != nil {
					t.Fatal(err)
				}
			case "removal":
				h := start(t, options(t)) // which knows nothing of it
				defer h.Close()
				dir := openDir(t, workspace)
				if err := h.RemoveTree(ctx(t), dir); err != nil {
					t.Fatal(err)
				}
				if left, err := os.ReadDir(workspace); err != nil || len(left) > 0 {
					t.Errorf("left: %v, %v", left, err)
				}
				nothingLeft(t, o)
				return
			}
			ownedByCaller(t, workspace)
			if err := os.Chmod(workspace+"/closed", 0o700); err != nil {
				t.Fatal(err)
			}
			if text, err := os.ReadFile(workspace + "/closed/x"); err != nil || string(text) != "x\n" {
				t.Errorf("%q, %v", text, err)
			}
			nothingLeft(t, o)
		})
	}
}

func openDir(t *testing.T, path string) *os.File {
	t.Helper()
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), path)
	t.Cleanup(func() { file.Close() })
	return file
}

// A worker that is killed takes the cell with it, not the workspace.
func TestAKilledWorkersWorkspaceIsGivenBack(t *testing.T) {
	o := options(t)
	h := start(t, o)
	order := executeOrder(t, as(t, "1000"))
	c, err := h.Open(ctx(t), order)
	if err != nil {
		t.Fatal(err)
	}
	want(t, c, closedWork, "")
	if err := named(o.Scratch, "podgrade-worker")[0].Kill(); err != nil {
		t.Fatal(err)
	}
	isolation.AwaitWorker(h)
	if _, err := c.Settle(ctx(t), isolation.Settle{}); err == nil {
		t.Error("a cell without a worker was settled")
	}
	c.Close() // it may say that it could not give the workspace back
	h.Close()
	ownedByCaller(t, order.Workspace)
	nothingLeft(t, o)
}

// A directory at the same place, were it of the same inode number, is another.
func TestAWorkspaceMadeAnewIsNotGivenBack(t *testing.T) {
	o := options(t)
	l := looper{Options: o, Order: executeOrder(t, as(t, "1000")), Stay: true, Line: "true"}
	l.Options.Log = nil
	cmd, said := startLooper(t, l)
	if !said.Scan() || said.Text() != "ready" {
		t.Fatal(said.Text())
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	allGone(t, o.Scratch)
	if err := errors.Join(os.Remove(l.Order.Workspace), os.Mkdir(l.Order.Workspace, 0o755)); err != nil {
		t.Fatal(err)
	}
	h := start(t, options(t)) // its own scratch: what is in the other one is not swept yet
	defer h.Close()
	c := openOn(t, h, l.Order)
	want(t, c, "touch x", "")
	nothingLeft(t, o)
	want(t, c, "test -O . && test -O x", "")
	settle(t, c, isolation.Settle{})
}

// A workspace that was moved away or replaced is not touched.
func TestOnlyTheLentWorkspaceIsGivenBack(t *testing.T) {
	order := executeOrder(t, as(t, "1000"))
	c, err := host(t).Open(ctx(t), order)
	if err != nil {
		t.Fatal(err)
	}
	want(t, c, "echo x > x", "")
	moved := order.Workspace + "-moved"
	if err := errors.Join(os.Rename(order.Workspace, moved), os.Mkdir(order.Workspace, 0o755)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Settle(ctx(t), isolation.Settle{}); err == nil || !strings.Contains(err.Error(), "another directory") {
		t.Error(err)
	}
	if err := errors.Join(os.Remove(order.Workspace), os.Rename(moved, order.Workspace)); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	ownedByCaller(t, order.Workspace)
}

func TestAWorkspaceToLendIsEmpty(t *testing.T) {
	o := executeOrder(t, as(t, "1000"))
	if err := os.WriteFile(filepath.Join(o.Workspace, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := host(t).Open(ctx(t), o); err == nil {
		c.Close()
		t.Fatal("a workspace with a file in it was given to the image's user")
	} else if !strings.Contains(err.Error(), "not empty") {
		t.Error(err)
	}
	ownedByCaller(t, o.Workspace)
}

// pre_run's files go into a directory of the image's user.
func TestAnExecuteCellHasAnEmptyTaskDirectory(t *testing.T) {
	c := openOn(t, host(t), executeOrder(t, as(t, "1000")))
	want(t, c, "stat -c '%u:%g %a' "+oci.TaskDirPath+" && touch "+oci.TaskDirPath+"/x && ls "+oci.TaskDirPath, "1000:1000 755\nx\n")
}

// A command that ends its cell takes nothing of what others changed along.
func TestAnExecuteCellKeepsItsRootWhenItIsMadeAgain(t *testing.T) {
	c := openOn(t, host(t), executeOrder(t, as(t, "")))
	want(t, c, "echo installed > /etc/installed; echo x > x", "")
	isolation.EndBy(c)
	want(t, c, "cat /etc/installed x", "installed\nx\n")
}

// An agent cannot make its row impossible to grade by how deep its tree is, or
// by closing the root.
func TestDeepAndClosedWorkspacesAreGraded(t *testing.T) {
	t.Parallel()
	for _, user := range []string{"1000"} {
		o := executeOrder(t, as(t, user))
		c := openOn(t, host(t), o)
		// Two deep trees, one moved to the bottom of the other: a path has an end.
		want(t, c, "D=; E=; i=0; while [ $i -lt 1300 ]; do D=${D}d/; E=${E}e/; i=$((i+1)); done; mkdir -p $D $E && cd $D && mv "+oci.WorkspacePath+"/e . && echo bottom > bottom && chmod 0 "+oci.WorkspacePath, "")
		settled := settle(t, c, isolation.Settle{})
		if settled.Entries != 2601 {
			t.Errorf("%d entries", settled.Entries)
		}
		if info, err := os.Stat(o.Workspace); err != nil || info.Mode().Perm() != 0 {
			t.Errorf("%v, %v", info, err)
		}
		for _, view := range []string{isolation.ViewCopy, isolation.ViewOverlay} {
			g := graded(t, o, "")
			g.View = view
			grade := openOn(t, host(t), g)
			var out bytes.Buffer
			exit, err := grade.Run(ctx(t), isolation.Command{Argv: []string{"/bin/stat", "-c", "%a", oci.WorkspacePath}, Env: testEnv, Dir: "/", Stdout: &out})
			if err != nil || exit.Code != 0 || out.String() != "0\n" || grade.Made().View.Digest != settled.Digest {
				t.Errorf("%s: %+v, %q, %v", view, exit, out.String(), err)
			}
			if err := grade.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := host(t).RemoveTree(ctx(t), openDir(t, o.Workspace)); err != nil {
			t.Error(err)
		}
		os.Chmod(o.Workspace, 0o700)
	}
}

// A grade that is given up while a large workspace is copied ends at once.
func TestAGradeIsGivenUpWhileItsWorkspaceIsCopied(t *testing.T) {
	o := order(t, as(t, ""))
	o.Workspace, o.View = "/usr", isolation.ViewCopy
	waiting, cancel := context.WithTimeout(ctx(t), 300*time.Millisecond)
	defer cancel()
	started := time.Now()
	c, err := host(t).Open(waiting, o)
	if err == nil {
		c.Close()
		t.Fatal("all of /usr was copied in an instant")
	}
	if took := time.Since(started); took > 5*time.Second || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it took %v: %v", took, err)
	}
	alive(t, openOn(t, host(t), order(t, as(t, ""))))
}
