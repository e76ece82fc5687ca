package main

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"podgrade/isolation"
	"podgrade/isolation/testimages"
	"podgrade/isolation/testimages/stored"
	"podgrade/tasks"
	"podgrade/tasks/record/fixture"
)

// imageKind is an image as rows are graded in it.
type imageKind struct {
	image testimages.Image
	user  string // the id of its user; "": it has no shell
	both  bool   // engines, where one shows enough of the other
}

func imageKinds() []imageKind {
	return []imageKind{
		{testimages.Busybox(), "0", false},
		{testimages.BusyboxAs("1000"), "1000", true},
		{testimages.BusyboxAs("65532"), "65532", false},
		{testimages.BusyboxAs(testimages.GraderName), "1000", false},
		{testimages.Debian(), "0", false},
		{testimages.Debian().WithConfig("localhost/podgrade-test/debian-as:grader", testimages.Config{User: testimages.GraderName}), "1000", true},
		{testimages.Empty(), "", true},
	}
}

// criteria are those that hold in an image: they read and write a closed workspace,
// and find the image's own files its owner's.
func (k imageKind) criteria() tasks.Criteria {
	base := func(kind string) tasks.Common {
		return tasks.Common{Type: kind, Description: "d", Weight: 1, PassThreshold: 0.9}
	}
	all := tasks.Criteria{
		&tasks.FileContains{Base: base(tasks.TypeFileContains), Path: "closed/secret", Includes: []string{"told"}},
		&tasks.FileExists{Base: base(tasks.TypeFileExists), Path: "closed"},
	}
	if k.user == "" {
		return all
	}
	line := "set -e; test $(id -u) = " + k.user + "; test \"$(stat -c '%a %u' . closed closed/secret | tr '\\n' ,)\" = '700 " + k.user + ",700 " + k.user + ",600 " + k.user + ",'; " +
		"cat closed/secret; echo more >>closed/secret; rm gone; mkdir made; chmod 755 . closed; test $(stat -c '%u%a' /etc/passwd) = 0644"
	if k.user != "0" {
		line += "; if (echo x >>/etc/passwd) 2>/dev/null; then exit 1; fi"
	}
	return append(all, &tasks.RunCommand{Base: base(tasks.TypeRunCommand), Command: line, Timeout: 60, StdoutMatch: "exact"})
}

// write writes a row whose workspace has 0700 and its files 0600.
func (k imageKind) write(t *testing.T, host *isolation.Host) (row string) {
	t.Helper()
	pin, err := stored.Put(t.Context(), host, k.image)
	check(t, err)
	row, err = fixture.Write(fixture.Order{Task: byod, Form: fixture.Pinned, Out: t.TempDir(), Pin: pin,
		Files:  map[string]string{"closed/secret": "told\n", "gone": "gone\n"},
		Change: func(task *tasks.Task) { task.SuccessCriteria = k.criteria() }})
	check(t, err)
	workspace := filepath.Join(row, "artifacts", "byod_smoke_test")
	check(t, os.Chmod(filepath.Join(workspace, "closed/secret"), 0o600))
	check(t, os.Chmod(filepath.Join(workspace, "gone"), 0o600))
	check(t, os.Chmod(filepath.Join(workspace, "closed"), 0o700))
	check(t, os.Chmod(workspace, 0o700))
	return row
}

// evidenceOf is all that the kernel tells of each entry of a tree, and its bytes. The
// time of change is in it, which every chmod and chown sets, also one that changes
// nothing or is taken back: where it is the same, none was made.
func evidenceOf(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	check(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil {
			err = unix.Lstat(path, &st)
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(&all, "%s %o %d:%d %d bytes %d links mtime %v ctime %v", path, st.Mode, st.Uid, st.Gid, st.Size, st.Nlink, st.Mtim, st.Ctim)
		if entry.Type().IsRegular() {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&all, " %x", sha256.Sum256(content))
		}
		all.WriteByte('\n')
		return nil
	}))
	return all.String()
}

// A row is graded in every kind of image, by the image's own user; its workspace is
// read and written, and keeps every byte, mode, owner and time: no chmod and no chown
// is made on it. Nothing of podgrade, Podman or the runtime is left afterwards.
func TestEveryImageGradesAndTouchesNothing(t *testing.T) {
	host, err := isolation.Start(t.Context(), isolation.Options{Libexec: filepath.Join(buildDir(t), "libexec", "podgrade"), Scratch: t.TempDir()})
	check(t, err)
	rows := map[string][]string{}
	for _, k := range imageKinds() {
		rows[isolation.EngineBundle] = append(rows[isolation.EngineBundle], k.write(t, host))
		if k.both {
			rows[isolation.EnginePodman] = append(rows[isolation.EnginePodman], k.write(t, host))
		}
	}
	check(t, host.Close())
	for _, engine := range []string{isolation.EngineBundle, isolation.EnginePodman} {
		t.Run(engine, func(t *testing.T) {
			var before []string
			for _, row := range rows[engine] {
				before = append(before, evidenceOf(t, filepath.Join(row, "artifacts")))
			}
			scratch := t.TempDir()
			out, pid := leavingNothing(t, append([]string{"evaluate", trusting, "--engine", engine, "-j", "2", "--scratch", scratch}, rows[engine]...)...)
			for i, row := range rows[engine] {
				if after := evidenceOf(t, filepath.Join(row, "artifacts")); after != before[i] {
					t.Errorf("the workspace was\n%s\nand is\n%s", before[i], after)
				}
			}
			if want := fmt.Sprintf("%d of %[1]d rows graded, %[1]d passed", len(rows[engine])); !strings.Contains(out, want) {
				t.Errorf("%s\nwant %s", out, want)
			}
			if own := containersOf(t, pid); own != "" {
				t.Errorf("containers are left: %s", own)
			}
			if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
				t.Errorf("left in the scratch: %v, %v", left, err)
			}
		})
	}
}

// What that test looks at shows what it must: a chmod and a chown that change nothing,
// and a process that outlived the one that started it.
func TestWhatWouldBeLeftIsSeen(t *testing.T) {
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	for name, touch := range map[string]func() error{
		"chmod": func() error { return os.Chmod(filepath.Join(dir, "file"), 0o600) },
		"chown": func() error { return os.Chown(filepath.Join(dir, "file"), -1, os.Getgid()) },
	} {
		before := evidenceOf(t, dir)
		time.Sleep(20 * time.Millisecond) // the kernel's clock of files has ticks
		check(t, touch())
		if evidenceOf(t, dir) == before {
			t.Errorf("a %s is not seen", name)
		}
	}
	check(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
	defer unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	out, err := exec.Command("sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!").Output()
	check(t, err)
	left := children(os.Getpid())
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	check(t, err)
	check(t, syscall.Kill(pid, syscall.SIGKILL))
	syscall.Wait4(pid, nil, 0, nil)
	if len(left) != 1 || len(children(os.Getpid())) != 0 {
		t.Errorf("left: %q, then %q", left, children(os.Getpid()))
	}
}

// leavingNothing calls the program. Whatever outlives it becomes a child of the
// test, which waits for none longer than the 3 seconds that a killed cell has.
func leavingNothing(t *testing.T, args ...string) (out string, pid int) {
	t.Helper()
	check(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
	defer unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	cmd := exec.Command(filepath.Join(buildDir(t), "bin", "podgrade"), args...)
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, said)
	}
	for end := time.Now().Add(3 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		left := children(os.Getpid())
		if len(left) == 0 {
			return string(said), cmd.Process.Pid
		}
		if time.Now().After(end) {
			t.Errorf("left: %q", left)
			return string(said), cmd.Process.Pid
		}
	}
}

// children are the processes below one that it did not wait for, by name; those
// that have ended are waited for.
func children(of int) []string {
	var left []string
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		var pid, parent int
		var state string
		name := string(text[strings.IndexByte(string(text), '(')+1 : strings.LastIndexByte(string(text), ')')])
		fmt.Sscan(string(text), &pid)
		fmt.Sscan(string(text[strings.LastIndexByte(string(text), ')')+1:]), &state, &parent)
		if parent != of {
			continue
		}
		if state == "Z" {
			syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
			continue
		}
		left = append(left, name)
	}
	return left
}

// containersOf are the containers of a podgrade, those of cells and those that
// hold images.
func containersOf(t *testing.T, pid int) string {
	t.Helper()
	var own []string
	for line := range strings.Lines(podman(t, "ps", "--all", "--format", "{{.ID}} {{.Labels}}")) {
		for _, label := range []string{"holder", "cell"} {
			if strings.Contains(line, fmt.Sprintf("podgrade.%s:%d:", label, pid)) {
				own = append(own, line)
			}
		}
	}
	return strings.Join(own, "")
}
