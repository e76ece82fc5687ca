package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"podgrade/isolation"
	"podgrade/tasks/record"
)

// smallDisk is a directory on a file system of some megabytes, which a test may
// fill. .ci/as-user makes one.
func smallDisk(t *testing.T) string {
	t.Helper()
	root := os.Getenv("PODGRADE_TEST_SMALL_DISK")
	var fs syscall.Statfs_t
	if err := syscall.Statfs(root, &fs); err != nil || fs.Blocks*uint64(fs.Bsize) > 128<<20 {
		rootPrepares(t, "a file system of at most 128 MiB that may be filled", "sudo mount -t tmpfs -o size=96m,mode=1777 none DIR; export PODGRADE_TEST_SMALL_DISK=DIR")
	}
	dir, err := os.MkdirTemp(root, "full")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// rootPrepares says that only root can make ready what a test needs. When root
// runs the tests .ci/as-user has made it, so there it must be there; an ordinary
// user who has none is told what it takes, and the test is not run.
func rootPrepares(t *testing.T, what, byHand string) {
	t.Helper()
	say := t.Skipf
	if os.Getenv("PODGRADE_TEST_PREPARED") != "" {
		say = t.Fatalf
	}
	say("needs root, who makes %s when he runs `make test`; by hand: %s", what, byHand)
}

// fill leaves so many bytes on the disk; the returned function makes room again.
func fill(t *testing.T, dir string, left int64) (room func()) {
	t.Helper()
	file, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, size := range []int{1 << 20, 4 << 10, 1} {
		for err = nil; err == nil; {
			_, err = file.Write(make([]byte, size))
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if info, err := file.Stat(); err != nil || file.Truncate(info.Size()-left) != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(file.Name()); err != nil {
			t.Fatal(err)
		}
	}
}

func sends(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatalf("signal %v to %d: %v", s, pid, err)
	}
}

// TestAFullDiskCostsNoRecord: rows that cannot be written are said to be so,
// those that are there keep their bytes, and a resume does the rest.
func TestAFullDiskCostsNoRecord(t *testing.T) {
	disk := smallDisk(t)
	s := newScene(t)
	s.write("task.yaml", sceneTask(t, "cat >made", passing))
	run := filepath.Join(disk, "r")
	row := func(n int) string { return filepath.Join(run, "default/t", fmt.Sprintf("%02d", n), record.TaskFile) }

	s.podgrade(0, "execute", "task.yaml", "--run-dir", run, "--repeats", "2")
	var before [2][]byte
	for i := range before {
		text, err := os.ReadFile(row(i))
		if err != nil {
			t.Fatal(err)
		}
		before[i] = text
	}
	room := fill(t, disk, 0)
	// Two rows owe a grade, and two more cannot even be begun.
	_, stderr := s.podgrade(1, "run", "task.yaml", "--run-dir", run, "--repeats", "4", "--resume")
	if !strings.Contains(stderr, "no space left on device") {
		t.Errorf("nothing says why:\n%s", stderr)
	}
	for i := range before {
		if text, err := os.ReadFile(row(i)); err != nil || !bytes.Equal(text, before[i]) {
			t.Errorf("row %d: %v, %s", i, err, text)
		}
	}
	for i := 2; i < 4; i++ {
		if text, err := os.ReadFile(row(i)); err == nil {
			t.Errorf("row %d has a record: %s", i, text)
		}
	}
	room()
	s.podgrade(0, "run", "task.yaml", "--run-dir", run, "--repeats", "4", "--resume")
	for i := range 4 {
		if text, err := os.ReadFile(row(i)); err != nil || !strings.Contains(string(text), `"SUCCESS"`) {
			t.Errorf("row %d: %v", i, err)
		}
	}
}

// TestAFullDiskIsNoVerdict: a disk that fills while a row is graded, by somebody
// else's doing, leaves the row as it was, and the next grade works. What the row
// itself fills is a failure of its own, whatever the engine.
func TestAFullDiskIsNoVerdict(t *testing.T) {
	disk := smallDisk(t)
	for engine, entries := range map[string][][]string{isolation.EngineBundle: inSoak(entries, 1), isolation.EnginePodman: entries[:1]} {
		t.Run(engine, func(t *testing.T) {
			scratch := filepath.Join(disk, engine)
			t.Cleanup(func() { os.RemoveAll(scratch) })
			options := []string{"--engine", engine, "--scratch", scratch}
			s := executed(t, "cat >made", `success_criteria:
  - {type: run_command, command: "sleep 2; echo built >built && test -s built", description: it writes}
`)
			var room func()
			lostGrade(t, s, entries, options, func(b *background) {
				// The command waits, however long the disk takes to be full.
				sleeping, _ := s.waits(b, "sleep")
				sends(t, sleeping, syscall.SIGSTOP)
				room = fill(t, disk, 0)
				sends(t, sleeping, syscall.SIGCONT)
			}, func() { room() })
			s.podgrade(0, append([]string{"evaluate", row, trusting}, options...)...)
			s.is(row, "SUCCESS", 1)

			s = executed(t, "cat >made", `success_criteria:
  - {type: run_command, command: "cat /dev/zero >zeros", description: it never has enough}
`)
			s.podgrade(1, append([]string{"evaluate", row, trusting}, options...)...)
			s.is(row, "FAILURE", 0)
			if log := s.text(row + "/" + record.GradeLog); !strings.Contains(log, "is full with what the row's own commands wrote") {
				t.Errorf("%s", log)
			}
		})
	}
}
