package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"podgrade/isolation"
	"podgrade/regrade"
	"podgrade/regrade/archive"
	"podgrade/tasks/record"
)

// stranger is a user who has nothing of what the first one has: neither images
// nor state layers nor settings.
type stranger struct {
	*scene
	env []string
}

func newStranger(t *testing.T) *stranger {
	t.Helper()
	home, err := os.MkdirTemp("/tmp", "pg-stranger-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeHome(t, home) })
	s := &stranger{scene: &scene{t: t, dir: filepath.Join(home, "work")}}
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if name != "HOME" && !strings.HasPrefix(name, "XDG_") && name != canaryVariable {
			s.env = append(s.env, entry)
		}
	}
	s.env = append(s.env, "HOME="+home, "XDG_RUNTIME_DIR="+filepath.Join(home, "run"))
	for _, dir := range []string{"work", "run", ".config/containers"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s.write("../.config/containers/storage.conf", "[storage]\ndriver = \"overlay\"\n")
	return s
}

// removeHome removes a home with a store of Podman in it.
func removeHome(t *testing.T, home string) {
	emptyTree(t, home)
	os.Remove(home)
}

// emptyTree removes what others of this user's ids own too.
func emptyTree(t *testing.T, path string) {
	dir, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	options := isolation.Options{Libexec: filepath.Join(buildDir(t), "libexec", "podgrade"), Scratch: t.TempDir()}
	if err := isolation.RemoveTree(context.Background(), options, dir); err != nil {
		t.Error(err)
	}
}

// podgrade calls the program as the stranger.
func (s *stranger) podgrade(code int, args ...string) (stdout, stderr string) {
	s.t.Helper()
	cmd := exec.Command(filepath.Join(buildDir(s.t), "bin", "podgrade"), args...)
	cmd.Dir, cmd.Env = s.dir, s.env
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if got := exitCode(cmd.Run()); got != code {
		s.t.Fatalf("podgrade %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), got, code, out.String(), said.String())
	}
	return out.String(), said.String()
}

const (
	canaryVariable = "PODGRADE_TEST_CANARY"
	canary         = "sk-canary-5d1f0c9e7a"
)

// travelTask needs all that travels: the image, what the agent changed in it, the
// task directory, the reference, owners.
const travelTask = `task_id: t
description: d
initial_prompt: p
agent:
  type: command
  command: 'test -n "$` + canaryVariable + `" && cat >made && mkdir -p /opt/tool && echo 42 >/opt/tool/answer && rm /marker2 && mkdir theirs && echo x >theirs/x && chown -R 7 theirs && ln made again'
sandbox: {driver: docker, docker: {image: "IMAGE", network: none, env_passthrough: [` + canaryVariable + `]}}
reference: {directory: key}
success_criteria:
  - {type: run_command, command: "grep -q 42 /opt/tool/answer && test ! -e /marker2 && grep -q here /marker", description: image and state layer}
  - {type: run_command, command: 'grep -q beside "$TASK_DIR/beside.txt" && test ! -e "$TASK_DIR/.git"', description: the task directory}
  - {type: run_command, command: 'grep -q secret "$REFERENCE_DIR/answer"', description: the reference}
  - {type: run_command, command: 'test "$(stat -c %u theirs/x)" = 7 && test "$(stat -c %h made)" = 2', description: the workspace}
  - {type: file_exists, path: nothing, description: it is not there}
`

// traveller makes a run of one row on an image that nobody else has.
func traveller(t *testing.T) *scene {
	t.Helper()
	s := newScene(t)
	t.Cleanup(func() { emptyTree(t, s.dir) })
	name := builtName(t, "travel")
	s.write("context/Dockerfile", "FROM "+sceneImage(t)+"\nRUN echo here >/marker && echo >/marker2 && head -c 16 /dev/urandom | od >/unique\n")
	s.podgrade(0, "images", "build", "--file", "context/Dockerfile", "--tag", name, "context")
	s.write("tasks/t.yaml", strings.Replace(travelTask, "IMAGE", name, 1))
	s.write("tasks/beside.txt", "beside\n")
	s.write("tasks/.git/config", "token = "+canary+"\n")
	s.write("tasks/key/answer", "secret\n")
	s.write("tasks/runs/r/run.json", `{"task_results": []}`)
	t.Setenv(canaryVariable, canary)
	s.podgrade(0, "execute", "tasks/t.yaml", "--run-dir", "r")
	return s
}

func (s *scene) exists(name string) bool {
	_, err := os.Lstat(filepath.Join(s.dir, name))
	return err == nil
}

// An exported run and an exported row come to the same verdict on the empty store
// of somebody else, without what lies at the recorded paths; and whichever part
// is damaged is named, and leaves nothing.
func TestRowsTravel(t *testing.T) {
	s := traveller(t)
	_, said := s.podgrade(2, "export", "r", "-o", "run.tar")
	if !strings.Contains(said, s.dir+"/tasks") || !strings.Contains(said, "--allow-recorded-paths") || s.exists("run.tar") {
		t.Errorf("without consent: %s", said)
	}
	s.podgrade(0, "export", "r", "-o", "run.tar", "--allow-recorded-paths")
	s.podgrade(0, "export", "r", "-o", "again.tar", "--allow-recorded-paths")
	s.podgrade(0, "export", "r/"+sceneRow, "-o", "row.tar", "--allow-recorded-paths")
	s.podgrade(2, "export", "r", "-o", "run.tar", "--allow-recorded-paths") // never replaced
	t.Run("a full disk", func(t *testing.T) {
		here := *s
		here.t = t
		fullDiskKeepsNothing(t, &here)
	})
	run, err := os.ReadFile(filepath.Join(s.dir, "run.tar"))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(filepath.Join(s.dir, "again.tar")); err != nil || !bytes.Equal(run, again) {
		t.Errorf("exported again the run is another: %v", err)
	}
	if bytes.Contains(run, []byte(canary)) {
		t.Error("the credential of the agent is in the archive")
	}
	s.podgrade(1, "evaluate", "r/"+sceneRow, trusting)
	here := s.read("r/"+sceneRow, record.TaskFile)
	if len(here.Results) != 5 || here.Results[3]["score"] != json.Number("1.0") {
		t.Fatalf("%s", here.verdict())
	}
	for _, moved := range []string{"tasks", "r"} { // nobody may find them by their paths
		if err := os.Rename(filepath.Join(s.dir, moved), filepath.Join(s.dir, moved+".away")); err != nil {
			t.Fatal(err)
		}
	}
	other := newStranger(t)
	damagedIsRefused(t, other, run)
	for _, name := range []string{"run", "row"} {
		out, _ := other.podgrade(0, "import", filepath.Join(s.dir, name+".tar"), "-o", name, "--json")
		var imported regrade.ImportedRows
		if err := json.Unmarshal([]byte(out), &imported); err != nil {
			t.Fatal(err)
		}
		first := name == "run"
		if len(imported.Rows) != 1 || (len(imported.Images) == 1) != first || (len(imported.States) == 1) != first || (len(imported.Kept) == 1) == first {
			t.Errorf("%s: %+v", name, imported)
		}
		if info, err := os.Stat(filepath.Join(other.dir, name)); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%v, %v", info, err)
		}
		if !other.exists(name + "/" + record.RunFile) {
			t.Errorf("%s has no summary", name)
		}
		row := name + "/" + sceneRow
		_, said := other.podgrade(2, "evaluate", row)
		if !strings.Contains(said, name+"/"+record.ImportedDir) {
			t.Errorf("the imported task directory is not disclosed: %s", said)
		}
		other.podgrade(1, "evaluate", row, trusting)
		if there := other.read(row, record.TaskFile); there.verdict() != here.verdict() {
			t.Errorf("%s: there\n%s\nhere\n%s", name, there.verdict(), here.verdict())
		} else if times := here.Info[record.WorkspaceTimes]; times == nil || there.Info[record.GradedTimes] != times {
			t.Errorf("%s: the times of files are %v there, and were %v", name, there.Info[record.GradedTimes], times)
		}
	}
	imageOfOthersIsNotTouched(t, other)
	changedTaskDirIsRefused(t, other)
	travelsOn(t, other)
}

// damagedIsRefused changes one byte in each part.
func damagedIsRefused(t *testing.T, other *stranger, run []byte) {
	t.Helper()
	opened, err := archive.Open(bytes.NewReader(run), int64(len(run)))
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]int64{archive.ManifestName: 600}
	for _, p := range opened.Manifest.Parts {
		if p.Size > 0 {
			at[p.Name] = opened.Offset(p.Name) + p.Size/2
		}
	}
	bad := filepath.Join(other.dir, "bad.tar")
	if err := os.WriteFile(bad, run, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(bad, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for name, offset := range at {
		if _, err := file.WriteAt([]byte{run[offset] ^ 1}, offset); err != nil {
			t.Fatal(err)
		}
		_, said := other.podgrade(2, "import", bad, "-o", "bad")
		if !strings.Contains(said, name) {
			t.Errorf("a changed byte of %s: %s", name, said)
		}
		if _, err := file.WriteAt([]byte{run[offset]}, offset); err != nil {
			t.Fatal(err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(other.dir, "*")); len(left) != 1 || other.exists("../.local/share/podgrade/scratch/state") {
		t.Errorf("a refused archive left %v", left)
	}
}

// imageOfOthersIsNotTouched: an imported image has a name that moves no tag.
func imageOfOthersIsNotTouched(t *testing.T, other *stranger) {
	t.Helper()
	out, _ := other.podgrade(0, "images", "ls", "--json")
	var images []isolation.Listed
	if err := json.Unmarshal([]byte(out), &images); err != nil {
		t.Fatal(err)
	}
	if len(images) != 1 || len(images[0].References) != 1 || !strings.Contains(images[0].References[0], isolation.ImportedName+images[0].Pin.ID) {
		t.Errorf("%+v", images)
	}
}

// changedTaskDirIsRefused: what came with the row is compared when it is graded.
func changedTaskDirIsRefused(t *testing.T, other *stranger) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(other.dir, "run", record.ImportedDir, "*", "beside.txt"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v, %v", found, err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(found[0]), "runs", "*")); len(left) > 0 {
		t.Errorf("another run travelled along: %v", left)
	}
	if err := os.WriteFile(found[0], []byte("beside too\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, said := other.podgrade(2, "evaluate", "run/"+sceneRow, trusting); !strings.Contains(said, "task directory") || !strings.Contains(said, "digest") {
		t.Errorf("a changed task directory: %s", said)
	}
	if err := os.WriteFile(found[0], []byte("beside\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// travelsOn: an imported row is exported again as any other, and a pruned state
// layer comes back with it.
func travelsOn(t *testing.T, other *stranger) {
	t.Helper()
	other.podgrade(0, "export", "row/"+sceneRow, "-o", "on.tar", "--allow-recorded-paths")
	out, _ := other.podgrade(0, "state", "ls")
	if !strings.Contains(out, "needed by "+filepath.Join(other.dir, "row", sceneRow)) {
		t.Errorf("state ls says %s", out)
	}
	out, _ = other.podgrade(0, "state", "prune", "--max-size", "0", "--dry-run")
	if !strings.Contains(out, "would remove sha256:") {
		t.Errorf("state prune says %s", out)
	}
	other.podgrade(0, "state", "prune", "--max-size", "0")
	_, said := other.podgrade(2, "evaluate", "row/"+sceneRow, trusting)
	if !strings.Contains(said, "podgrade import") || !strings.Contains(said, "execute the row again") {
		t.Errorf("without its state layer: %s", said)
	}
	other.podgrade(0, "import", "on.tar", "-o", "on")
	other.podgrade(1, "evaluate", "row/"+sceneRow, trusting)
	other.podgrade(1, "evaluate", "on/"+sceneRow, trusting)
}

// A disk that is full keeps no half of an archive.
func fullDiskKeepsNothing(t *testing.T, s *scene) {
	t.Helper()
	disk := smallDisk(t)
	defer fill(t, disk, 1<<20)()
	_, said := s.podgrade(1, "export", "r", "-o", filepath.Join(disk, "run.tar"), "--allow-recorded-paths")
	if !strings.Contains(said, "no space left on device") || !strings.Contains(said, "make room") {
		t.Errorf("a full disk: %s", said)
	}
	if left, err := os.ReadDir(disk); err != nil || len(left) != 1 {
		t.Errorf("left are %v, %v", left, err)
	}
}
