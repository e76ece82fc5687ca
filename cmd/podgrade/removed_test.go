package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"podgrade/isolation/testimages"
	"podgrade/tasks/record"
)

// ownStore gives a test a store of Podman's that nobody else uses, so that all of
// it may be pruned. The name is short: Podman puts sockets deep into it.
func ownStore(t *testing.T) {
	t.Helper()
	dir := fmt.Sprintf("/tmp/pgs-%d", os.Getpid())
	store, configuration := filepath.Join(dir, "store"), filepath.Join(dir, "storage.conf")
	text := fmt.Sprintf("[storage]\ndriver = \"overlay\"\ngraphroot = %[1]q\nrootless_storage_path = %[1]q\n", store)
	if err := errors.Join(os.MkdirAll(store, 0o700), os.WriteFile(configuration, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"CONTAINERS_STORAGE_CONF": configuration, "XDG_DATA_HOME": store, "XDG_RUNTIME_DIR": dir} {
		t.Setenv(name, value)
	}
	t.Cleanup(func() {
		// What is left is a mount of Podman's, which goes with its process.
		exec.Command("podman", "unshare", "rm", "-rf", store, filepath.Join(dir, "containers")).Run()
		var err error
		if text, failed := os.ReadFile(filepath.Join(dir, "libpod/tmp/pause.pid")); failed == nil { // which every command of Podman leaves
			pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
			err = syscall.Kill(max(pid, 2), syscall.SIGKILL)
		}
		if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
}

// waiting is a criterion that ends when the test says so: its view is the
// workspace itself.
const waiting = `success_criteria:
  - {type: run_command, command: "echo begun; until test -e go; do sleep 0.1; done", description: it waits, timeout: 300}
  - {type: file_exists, path: made, description: it was made}
`

// TestAnImageIsRemovedUnderAGrade: what holds the image of a run keeps it from
// `podman image prune -a`. What removes it all the same costs the grade, never the
// row a verdict: the message names the image, the records keep their bytes and
// can be graded when it is there again.
func TestAnImageIsRemovedUnderAGrade(t *testing.T) {
	files := 1000
	if os.Getenv("PODGRADE_TEST_SOAK") != "" {
		files = 40_000
	}
	ownStore(t)
	s, image := newScene(t), testimages.ManyFiles(files)
	writeArchive(t, image, s.path("image.tar"))
	s.podgrade(0, "images", "import", "image.tar", image.Reference)
	s.write("task.yaml", fmt.Sprintf("task_id: t\ndescription: d\ninitial_prompt: p\nagent: {type: command, command: \"cat >made\"}\n"+
		"sandbox: {driver: docker, docker: {image: %q, network: none}}\n%s", image.Reference, waiting))
	s.podgrade(0, "execute", "task.yaml", "--run-dir", "r", "--repeats", "2")
	rows := []string{"r/default/t/00", "r/default/t/01"}
	before := s.text(rows[0]+"/"+record.TaskFile) + s.text(rows[1]+"/"+record.TaskFile)
	podman(t, "save", "--quiet", "--output", s.path("saved.tar"), image.Reference)
	for _, test := range []struct {
		rows    int
		removal []string
		code    int
	}{
		{1, []string{"rmi", "--force", image.Reference}, 1},
		{2, []string{"system", "prune", "--all", "--force"}, 1},
		{2, []string{"image", "prune", "--all", "--force"}, 0},
	} {
		t.Run(strings.Join(test.removal[:2], " "), func(t *testing.T) {
			s.t = t
			said := removeUnder(t, s, rows[:test.rows], test.removal, test.code)
			if test.code == 0 {
				s.is(rows[0], "SUCCESS", 1)
				s.is(rows[1], "SUCCESS", 1)
				return
			}
			if after := s.text(rows[0]+"/"+record.TaskFile) + s.text(rows[1]+"/"+record.TaskFile); after != before {
				t.Errorf("the records were changed:\n%s", after)
			}
			if strings.Count(said, image.Reference) < test.rows || !strings.Contains(said, "no such image") || strings.Contains(said, "FAILURE") {
				t.Errorf("it does not say that the image %s is gone:\n%s", image.Reference, said)
			}
			podman(t, "load", "--quiet", "--input", s.path("saved.tar"))
		})
	}
}

// writeArchive writes the root file system of an image into a file.
func writeArchive(t *testing.T, image testimages.Image, name string) {
	t.Helper()
	from := image.Open()
	defer from.Close()
	to, err := os.Create(name)
	if err == nil {
		_, err = io.Copy(to, from)
		err = errors.Join(err, to.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// removeUnder grades rows, has Podman do something while their criteria run and,
// of several rows, while their image is held, and returns what podgrade said.
func removeUnder(t *testing.T, s *scene, rows, removal []string, code int) string {
	t.Helper()
	grading := s.start(append([]string{"evaluate", trusting, "--workspace-view", "bind", "-j", "2"}, rows...)...)
	s.waits(grading, "sleep")
	if len(rows) > 1 {
		waitForHolder(t)
	}
	podman(t, removal...)
	for _, row := range rows {
		s.write(row+"/"+record.ArtifactsDir+"/t/go", "")
	}
	said := s.ends(grading, code)
	for _, row := range rows {
		if err := os.Remove(s.path(row + "/" + record.ArtifactsDir + "/t/go")); err != nil {
			t.Error(err)
		}
	}
	return said
}

func waitForHolder(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if podman(t, "ps", "--all", "--quiet", "--filter", "label=podgrade.holder") != "" {
			return
		}
	}
	t.Fatal("nothing holds the image")
}
