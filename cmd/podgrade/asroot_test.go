//go:build asroot

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"podgrade/isolation/testimages"
)

// rootsHouse is a directory with a store and a scratch of root's that only this
// test uses.
func rootsHouse(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test needs root: sudo make test")
	}
	dir, err := os.MkdirTemp("/tmp", "pgr-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		unix.Unmount(filepath.Join(dir, "store", "overlay"), unix.MNT_DETACH)
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	configuration := filepath.Join(dir, "storage.conf")
	text := fmt.Sprintf("[storage]\ndriver = \"overlay\"\ngraphroot = %q\nrunroot = %q\n", filepath.Join(dir, "store"), filepath.Join(dir, "run"))
	if err := errors.Join(os.Chmod(dir, 0o711), os.WriteFile(configuration, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CONTAINERS_STORAGE_CONF", configuration)
	t.Setenv("XDG_DATA_HOME", dir)
	t.Setenv("XDG_RUNTIME_DIR", dir)
	t.Setenv("XDG_CACHE_HOME", dir)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(dir, "config")) // for the signing key
	return dir
}

// TestAsRootATaskIsRunAndGradedAgain: a task from its image to its verdict, and
// the record and the workspace that are left.
func TestAsRootATaskIsRunAndGradedAgain(t *testing.T) {
	house := rootsHouse(t)
	dir := filepath.Join(house, "work")
	if err := os.Mkdir(dir, 0o700); err != nil { // as root's home is
		t.Fatal(err)
	}
	archive, err := os.Create(filepath.Join(dir, "root.tar"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(testimages.Busybox().WriteTar(archive), archive.Close()); err != nil {
		t.Fatal(err)
	}
	podgrade := func(args ...string) string {
		t.Helper()
		verb := 1
		if args[0] == "images" || args[0] == "state" {
			verb = 2
		}
		args = slices.Insert(args, verb, "--scratch", filepath.Join(house, "scratch"))
		cmd := exec.Command(filepath.Join(buildDir(t), "bin", "podgrade"), args...)
		cmd.Dir = dir
		said, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v\n%s", args, err, said)
		}
		return string(said)
	}
	if said := podgrade("doctor"); !strings.Contains(said, "root; its cells have the ids") {
		t.Errorf("the doctor says\n%s", said)
	}
	podgrade("images", "import", "root.tar", "localhost/podgrade-base:1", "--user", "1000")
	task := strings.Replace(string(exampleTask), "  type: none\n", "  type: command\n  command: mkdir -p made/deep && echo $(id -u) > made/deep/user && chmod 700 made && echo left > /tmp/left\ninitial_prompt: go\n", 1)
	if err := os.WriteFile(filepath.Join(dir, "task.yaml"), []byte(task), 0o600); err != nil {
		t.Fatal(err)
	}
	podgrade("run", "task.yaml", "--run-dir", "runs/first")
	row := filepath.Join("runs", "first", "default", "greeting", "00")
	podgrade("evaluate", row, "--allow-recorded-commands", "--workspace-view", "overlay")
	if said := podgrade("evaluate", row); !strings.Contains(said, "by the signature of your own key") {
		t.Errorf("root's own row is asked for: %s", said)
	}

	made := filepath.Join(dir, row, "artifacts", "greeting", "made", "deep", "user")
	if text, err := os.ReadFile(made); string(text) != "1000\n" {
		t.Errorf("the agent was %q (%v)", text, err)
	}
	var st unix.Stat_t
	if err := unix.Lstat(made, &st); err != nil || st.Uid != 0 || st.Gid != 0 {
		t.Errorf("what it made belongs to %d:%d (%v)", st.Uid, st.Gid, err)
	}
	for _, name := range []string{"cell.execute.json", "cell.grade.json"} {
		if text, err := os.ReadFile(filepath.Join(dir, row, name)); err != nil || !strings.Contains(string(text), `"host_ids"`) {
			t.Errorf("%s says no ids (%v)", name, err)
		}
	}
	travelsAsRoot(t, podgrade, dir)
	if said := podgrade("gc"); strings.Contains(said, "removed") {
		t.Errorf("it left something: %s", said)
	}
	podgrade("rm", "runs/first", "--yes")
	if _, err := os.Stat(filepath.Join(dir, "runs", "first")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the run is still there: %v", err)
	}
}

// travelsAsRoot: what root exports it imports into a store that has lost it, and
// grades there.
func travelsAsRoot(t *testing.T, podgrade func(args ...string) string, dir string) {
	t.Helper()
	podgrade("export", "runs/first", "-o", "first.tar", "--allow-recorded-paths")
	layers := strings.Fields(podgrade("state", "ls"))
	if len(layers) == 0 || !strings.HasPrefix(layers[0], "sha256:") {
		t.Fatalf("state ls says %q", layers)
	}
	podgrade("state", "rm", "--yes", layers[0])
	if out, err := exec.Command("podman", "rmi", "--force", "localhost/podgrade-base:1").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	said := podgrade("import", "first.tar", "-o", "in")
	if !strings.Contains(said, "rows 1, images loaded 1, images there already 0, state layers 1") {
		t.Errorf("import says %s", said)
	}
	row := filepath.Join("in", "default", "greeting", "00")
	podgrade("evaluate", row, "--allow-recorded-commands")
	var st unix.Stat_t
	if err := unix.Lstat(filepath.Join(dir, row, "artifacts", "greeting", "made", "deep", "user"), &st); err != nil || st.Uid != 0 {
		t.Errorf("what the agent made belongs to %d (%v)", st.Uid, err)
	}
	podgrade("rm", "in", "--yes")
}

// What root has no way for is refused before a directory is made.
func TestAsRootRunRefusesWhatRootHasNot(t *testing.T) {
	dir := rootsHouse(t)
	if err := os.WriteFile(filepath.Join(dir, "task.yaml"), exampleTask, 0o600); err != nil {
		t.Fatal(err)
	}
	for option, says := range map[string]string{"--engine=podman": "use --engine bundle", "--on-host": "as the user who owns the rows"} {
		cmd := exec.Command(filepath.Join(buildDir(t), "bin", "podgrade"), "run", "task.yaml", "--run-dir", "runs/refused", option)
		cmd.Dir = dir
		said, err := cmd.CombinedOutput()
		var ended *exec.ExitError
		if !errors.As(err, &ended) || ended.ExitCode() != 2 || !strings.Contains(string(said), says) {
			t.Errorf("%s: %v, %s", option, err, said)
		}
		if _, err := os.Stat(filepath.Join(dir, "runs")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: a directory was made: %v", option, err)
		}
	}
}
