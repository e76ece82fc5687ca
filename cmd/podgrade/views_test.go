package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"podgrade/isolation"
	"podgrade/isolation/testimages"
	"podgrade/isolation/testimages/stored"
	"podgrade/oci"
	"podgrade/tasks"
	"podgrade/tasks/record"
	"podgrade/tasks/record/fixture"
)

// hardTask is a row of commands that are hard on a file system, in a workspace
// of what agents leave, with an id that paths are easily built wrong from.
type hardTask struct {
	criteria []tasks.Criterion
	hazards  bool // the workspace has what no overlay shows as it is
}

const hardID = "odd: task, with spaces"

func line(command, output string) tasks.Criterion {
	return &tasks.RunCommand{
		Base:    tasks.Common{Type: tasks.TypeRunCommand, Description: command, Weight: 1, PassThreshold: 0.9},
		Command: command, Timeout: 60, StdoutMatch: "exact", ExpectedStdout: &output,
	}
}

func python(program string) string { return "python3 -c \"" + program + "\"" }

// Criteria that every view must answer, that an overlay fails, and that need
// what makes the view a copy.
func gentleCriteria() []tasks.Criterion {
	return []tasks.Criterion{
		line("mv lib lib2 && cat lib2/deep/file", "deep"),
		line(python("import sqlite3; c = sqlite3.connect('notes.db'); c.execute('pragma journal_mode=wal'); c.execute('insert into notes values (2)'); c.commit(); print(c.execute('select sum(n) from notes').fetchone()[0])"), "3"),
		line("tool", "from node_modules"),
		line("printf end >> large && stat -c %s large && tail -c 3 large", "1073741827\nend"),
		line("cat 'a:b,c d'", "odd"),
		&tasks.FileExists{Base: tasks.Common{Type: tasks.TypeFileExists, Description: "moved", Weight: 1, PassThreshold: 0.9}, Path: "lib2/deep/file"},
	}
}

func renameCriteria() []tasks.Criterion {
	return []tasks.Criterion{
		line(python("import os; os.rename('src', 'moved')")+" && cat moved/main", "main"),
		line("git mv docs manual && git status --porcelain -- docs manual", "R  docs/page -> manual/page"),
	}
}

func hazardCriteria() []tasks.Criterion {
	return []tasks.Criterion{
		line("printf more >> hard && cat hard-too", "hardmore"),
		line("printf more >> shared && cat shared", "sharedmore"),
		line("cat planted/file bent", "plantedbent"),
		line("test -c whiteout && ls -d whiteout", "whiteout"),
	}
}

// write makes a row of the task for an image.
func (h hardTask) write(t *testing.T, pin oci.Pin) string {
	t.Helper()
	row, err := fixture.Write(fixture.Order{Task: taskNamed(t, hardID), Form: fixture.Pinned, Out: t.TempDir(), Pin: pin,
		Files: map[string]string{"lib/deep/file": "deep", "a:b,c d": "odd", "src/main": "main", "docs/page": "page\n",
			"hard": "hard", "shared": "shared", "planted/file": "planted", "bent": "bent"},
		Change: func(task *tasks.Task) { task.TaskID, task.SuccessCriteria = hardID, h.criteria }})
	check(t, err)
	dir := filepath.Join(row, record.ArtifactsDir, hardID)
	check(t, os.MkdirAll(dir+"/node_modules/.bin", 0o755))
	check(t, os.WriteFile(dir+"/node_modules/.bin/tool", []byte("#!/bin/sh\necho from node_modules\n"), 0o755))
	check(t, os.Chmod(dir+"/node_modules/.bin/tool", 0o755))
	host(t, dir, "git", "init", "--quiet")
	host(t, dir, "git", "add", "docs")
	host(t, dir, "git", "-c", "user.name=agent", "-c", "user.email=agent@localhost", "commit", "--quiet", "-m", "docs")
	host(t, dir, "python3", "-c", "import sqlite3; c = sqlite3.connect('notes.db'); c.execute('create table notes (n)'); c.execute('insert into notes values (1)'); c.commit()")
	check(t, os.WriteFile(dir+"/large", []byte("begin"), 0o644))
	check(t, os.Truncate(dir+"/large", 1<<30))
	if h.hazards {
		plant(t, dir)
	}
	return row
}

// taskNamed is the file of the byod task under another id: a recorded task file
// must be the row's.
func taskNamed(t *testing.T, id string) string {
	t.Helper()
	text, err := os.ReadFile(byod)
	check(t, err)
	const line = "task_id: byod_smoke_test"
	if !strings.Contains(string(text), line) {
		t.Fatalf("%s holds no %q", byod, line)
	}
	file := filepath.Join(t.TempDir(), "task.yaml")
	check(t, os.WriteFile(file, []byte(strings.Replace(string(text), line, fmt.Sprintf("task_id: %q", id), 1)), 0o644))
	return file
}

// plant makes what no overlay shows as it is.
func plant(t *testing.T, dir string) {
	t.Helper()
	check(t, os.Link(dir+"/hard", dir+"/hard-too"))
	check(t, os.Chown(dir+"/shared", -1, foreignGroup(t)))
	check(t, unix.Setxattr(dir+"/planted", "user.overlay.opaque", []byte("y"), 0))
	check(t, unix.Setxattr(dir+"/bent", "user.overlay.metacopy", nil, 0))
	check(t, unix.Setxattr(dir+"/bent", "user.overlay.redirect", []byte("/shared"), 0))
	check(t, unix.Mknod(dir+"/whiteout", unix.S_IFCHR|0o600, 0))
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// host runs a program of this machine in a directory.
func host(t *testing.T, dir string, argv ...string) {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%q: %v\n%s", argv, err, out)
	}
}

// foreignGroup is a group of the user that no cell has an id for.
func foreignGroup(t *testing.T) int {
	t.Helper()
	groups, err := os.Getgroups()
	check(t, err)
	for _, group := range groups {
		if group != os.Getgid() {
			return group
		}
	}
	t.Fatal("the user of the tests is in one group only: run .ci/prepare, or add it to another one")
	return 0
}

// workbench imports an image with the programs that the task needs, once for
// this user's store.
var workbenchPins sync.Map

func workbench(t *testing.T, user string) oci.Pin {
	t.Helper()
	if pin, ok := workbenchPins.Load(user); ok {
		return pin.(oci.Pin)
	}
	image := testimages.Workbench()
	if user != "" {
		image = testimages.WorkbenchAs(user)
	}
	pin := importOnce(t, image)
	workbenchPins.Store(user, pin)
	return pin
}

func importOnce(t *testing.T, image testimages.Image) oci.Pin {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	h, err := isolation.Start(ctx, isolation.Options{Libexec: filepath.Join(buildDir(t), "libexec", "podgrade"), Scratch: t.TempDir()})
	check(t, err)
	defer h.Close()
	pin, err := stored.Put(ctx, h, image)
	check(t, err)
	return pin
}

// graded is what a grade wrote into the record.
type graded struct {
	exit    int
	said    string
	verdict string // status, score, and each criterion's score
	view    string
	reason  string
}

func gradeRow(t *testing.T, row string, options ...string) graded {
	t.Helper()
	cmd := exec.Command(filepath.Join(buildDir(t), "bin", "podgrade"), append([]string{"evaluate", row, "--allow-recorded-commands"}, options...)...)
	out, err := cmd.CombinedOutput()
	g := graded{said: string(out)}
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		t.Fatal(err)
	}
	g.exit = cmd.ProcessState.ExitCode()
	text, err := os.ReadFile(filepath.Join(row, record.TaskFile))
	check(t, err)
	r, err := record.Parse(text)
	check(t, err)
	var results []struct {
		Description string  `json:"description"`
		Score       float64 `json:"score"`
		Details     string  `json:"details"`
	}
	check(t, r.Get(record.FieldCriteriaResults).Decode(&results))
	g.verdict = string(r.Status)
	for _, result := range results {
		g.verdict += fmt.Sprintf("\n%.3f %s", result.Score, result.Description)
		if result.Score < 1 {
			g.said += "\n" + result.Details
		}
	}
	g.view, g.reason = r.Environment.Text(record.WorkspaceView), r.Environment.Text(record.ViewReason)
	return g
}

// want checks a grade that must come to SUCCESS, under a view for a reason.
func (g graded) want(t *testing.T, view, reason string) {
	t.Helper()
	if g.exit != 0 || !strings.HasPrefix(g.verdict, "SUCCESS\n") {
		t.Errorf("exit %d, %s\n%s", g.exit, g.verdict, g.said)
	}
	if g.view != view || !strings.Contains(g.reason, reason) {
		t.Errorf("view %s, because: %s; want %s, because of %q", g.view, g.reason, view, reason)
	}
}

// One task of twelve criteria comes to one verdict whatever the view is, with
// what was fallen back to in the record.
func TestVerdictsDoNotDependOnTheWorkspaceView(t *testing.T) {
	t.Parallel()
	full := hardTask{criteria: append(append(gentleCriteria(), renameCriteria()...), hazardCriteria()...), hazards: true}
	if len(full.criteria) != 12 {
		t.Fatalf("%d criteria", len(full.criteria))
	}
	for _, user := range []string{"", "1000"} {
		pin := workbench(t, user)
		views := map[string]struct{ view, reason string }{
			"copy": {"copy", "asked for"}, "overlay": {"copy", "an overlay would not show all as it is"}, "auto": {"copy", "of this size"},
		}
		if user == "" {
			views["bind"] = struct{ view, reason string }{"bind", "asked for"}
		}
		for asked, want := range views {
			t.Run(asked+" for user "+user, func(t *testing.T) {
				row := full.write(t, pin)
				g := gradeRow(t, row, "--workspace-view", asked)
				g.want(t, want.view, want.reason)
				text, err := os.ReadFile(filepath.Join(row, record.TaskFile))
				check(t, err)
				for _, hazard := range []string{"hard link", "group outside", "overlay attribute", "device"} {
					if !strings.Contains(string(text), hazard) {
						t.Errorf("the record does not name the hazard %q", hazard)
					}
				}
				if loud := strings.Contains(g.said, "change the workspace itself"); loud != (asked == "bind") {
					t.Errorf("announced: %v\n%s", loud, g.said)
				}
			})
		}
	}
}

// An overlay refuses to rename a directory of the workspace, so a row that does
// is graded again on a copy; without that the overlay's verdict counts.
func TestARowThatFailsUnderAnOverlayIsGradedAgainUnderACopy(t *testing.T) {
	t.Parallel()
	for _, user := range []string{"", "1000"} {
		pin := workbench(t, user)
		for _, engine := range isolation.Engines()[1:] {
			t.Run(engine+" for user "+user, func(t *testing.T) {
				gentle := hardTask{criteria: gentleCriteria()}
				gradeRow(t, gentle.write(t, pin), "--workspace-view", "overlay", "--engine", engine).want(t, "overlay", "asked for")
				renaming := hardTask{criteria: append(gentleCriteria(), renameCriteria()...)}
				gradeRow(t, renaming.write(t, pin), "--workspace-view", "overlay", "--engine", engine).want(t, "copy", "graded again under a copy")
			})
		}
	}
}

func TestBindIsRefusedForAnImageWithAnotherUserThanRoot(t *testing.T) {
	row := hardTask{criteria: gentleCriteria()}.write(t, workbench(t, "1000"))
	before, err := os.ReadFile(filepath.Join(row, record.TaskFile))
	check(t, err)
	cmd := exec.Command(filepath.Join(buildDir(t), "bin", "podgrade"), "evaluate", row, "--allow-recorded-commands", "--workspace-view", "bind")
	out, _ := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "not root") {
		t.Errorf("exit %d\n%s", cmd.ProcessState.ExitCode(), out)
	}
	if after, _ := os.ReadFile(filepath.Join(row, record.TaskFile)); string(after) != string(before) {
		t.Error("the record was changed")
	}
}

// A workspace whose root cannot be entered is the row's own fault.
func TestAWorkspaceThatCannotBeEnteredIsNoInfrastructure(t *testing.T) {
	for _, view := range []string{"copy", "overlay"} {
		row := hardTask{criteria: []tasks.Criterion{line("cat 'a:b,c d'", "odd"), line("chmod 000 . && echo shut", "shut"), line("cat 'a:b,c d'", "odd")}}.write(t, workbench(t, "1000"))
		if g := gradeRow(t, row, "--workspace-view", view); g.exit != 1 || !strings.HasPrefix(g.verdict, "FAILURE\n1.000") || !strings.Contains(g.verdict, "\n0.000 cat") {
			t.Errorf("%s: exit %d, %s\n%s", view, g.exit, g.verdict, g.said)
		}
	}
}
