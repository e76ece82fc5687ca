package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"podgrade/isolation"
	"podgrade/tasks/record"
)

// Scenarios of spec/regrade.md 5: a grade that does not come to its end leaves
// the row as it was; and a grade that does is always the same.

// background is a call of the program that a test disturbs.
type background struct {
	*exec.Cmd
	said bytes.Buffer
}

// start starts the program.
func (s *scene) start(args ...string) *background {
	s.t.Helper()
	b := &background{Cmd: exec.Command(filepath.Join(buildDir(s.t), "bin", "podgrade"), args...)}
	b.Dir, b.Stdout, b.Stderr = s.dir, &b.said, &b.said
	if err := b.Start(); err != nil {
		s.t.Fatal(err)
	}
	return b
}

// waits waits until the program has a descendant of that name, and returns its
// process id and its parent's.
func (s *scene) waits(b *background, name string) (pid, parent int) {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if pid, parent = descendant(b.Process.Pid, name); pid > 0 {
			return pid, parent
		}
	}
	b.Process.Kill()
	b.Wait()
	s.t.Fatalf("%s was not started:\n%s", name, b.said.String())
	return 0, 0
}

// descendant finds a process of a name below another one.
func descendant(of int, name string) (pid, parent int) {
	parents, names := map[int]int{}, map[int]string{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, err := os.ReadFile(file)
		open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
		if err != nil || open < 0 || end < 0 {
			continue
		}
		id, _ := strconv.Atoi(strings.TrimSpace(string(text[:open])))
		fields := strings.Fields(string(text[end+1:]))
		parents[id], _ = strconv.Atoi(fields[1])
		names[id] = string(text[open+1 : end])
	}
	for id, its := range names {
		if its != name {
			continue
		}
		for up := parents[id]; up > 1; up = parents[up] {
			if up == of {
				return id, parents[id]
			}
		}
	}
	return 0, 0
}

// ends waits for the program, and expects an exit code.
func (s *scene) ends(b *background, code int) string {
	s.t.Helper()
	if got := exitCode(b.Wait()); got != code {
		s.t.Errorf("exit code %d, want %d:\n%s", got, code, b.said.String())
	}
	return b.said.String()
}

const slowCriteria = `success_criteria:
  - {type: run_command, command: "echo told; sleep 5", description: slow, timeout: 60}
  - {type: file_exists, path: made, description: it was made}
`

// counts is what a grade that lost its cell must not say in place of why.
var counts = regexp.MustCompile(`[0-9]+ (of [0-9]+ )?(results|criteria)\b`)

// entries are the two ways to a grade of the scene's row.
var entries = [][]string{{"evaluate", row, trusting}, {"run", "task.yaml", "--run-dir", "r", "--resume"}}

// bothEngines are those of tests whose way through the Podman engine the tests of
// package isolation go too: one engine but in a soak.
var bothEngines = inSoak([]string{isolation.EngineBundle, isolation.EnginePodman}, 1)

// inSoak is all of a list in a soak, and its first n elsewhere.
func inSoak[T any](all []T, n int) []T {
	if os.Getenv("PODGRADE_TEST_SOAK") != "" {
		return all
	}
	return all[:n]
}

// lostGrade disturbs grades of a row on the given entries, and checks what is
// left each time.
func lostGrade(t *testing.T, s *scene, entries [][]string, options []string, disturb func(*background), mend func()) {
	t.Helper()
	before, docker := s.text(rowRecord), s.text(row+"/"+record.ContainerLog)
	for _, args := range entries {
		os.Remove(s.path(row + "/" + record.GradeLog))
		grading := s.start(slices.Concat(args, options)...)
		s.waits(grading, "sleep")
		disturb(grading)
		said := s.ends(grading, 1)
		mend()
		if s.text(rowRecord) != before {
			t.Errorf("%s: the record was changed:\n%s", args[0], s.text(rowRecord))
		}
		if s.text(row+"/"+record.ContainerLog) != docker {
			t.Errorf("%s: the log of the run was changed", args[0])
		}
		if !strings.Contains(said, "criterion 1") && !strings.Contains(said, "image") {
			t.Errorf("%s: nothing says what was lost:\n%s", args[0], said)
		}
		if counts.MatchString(said) {
			t.Errorf("%s: a count hides the cause:\n%s", args[0], said)
		}
		if log := s.text(row + "/" + record.GradeLog); !strings.Contains(log, "the record is as it was") {
			t.Errorf("%s: the log of the grade:\n%s", args[0], log)
		}
	}
}

func TestScenarioLostCell(t *testing.T) {
	t.Parallel()
	t.Run("D-18, D-19, D-35, D-36, D-37: a killed cell leaves record and log of the run, its own log tells, and the next grade works", func(t *testing.T) {
		s := executed(t, "cat >made", slowCriteria)
		lostGrade(t, s, entries, nil, func(b *background) {
			supervisor, _ := descendant(b.Process.Pid, "podgrade-init")
			if supervisor == 0 {
				t.Fatal("no supervisor was found")
			}
			syscall.Kill(supervisor, syscall.SIGKILL)
		}, func() {})
		s.podgrade(0, "evaluate", row, trusting)
		s.is(row, "SUCCESS", 1)
	})
	t.Run("a killed worker leaves the row, which can be graded", func(t *testing.T) {
		s := executed(t, "cat >made", slowCriteria)
		scratch := t.TempDir()
		lostGrade(t, s, entries[:1], []string{"--scratch", scratch}, func(*background) { killWorker(t, scratch) }, func() {})
		s.podgrade(0, "evaluate", row, trusting, "--scratch", scratch) // which removes what is left, too
		s.is(row, "SUCCESS", 1)
		if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
			t.Errorf("left in the scratch: %v, %v", left, err)
		}
	})
	t.Run("an image that is removed under a grade", func(t *testing.T) {
		s := newScene(t)
		name := builtName(t, "lost")
		s.builds(name, "old")
		s.write("task.yaml", strings.Replace(sceneTask(t, "cat >made", slowCriteria), sceneImage(t), name, 1))
		s.podgrade(0, "execute", "task.yaml", "--run-dir", "r")
		podman(t, "save", "--quiet", "--output", s.path("saved.tar"), name)
		lostGrade(t, s, inSoak(entries, 1), nil, func(*background) { podman(t, "rmi", "--force", name) },
			func() { podman(t, "load", "--quiet", "--input", s.path("saved.tar")) })
		s.podgrade(0, "evaluate", row, trusting)
		s.is(row, "SUCCESS", 1)
	})
}

// TestScenarioSameBytes: equal status, score and scores, whoever grades when.
func TestScenarioSameBytes(t *testing.T) {
	t.Parallel()
	const copies = 20
	callers := 3 // of one row, who take turns
	if os.Getenv("PODGRADE_TEST_SOAK") != "" {
		callers = copies
	}
	s := executed(t, "cat >made; mkdir sub; echo x >sub/y", `success_criteria:
  - {type: run_command, command: "test -e made && echo more >>made && rm -rf sub", description: it changes the tree}
  - {type: file_contains, path: made, includes: [p], description: it holds the prompt, weight: 2}
  - {type: file_exists, path: nothing, description: it is not there, weight: 0}
`)
	s.podgrade(0, "evaluate", row, trusting)
	once := s.is(row, "SUCCESS", 1)
	s.podgrade(0, "evaluate", row, trusting)
	if twice := s.is(row, "SUCCESS", 1); twice.verdict() != once.verdict() || twice.Info[record.GradedWorkspace] != once.Info[record.GradedWorkspace] {
		t.Errorf("%s\n%s", twice.verdict(), once.verdict())
	}
	var rows []string
	for i := range copies {
		run := fmt.Sprintf("copy%02d", i)
		if out, err := exec.Command("cp", "-a", s.path("r"), s.path(run)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		s.write(run+"/"+sceneRow+"/"+record.TaskFile, strings.ReplaceAll(s.text(rowRecord), s.path("r"), s.path(run)))
		rows = append(rows, run+"/"+sceneRow)
	}
	evidence := s.modes(row + "/artifacts")
	unchanged := func(row string) {
		t.Helper()
		if after := s.modes(row + "/artifacts"); after != strings.ReplaceAll(evidence, s.path("r"), s.path(strings.SplitN(row, "/", 2)[0])) {
			t.Errorf("the workspace of %s was\n%s\nand is\n%s", row, evidence, after)
		}
	}
	s.podgrade(0, append([]string{"evaluate", trusting, "-j", strconv.Itoa(copies)}, rows...)...)
	for _, copied := range rows {
		unchanged(copied)
		again := s.is(copied, "SUCCESS", 1)
		if again.verdict() != once.verdict() || again.Info[record.GradedWorkspace] != once.Info[record.GradedWorkspace] || again.Info[record.GradedTimes] != once.Info[record.GradedTimes] ||
			again.Info[record.WorkspaceDigest] != once.Info[record.WorkspaceDigest] {
			t.Errorf("%s\n%s", again.verdict(), once.verdict())
		}
	}
	// Whoever grades one row at once with others waits for them.
	var calls sync.WaitGroup
	for range callers {
		b := s.start("evaluate", row, trusting, "--engine", "bundle")
		calls.Go(func() {
			if code := exitCode(b.Wait()); code != 0 {
				t.Errorf("exit code %d: %s", code, b.said.String())
			}
		})
	}
	calls.Wait()
	unchanged(row)
	after := s.is(row, "SUCCESS", 1)
	if after.verdict() != once.verdict() || after.Info[record.GradedWorkspace] != once.Info[record.GradedWorkspace] {
		t.Errorf("%s\n%s", after.verdict(), once.verdict())
	}
}

// TestScenarioLeadsOut: whatever of a row leads out of the run, nothing there is
// graded or written to.
func TestScenarioLeadsOut(t *testing.T) {
	t.Parallel()
	for name, lead := range map[string]func(s *scene) error{
		"D-68: the recorded workspace": func(s *scene) error {
			s.edit(rowRecord, s.path(row)+"/artifacts/t", s.path("victim"))
			return nil
		},
		"D-68: the workspace is a link": func(s *scene) error {
			return linked(s, row+"/artifacts/t", "victim")
		},
		"D-68: artifacts is a link": func(s *scene) error {
			return linked(s, row+"/artifacts", "outer")
		},
		"D-68: the id of the task": func(s *scene) error {
			s.edit(rowRecord, `"task_id": "t"`, `"task_id": "../../../../victim"`)
			s.edit(rowRecord, s.path(row)+"/artifacts/t", "/nowhere")
			return os.Mkdir(s.path(row+"/artifacts/second"), 0o755)
		},
		"D-68: the only child is a link": func(s *scene) error {
			s.edit(rowRecord, s.path(row)+"/artifacts/t", "/nowhere")
			if err := os.Rename(s.path(row+"/artifacts/t"), s.path("aside")); err != nil {
				return err
			}
			return os.Symlink(s.path("victim"), s.path(row+"/artifacts/x"))
		},
		"D-68: the record is a link": func(s *scene) error {
			return linked(s, rowRecord, "record")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := executed(t, "cat >made", passing)
			s.write("victim/made", "p\n")
			s.write("outer/t/made", "p\n")
			s.write("record", s.text(rowRecord))
			if err := lead(s); err != nil {
				t.Fatal(err)
			}
			before := s.modes("victim") + s.modes("outer") + s.text("record") + s.text(rowRecord)
			s.podgrade(2, "evaluate", row, trusting)
			s.podgrade(1, "run", "task.yaml", "--run-dir", "r", "--resume")
			if after := s.modes("victim") + s.modes("outer") + s.text("record") + s.text(rowRecord); after != before {
				t.Errorf("before\n%s\nafter\n%s", before, after)
			}
		})
	}
}

// linked puts a link in the place of a file of the row.
func linked(s *scene, name, to string) error {
	if err := os.RemoveAll(s.path(name)); err != nil {
		return err
	}
	return os.Symlink(s.path(to), s.path(name))
}
