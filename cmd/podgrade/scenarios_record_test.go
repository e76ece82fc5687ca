package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"podgrade/isolation/testimages"
	"podgrade/oci"
	"podgrade/tasks/record"
)

// Scenarios of spec/regrade.md 5: what a grade writes, and what it leaves.

// raw is a value of the scene's record, below the given keys.
func (s *scene) raw(keys ...string) string {
	s.t.Helper()
	var value any
	if err := json.Unmarshal([]byte(s.text(rowRecord)), &value); err != nil {
		s.t.Fatal(err)
	}
	for _, key := range keys {
		object, ok := value.(map[string]any)
		if !ok {
			s.t.Fatalf("no %v in the record", keys)
		}
		value = object[key]
	}
	return fmt.Sprint(value)
}

// modes lists what lies below a directory with mode, size and time.
func (s *scene) modes(dir string) string {
	s.t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(s.path(dir), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			fmt.Fprintln(&all, path, info.Mode(), info.Size(), info.ModTime().UnixNano())
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return all.String()
}

func TestScenarioWhatIsRecorded(t *testing.T) {
	s := executed(t, "cat >made", passing)
	clock := func() string {
		return s.raw("started_at") + s.raw("completed_at") + s.raw("duration_seconds") + s.raw("setup_ms")
	}
	before := clock()
	source := s.raw("task_config", "source_file")
	s.podgrade(0, "evaluate", row, trusting)
	s.podgrade(0, "evaluate", row, trusting)
	t.Run("D-25: the path of this host and the authored driver, after every grade", func(t *testing.T) {
		if source != s.path("task.yaml") || s.raw("task_config", "source_file") != source || s.raw("task_config", "resolved", "sandbox", "driver") != "docker" {
			t.Errorf("%s, then %s", source, s.raw("task_config", "source_file"))
		}
	})
	t.Run("D-27: the run's clock stays, and the grade has its own", func(t *testing.T) {
		if clock() != before || s.raw("environment_info", record.GradingDuration) == "<nil>" || s.raw("grading_ms") == "<nil>" {
			t.Errorf("%s, then %s", before, clock())
		}
	})
	t.Run("D-38: a grade in a cell leaves its logs", func(t *testing.T) {
		if log := s.text(row + "/" + record.GradeLog); !strings.Contains(log, "test -e made && ls") {
			t.Errorf("%s", log)
		}
		s.text(row + "/" + record.GradeCellLog)
		s.text(row + "/" + record.GradeCellFile)
	})
	t.Run("D-51: one event of the verdict", func(t *testing.T) {
		stdout, _ := s.podgrade(0, "evaluate", "--json", row, trusting)
		if strings.Count(stdout, `"event":"row_graded"`) != 1 {
			t.Errorf("%s", stdout)
		}
	})
	t.Run("D-49: inside of a container no cell is opened, and only 1 says so", func(t *testing.T) {
		t.Setenv(oci.EnvInContainer, "1")
		if _, stderr := s.podgrade(2, "evaluate", row, trusting); !strings.Contains(stderr, "unset it") {
			t.Errorf("%s", stderr)
		}
		t.Setenv(oci.EnvInContainer, "true")
		s.podgrade(0, "evaluate", row, trusting)
	})
	t.Run("D-42: stamps are on the disk, on both paths", func(t *testing.T) {
		s.podgrade(0, "execute", "task.yaml", "--run-dir", "second")
		s.podgrade(0, "evaluate", row, trusting, "--allow-host-grading")
		s.podgrade(0, "run", "task.yaml", "--run-dir", "second", "--resume", "--allow-host-grading")
		for _, run := range []string{"r", "second"} {
			if got := s.read(run+"/"+sceneRow, record.TaskFile).stamps(); len(got) != 1 || got[0] != "graded_on_host=true" {
				t.Errorf("%s: stamps %v", run, got)
			}
			if !strings.Contains(s.text(run+"/"+record.RunFile), record.GradedOnHost) {
				t.Errorf("%s: the summary does not say so", run)
			}
		}
	})
}

func TestScenarioTaskFileIsGone(t *testing.T) {
	t.Run("D-26: a criterion that needs the task directory is refused, with what to do", func(t *testing.T) {
		s := newScene(t)
		s.write("task/answer", "p\n")
		s.write("task/task.yaml", sceneTask(t, "cat >made", `success_criteria:
  - {type: run_command, command: 'cmp made "$TASK_DIR/answer" || test -s made', description: it is the answer}
`))
		s.podgrade(0, "execute", "task/task.yaml", "--run-dir", "r")
		s.podgrade(0, "evaluate", row, trusting)
		if err := os.Rename(s.path("task"), s.path("elsewhere")); err != nil {
			t.Fatal(err)
		}
		_, stderr := s.podgrade(2, "evaluate", row, trusting)
		if !strings.Contains(stderr, "is not on this host") || !strings.Contains(stderr, "it is the answer") {
			t.Errorf("%s", stderr)
		}
		s.podgrade(0, "evaluate", "elsewhere/task.yaml", row)
	})
}

func TestScenarioReference(t *testing.T) {
	s := newScene(t)
	s.write("key/answer", "42\n")
	s.write("key/.git/HEAD", "ref: refs/heads/main\n")
	s.write("task.yaml", sceneTask(t, "cat >made", `reference: {directory: key}
success_criteria:
  - {type: run_command, command: 'grep -q 42 "$REFERENCE_DIR/answer"', description: the key is there}
`))
	s.podgrade(0, "execute", "task.yaml", "--run-dir", "r")
	t.Run("D-31: a real run records the digest of the reference, and a grade keeps it", func(t *testing.T) {
		digest := s.raw("environment_info", record.ReferenceDigest)
		if len(digest) != 64 {
			t.Errorf("%q", digest)
		}
		s.podgrade(0, "evaluate", row, trusting)
		if s.raw("environment_info", record.ReferenceDigest) != digest {
			t.Error("it is gone")
		}
	})
	t.Run("D-32: a reference that is a git checkout equals itself", func(t *testing.T) {
		s.write("key/.git/index", "something that git writes")
		s.podgrade(0, "evaluate", row, trusting)
		s.is(row, "SUCCESS", 1)
	})
	t.Run("D-33: a reference that was edited or deleted is refused", func(t *testing.T) {
		before := s.text(rowRecord)
		s.write("key/answer", "43\n")
		if _, stderr := s.podgrade(2, "evaluate", row, trusting); !strings.Contains(stderr, "put the reference of the run back") {
			t.Errorf("%s", stderr)
		}
		if err := os.RemoveAll(s.path("key")); err != nil {
			t.Fatal(err)
		}
		s.podgrade(2, "evaluate", row, trusting)
		if s.text(rowRecord) != before {
			t.Error("the record was changed")
		}
	})
}

func TestScenarioWriting(t *testing.T) {
	t.Run("D-40: a verdict that cannot be written is one error, and says that the grade succeeded", func(t *testing.T) {
		s := executed(t, "cat >made", passing)
		before := s.text(rowRecord)
		if err := os.Chmod(s.path(row), 0o555); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Chmod(s.path(row), 0o755) })
		_, stderr := s.podgrade(1, "evaluate", row, trusting)
		if strings.Count(stderr, "podgrade: ") != 1 || !strings.Contains(stderr, "the grade itself succeeded") || strings.Contains(stderr, "goroutine") {
			t.Errorf("%s", stderr)
		}
		os.Chmod(s.path(row), 0o755)
		if s.text(rowRecord) != before {
			t.Error("the record was changed")
		}
		s.podgrade(0, "evaluate", row, trusting)
	})
	t.Run("D-70: planted and stale temporary files, and a private record", func(t *testing.T) {
		s := executed(t, "cat >made", passing)
		s.write("victim", "precious")
		for _, name := range []string{record.TaskFile + ".tmp", record.TaskFile + ".1.00000000.tmp"} {
			if err := os.Symlink(s.path("victim"), s.path(row+"/"+name)); err != nil {
				t.Fatal(err)
			}
		}
		s.write(row+"/"+record.TaskFile+".2.00000000.tmp", "{")
		if err := os.Chmod(s.path(rowRecord), 0o600); err != nil {
			t.Fatal(err)
		}
		s.podgrade(0, "evaluate", row, trusting)
		s.podgrade(0, "run", "task.yaml", "--run-dir", "r", "--resume")
		s.is(row, "SUCCESS", 1)
		if s.text("victim") != "precious" {
			t.Error("a link was followed")
		}
		if info, err := os.Stat(s.path(rowRecord)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("its mode: %v %v", info.Mode(), err)
		}
	})
}

func TestScenarioWorkspace(t *testing.T) {
	t.Run("D-52: a workspace that was handed over keeps modes and times, graded, failed or killed", func(t *testing.T) {
		s := executed(t, "cat >made", `success_criteria:
  - {type: run_command, command: "chmod -R 700 . && rm -f kept && test -e made && sleep 2", description: it changes everything}
`)
		s.write("tree/made", "p\n")
		s.write("tree/kept", "k\n")
		for name, mode := range map[string]os.FileMode{"tree": 0o750, "tree/made": 0o640, "tree/kept": 0o400} {
			if err := os.Chmod(s.path(name), mode); err != nil {
				t.Fatal(err)
			}
		}
		before := s.modes("tree")
		s.podgrade(0, "evaluate", row, trusting, "--workspace", "tree")
		s.unsign(row)
		s.podgrade(2, "evaluate", row, "--workspace", "tree")
		killed := s.start("evaluate", row, trusting, "--workspace", "tree")
		s.waits(killed, "sleep")
		killed.Process.Kill()
		killed.Wait()
		if after := s.modes("tree"); after != before {
			t.Errorf("before\n%s\nafter\n%s", before, after)
		}
	})
	t.Run("D-53: a private workspace of the caller is readable to any user of an image", func(t *testing.T) {
		s := newScene(t)
		image := testImage(t, testimages.BusyboxAs(testimages.GraderName))
		s.write("task.yaml", strings.Replace(sceneTask(t, "umask 077 && mkdir -p sub && cat >sub/made", `success_criteria:
  - {type: run_command, command: "test $(id -u) = 1000 && grep p sub/made && touch sub/new", description: read and written}
  - {type: file_contains, path: sub/made, includes: [p], description: read by podgrade}
`), sceneImage(t), image, 1))
		s.podgrade(0, "execute", "task.yaml", "--run-dir", "r")
		s.unsign(row) // its workspace becomes another one
		for _, name := range []string{"", "/sub"} {
			if err := os.Chmod(s.path(row+"/artifacts/t"+name), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		before := s.modes(row + "/artifacts")
		s.podgrade(0, "evaluate", row, trusting)
		s.is(row, "SUCCESS", 1)
		if after := s.modes(row + "/artifacts"); after != before {
			t.Errorf("before\n%s\nafter\n%s", before, after)
		}
	})
	t.Run("D-69: of a recorded PATH only directories of the image come first", func(t *testing.T) {
		s := executed(t, "mkdir bin && printf '#!/bin/sh\\necho shim' >bin/ls && chmod +x bin/ls && mkdir -p /opt/real && ln -s /bin/busybox /opt/real/tac", `success_criteria:
  - {type: run_command, command: 'echo "$PATH"; case "$PATH" in /opt/real:/bin:*) ;; *) exit 1 ;; esac; case "$PATH" in *workspace*|*nowhere*|*default*) exit 1 ;; esac; ls | grep shim && exit 1; tac </dev/null', description: no shim wins}
`)
		var info map[string]any
		if err := json.Unmarshal([]byte(s.text(rowRecord)), &struct {
			Info *map[string]any `json:"environment_info"`
		}{&info}); err != nil {
			t.Fatal(err)
		}
		s.unsign(row)
		s.edit(rowRecord, fmt.Sprintf("%q", info[record.CommandBasePath]),
			fmt.Sprintf("%q", "bin:.:"+s.path(row)+"/artifacts/t/bin:"+oci.WorkspacePath+"/bin:"+s.path("r")+":/nowhere:/opt/real:/bin"))
		s.podgrade(0, "evaluate", row, trusting)
	})
}
