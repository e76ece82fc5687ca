package main

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"podgrade/isolation"
	"podgrade/tasks/record"
)

// noexecDisk is a directory on a file system from which no program can be started.
// .ci/as-user makes one.
func noexecDisk(t *testing.T) string {
	t.Helper()
	root := os.Getenv("PODGRADE_TEST_NOEXEC_DISK")
	var fs syscall.Statfs_t
	if err := syscall.Statfs(root, &fs); err != nil || fs.Flags&syscall.MS_NOEXEC == 0 {
		rootPrepares(t, "a file system from which no program can be started", "sudo mount -t tmpfs -o noexec,mode=1777 none DIR; export PODGRADE_TEST_NOEXEC_DISK=DIR")
	}
	dir, err := os.MkdirTemp(root, "scratch")
	check(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// foreignArchitecture is a podgrade whose supervisor is a program of another
// architecture.
func foreignArchitecture(t *testing.T) (program string) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"bin/podgrade", "libexec/podgrade/podgrade-init", "libexec/podgrade/podgrade-worker", "libexec/podgrade/podgrade-libpod"} {
		text, err := os.ReadFile(filepath.Join(buildDir(t), name))
		check(t, err)
		if filepath.Base(name) == "podgrade-init" {
			binary.LittleEndian.PutUint16(text[18:], 0x16) // e_machine: S/390
		}
		check(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		check(t, os.WriteFile(filepath.Join(dir, name), text, 0o755))
	}
	return filepath.Join(dir, "bin/podgrade")
}

// notGraded calls a podgrade that cannot grade the row, and checks that it says so
// once, in words, and that the row is one that was never graded.
func notGraded(t *testing.T, s *scene, program, words string, options ...string) {
	t.Helper()
	before := s.text(rowRecord)
	cmd := exec.Command(program, append([]string{"evaluate", row, trusting}, options...)...)
	cmd.Dir = s.dir
	out, err := cmd.CombinedOutput()
	said := string(out)
	if exitCode(err) != 1 || strings.Count(said, "podgrade: ") != 1 || !strings.Contains(strings.ToLower(said), words) || strings.Contains(said, "goroutine") || strings.Contains(said, `"msg"`) {
		t.Errorf("%v:\n%s", err, said)
	}
	if after := s.text(rowRecord); after != before {
		t.Errorf("the record was changed:\n%s", after)
	}
	if _, err := os.Lstat(s.path(row + "/" + record.ExecuteFile)); err == nil {
		t.Error("the record of the execution was put aside, as after a grade")
	}
}

// TestASupervisorThatCannotStartLeavesTheRow: it is one clear error on either
// engine, and the row is as it was and can be graded.
func TestASupervisorThatCannotStartLeavesTheRow(t *testing.T) {
	s := executed(t, "cat >made", passing)
	for _, engine := range []string{isolation.EngineBundle, isolation.EnginePodman} {
		t.Run(engine, func(t *testing.T) {
			notGraded(t, s, foreignArchitecture(t), "exec format error", "--engine", engine)
			notGraded(t, s, filepath.Join(buildDir(t), "bin", "podgrade"), "mounted noexec", "--engine", engine, "--scratch", noexecDisk(t))
		})
	}
	s.podgrade(0, "evaluate", row, trusting)
	s.is(row, "SUCCESS", 1)
}
