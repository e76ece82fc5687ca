package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"podgrade/isolation"
	"podgrade/isolation/testimages"
	"podgrade/isolation/testimages/stored"
	"podgrade/tasks/record"
)

// killRows is how many rows the runs of these tests have.
const killRows = 20

// killTask is a dataset whose agents each leave files that belong to the image's
// user, and others in the image, which are a state layer; every fourth fails.
func killTask(t *testing.T, image string) string {
	t.Helper()
	var rows strings.Builder
	for i := range killRows {
		fmt.Fprintf(&rows, "    - {id: r%02d, want: %q}\n", i, map[bool]string{true: "something else", false: "done"}[i%4 == 3])
	}
	file := filepath.Join(t.TempDir(), "task.yaml")
	text := `task_id: kill
description: d
initial_prompt: Say ${row.want}.
agent: {type: command, command: "mkdir -p a/b; echo done >a/b/answer; chmod 700 a; cp a/b/answer /tmp; sleep 0.05; cat a/b/answer"}
sandbox: {driver: docker, docker: {image: "` + image + `", network: none}, podman: {caps: none}}
dataset:
  rows:
` + rows.String() + `success_criteria:
  - {type: run_command, command: "test -O a && cmp a/b/answer /tmp/answer && cat a/b/answer", expected_stdout: "${row.want}", stdout_match: contains, description: d}
`
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// imported are the images that testImage has put into the store.
var imported = map[string]bool{}

// testImage puts an image into the store, once.
func testImage(t *testing.T, image testimages.Image) string {
	t.Helper()
	if imported[image.Reference] {
		return image.Reference
	}
	host, err := isolation.Start(t.Context(), isolation.Options{Libexec: filepath.Join(buildDir(t), "libexec", "podgrade"), Scratch: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	if _, err := stored.Put(t.Context(), host, image); err != nil {
		t.Fatal(err)
	}
	imported[image.Reference] = true
	return image.Reference
}

// killedRun is a run that is killed and resumed until it ends.
type killedRun struct {
	t             *testing.T
	task, scratch string
	temp          string // TMPDIR
	dir           string
	said          bytes.Buffer
	executed      map[string]string // when the agents of records began, by row
	finished      map[string][]byte // records with a verdict that was signed, by row
}

// start starts the built program on the run.
func (k *killedRun) start() *exec.Cmd {
	k.t.Helper()
	args := []string{"run", "-j", "4", "--scratch", k.scratch, "--run-dir", k.dir, k.task}
	if _, err := os.Stat(k.dir); err == nil {
		args = append(args, "--resume")
	}
	cmd := exec.Command(filepath.Join(buildDir(k.t), "bin", "podgrade"), args...)
	cmd.Env = append(os.Environ(), "TMPDIR="+k.temp)
	k.said.Reset()
	cmd.Stdout, cmd.Stderr = &k.said, &k.said
	if err := cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	return cmd
}

// verdicts are the status and the score of every row that has a record. A torn
// record, one whose agent ran again, or a finished one that was written again,
// fails the test. A row is finished when its verdict is signed, which comes after
// the record: one that was killed between them is graded again, not executed.
func (k *killedRun) verdicts() map[string]string {
	k.t.Helper()
	all := map[string]string{}
	rows, err := filepath.Glob(filepath.Join(k.dir, "default", "kill", "*", "*"))
	if err != nil {
		k.t.Fatal(err)
	}
	for _, dir := range rows {
		name, _ := filepath.Rel(k.dir, dir)
		row, err := record.OpenRow(dir)
		if err != nil {
			k.t.Fatal(err)
		}
		r, text, err := row.Read()
		row.Close()
		if errors.Is(err, record.ErrNoRecord) {
			if k.finished[name] != nil {
				k.t.Errorf("%s was finished, and its record is gone", name)
			}
			continue
		}
		if err != nil {
			k.t.Errorf("%s: %v", name, err)
			continue
		}
		if before := k.finished[name]; before != nil && !bytes.Equal(before, text) {
			k.t.Errorf("%s was finished, and was written again", name)
		}
		began, _ := r.Get(record.FieldStartedAt).Text()
		if before, ok := k.executed[name]; ok && before != began || began == "" {
			k.t.Errorf("%s was executed at %q, and again at %q", name, before, began)
		}
		k.executed[name] = began
		all[name] = string(r.Status)
		if r.HasVerdict() {
			if _, err := os.Stat(filepath.Join(dir, record.GradeEnvelope)); err == nil {
				k.finished[name] = text
			}
			all[name] = fmt.Sprintf("%s %v", r.Status, *r.Score)
		}
	}
	k.tornFiles()
	k.rebuilds(len(all))
	return all
}

// tornFiles: every file of the run that is JSON is whole: summaries, records and
// signatures. Drafts have other names, and cell.*.json, which no podgrade reads,
// is written before the record that counts.
func (k *killedRun) tornFiles() {
	k.t.Helper()
	err := filepath.WalkDir(k.dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err == nil && entry.IsDir() && entry.Name() == record.ArtifactsDir:
			return fs.SkipDir
		case err != nil || !strings.HasSuffix(path, ".json"):
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil && !json.Valid(text) {
			k.t.Errorf("%s is torn: %q", path, text)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		k.t.Error(err)
	}
}

// rebuilds: whatever the summary says after a kill, the records say the rest.
func (k *killedRun) rebuilds(records int) {
	k.t.Helper()
	switch s, dropped, err := record.Rebuild(k.dir); {
	case errors.Is(err, record.ErrNoRows) && records == 0, errors.Is(err, fs.ErrNotExist):
	case err != nil || len(dropped) > 0:
		k.t.Errorf("it cannot be rebuilt: %v, %v", err, dropped)
	case s.Counts().All != records:
		k.t.Errorf("rebuilt, it has %d rows of %d", s.Counts().All, records)
	}
}

// noDrafts: what was being written when the run was killed is gone once another
// one has gone on with it.
func (k *killedRun) noDrafts() {
	k.t.Helper()
	if left, _ := filepath.Glob(filepath.Join(k.dir, "default", "kill", "*", "*", "*.tmp")); len(left) > 0 {
		k.t.Errorf("drafts are left: %q", left)
	}
}

func newKilledRun(t *testing.T, task, scratch, temp string) *killedRun {
	return &killedRun{t: t, task: task, scratch: scratch, temp: temp, dir: filepath.Join(t.TempDir(), "run"), executed: map[string]string{}, finished: map[string][]byte{}}
}

// TestKilledRunsAreResumed kills runs at random instants: in the end every row
// has the verdict of a run that nobody disturbed, no finished row was run
// twice, and no file was ever torn.
func TestKilledRunsAreResumed(t *testing.T) {
	t.Parallel()
	kills := 8
	if os.Getenv("PODGRADE_TEST_SOAK") != "" {
		kills = 200
	}
	task, scratch, temp := killTask(t, testImage(t, testimages.BusyboxAs("1000"))), t.TempDir(), t.TempDir()
	calm := newKilledRun(t, task, scratch, temp)
	started := time.Now()
	if err := calm.start().Wait(); exitCode(err) != 1 {
		t.Fatalf("undisturbed: %v\n%s", err, calm.said.String())
	}
	took := time.Since(started)
	want := calm.verdicts()
	if len(want) != killRows {
		t.Fatalf("%v\n%s", want, calm.said.String())
	}
	for done := 0; done < kills; {
		k := newKilledRun(t, task, scratch, temp)
		for ended := false; !ended; {
			after := time.Duration(rand.Int64N(int64(took / 3)))
			if done >= kills { // the last run comes to its end
				after = time.Hour
			}
			ended = k.killAt(after)
			if !ended {
				done++
			}
			k.verdicts()
		}
		got := k.verdicts()
		k.noDrafts()
		for row, verdict := range want {
			if got[row] != verdict {
				t.Errorf("%s: %q, and undisturbed %q\n%s", row, got[row], verdict, k.said.String())
			}
		}
		if t.Failed() {
			return
		}
	}
	// One that was killed may have been dying still when the next one started.
	if out, err := exec.Command(filepath.Join(buildDir(t), "bin", "podgrade"), "gc", "--scratch", scratch).CombinedOutput(); err != nil {
		t.Errorf("gc: %v\n%s", err, out)
	}
	emptyOfStates(t, scratch)
	for _, dir := range []string{scratch, temp} {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left in %s: %v, %v", dir, left, err)
		}
	}
}

// emptyOfStates removes the state layers in a scratch directory, of which there are
// some.
func emptyOfStates(t *testing.T, scratch string) {
	t.Helper()
	o := isolation.Options{Libexec: filepath.Join(buildDir(t), "libexec", "podgrade"), Scratch: scratch}
	states, err := isolation.States(o)
	if err != nil || len(states) == 0 {
		t.Errorf("%d state layers: %v", len(states), err)
	}
	for _, state := range states {
		if err := isolation.RemoveState(t.Context(), o, state.DiffID); err != nil {
			t.Error(err)
		}
	}
}

// killAt starts the run and kills it after a while; ended tells that the run
// came to its end before.
func (k *killedRun) killAt(after time.Duration) (ended bool) {
	k.t.Helper()
	cmd := k.start()
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }()
	select {
	case err := <-gone:
		if exitCode(err) != 1 {
			k.t.Fatalf("it ended with %v\n%s", err, k.said.String())
		}
		return true
	case <-time.After(after):
	}
	cmd.Process.Kill()
	err := <-gone
	var exit *exec.ExitError
	return !errors.As(err, &exit) || exit.Exited()
}

func exitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		return -1
	}
	return 0
}
