package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"podgrade/oci"
	"podgrade/tasks/record"
)

// Scenarios of spec/regrade.md 5: a grade sees what the agent's cell had.

// podman calls Podman on the store that the images of the tests are in.
func podman(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("podman", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("podman %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// builtName is an image that only this test uses.
func builtName(t *testing.T, what string) string {
	name := fmt.Sprintf("localhost/podgrade-test/%s:%d", what, os.Getpid())
	t.Cleanup(func() { exec.Command("podman", "rmi", "--force", name).Run() })
	return name
}

// builds makes an image with the given file /marker, that no other one is.
func (s *scene) builds(name, marker string) {
	s.t.Helper()
	s.write("context/Dockerfile", fmt.Sprintf("FROM %s\nRUN echo %s >/marker && head -c 16 /dev/urandom | od >/unique\n", sceneImage(s.t), marker))
	s.podgrade(0, "images", "build", "--file", "context/Dockerfile", "--tag", name, "context")
}

const marked = `success_criteria:
  - {type: run_command, command: "grep -q old /marker", description: the image of the run}
`

func TestScenarioState(t *testing.T) {
	t.Run("D-8: what pre_run and agent left outside of the workspace crosses", func(t *testing.T) {
		s := executed(t, "cat >made; mkdir -p /opt/tool && echo 42 >/opt/tool/answer", `pre_run:
  - {command: "mkdir -p /srv/data && echo fixture >/srv/data/f && ln -s /srv/data data && ln -s \"$PWD/made\" absolute"}
success_criteria:
  - {type: run_command, command: "grep -q fixture data/f && grep -q p absolute && grep -q 42 /opt/tool/answer", description: all of it}
`)
		s.podgrade(0, "evaluate", row, trusting)
		if r := s.is(row, "SUCCESS", 1); len(r.stamps()) > 0 {
			t.Errorf("stamps %v", r.stamps())
		}
	})
	t.Run("D-12: what a capture leaves out is in the state layer, and nothing is installed", func(t *testing.T) {
		s := newScene(t)
		s.write("task.yaml", strings.Replace(sceneTask(t, "mkdir -p .venv/bin && printf '#!/bin/sh\\necho mine' >.venv/bin/tool && chmod +x .venv/bin/tool", `success_criteria:
  - {type: run_command, command: ".venv/bin/tool", expected_stdout: mine, description: the installed tool}
`), "network: none", "network: none, working_dir: /app", 1))
		s.podgrade(0, "execute", "task.yaml", "--run-dir", "r")
		if _, err := os.Stat(s.path(row + "/" + record.ArtifactsDir + "/t/.venv")); err == nil {
			t.Error("the capture holds it")
		}
		s.podgrade(0, "evaluate", row, trusting)
		if r := s.is(row, "SUCCESS", 1); len(r.stamps()) > 0 {
			t.Errorf("stamps %v", r.stamps())
		}
	})
}

// TestScenarioRetag: names may move, the row is graded by its image's id.
func TestScenarioRetag(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	name := builtName(t, "retag")
	s.builds(name, "old")
	s.write("task.yaml", strings.Replace(sceneTask(t, "cat >made", marked), sceneImage(t), name, 1))
	s.podgrade(0, "execute", "task.yaml", "--run-dir", "r")
	old := podman(t, "image", "inspect", "--format", "{{.Id}}", name)
	s.builds(name, "new")
	new := podman(t, "image", "inspect", "--format", "{{.Id}}", name)
	if old == new {
		t.Fatal("the name did not move")
	}
	t.Run("the old image is kept: graded in it, no stamp", func(t *testing.T) {
		s.podgrade(0, "evaluate", row, trusting, "--allow-image-drift")
		if r := s.is(row, "SUCCESS", 1); len(r.stamps()) > 0 || r.Info[record.GradedImageID] != old {
			t.Errorf("stamps %v, image %v", r.stamps(), r.Info[record.GradedImageID])
		}
		if origin := s.raw("environment_info", record.ImageOrigin); origin != record.OriginLocal {
			t.Errorf("origin %s", origin)
		}
	})
	podman(t, "rmi", "--force", old)
	t.Run("it is removed: both are named, and drift is asked for and stamped", func(t *testing.T) {
		before := s.text(rowRecord)
		_, stderr := s.podgrade(2, "evaluate", row, trusting)
		for _, want := range []string{old[:12], new[:12], "--allow-image-drift"} {
			if !strings.Contains(stderr, want) {
				t.Errorf("%q is not named: %s", want, stderr)
			}
		}
		if s.text(rowRecord) != before {
			t.Error("the record was changed")
		}
		s.podgrade(1, "evaluate", row, trusting, "--allow-image-drift")
		if r := s.is(row, "FAILURE", 0); !slices.Equal(r.stamps(), []string{"graded_with_unpinned_image=drift"}) {
			t.Errorf("stamps %v", r.stamps())
		}
	})
	t.Run("another platform has the name: refused, whatever is accepted", func(t *testing.T) {
		other := "linux/arm64"
		if oci.SamePlatform(other, oci.HostPlatform()) {
			other = "linux/amd64"
		}
		container := podman(t, "create", sceneImage(t), "true")
		podman(t, "export", "--output", s.path("root.tar"), container)
		podman(t, "rm", container)
		podman(t, "untag", name)
		s.podgrade(0, "images", "import", "--platform", other, "root.tar", name)
		before := s.text(rowRecord)
		_, stderr := s.podgrade(2, "evaluate", row, trusting, "--allow-image-drift")
		for _, want := range []string{old[:12], other, oci.HostPlatform(), "another platform"} {
			if !strings.Contains(stderr, want) {
				t.Errorf("%q is not named: %s", want, stderr)
			}
		}
		if s.text(rowRecord) != before {
			t.Error("the record was changed")
		}
		// An agent does not start in it either.
		s.podgrade(1, "execute", "task.yaml", "--run-dir", "other")
	})
}

// TestScenarioRebuilt: an image is built for its row, and never again.
func TestScenarioRebuilt(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	const dockerfile = "FROM %s\nRUN echo %s >/marker && head -c 16 /dev/urandom | od >/unique\n"
	s.write("task/Dockerfile", fmt.Sprintf(dockerfile, sceneImage(t), "old"))
	s.write("task/task.yaml", builtTask("cat >made", marked))
	s.podgrade(0, "execute", "task/task.yaml", "--run-dir", "r")
	info := s.read(row, record.TaskFile).Info
	if created, err := time.Parse(time.RFC3339, fmt.Sprint(info[record.ImageCreated])); err != nil || time.Since(created) > time.Hour || info[record.ImageOrigin] != s.path("task/Dockerfile") {
		t.Errorf("created %v (%v), origin %v", created, err, info[record.ImageOrigin])
	}
	built, reference := fmt.Sprint(info[record.ImageID]), fmt.Sprint(info[record.Image])
	t.Run("D-9: a changed Dockerfile is named, and the recorded image used", func(t *testing.T) {
		if _, stderr := s.podgrade(0, "evaluate", row, trusting); strings.Contains(stderr, "has changed") {
			t.Errorf("nothing has changed: %s", stderr)
		}
		s.write("task/Dockerfile", fmt.Sprintf(dockerfile, sceneImage(t), "new"))
		_, stderr := s.podgrade(0, "evaluate", row, trusting)
		r := s.is(row, "SUCCESS", 1)
		if len(r.stamps()) > 0 || r.Info[record.GradedImageID] != built {
			t.Errorf("stamps %v, image %v", r.stamps(), r.Info[record.GradedImageID])
		}
		// Only what consent covers is read: the criteria's commands get this
		// directory.
		if !strings.Contains(stderr, "Dockerfile or what lies beside it has changed") {
			t.Errorf("%s", stderr)
		}
	})
	t.Run("it is removed: another build is asked for and stamped", func(t *testing.T) {
		podman(t, "rmi", "--force", built)
		_, stderr := s.podgrade(2, "evaluate", row, trusting)
		if !strings.Contains(stderr, built[:12]) || !strings.Contains(stderr, "podgrade images build") {
			t.Errorf("%s", stderr)
		}
		s.podgrade(0, "images", "build", "--file", "task/Dockerfile", "--tag", reference, "task")
		t.Cleanup(func() { exec.Command("podman", "rmi", "--force", reference).Run() })
		s.podgrade(1, "evaluate", row, trusting, "--allow-image-drift")
		r := s.is(row, "FAILURE", 0)
		if want := []string{"graded_with_rebuilt_image=" + s.path("task/Dockerfile"), "graded_with_unpinned_image=drift"}; !slices.Equal(r.stamps(), want) {
			t.Errorf("stamps %v", r.stamps())
		}
	})
}
