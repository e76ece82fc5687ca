package main

import (
	"strings"
	"testing"
)

// TestARunBesideItsDockerfile: runs usually lie in the project that the image is
// built from. They get neither into the image nor into what identifies a row, so
// that a resume finds the rows as they were.
func TestARunBesideItsDockerfile(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.write("Dockerfile", "FROM "+sceneImage(t)+"\nCOPY . /context\n")
	s.write(".dockerignore", "secret\n")
	s.write("secret", "of the operator")
	s.write("task.yaml", `task_id: t
description: d
agent: {type: none}
sandbox:
  driver: docker
  docker: {dockerfile_path: Dockerfile, network: none}
  template_sources: [{type: template_dir, path: .}]
success_criteria:
  - {type: run_command, command: "test -e /context/Dockerfile && test -e /context/task.yaml && test -e task.yaml", description: what is built from}
  - {type: run_command, command: "! ls -d /context/* | grep -e runs/ -e secret && ! ls -d /context/runs/* runs/*", description: no run is in the image or the workspace}
`)
	s.podgrade(0, "run", "task.yaml")
	_, stderr := s.podgrade(0, "run", "task.yaml", "--run-dir", "runs/latest", "--resume")
	if !strings.Contains(stderr, "0 rows to execute and grade, 1 row finished before") {
		t.Errorf("%s", stderr)
	}
	// Another run of the same does not change what the first one was of.
	s.podgrade(0, "run", "task.yaml", "--run-dir", "runs/second")
	if _, stderr = s.podgrade(0, "run", "task.yaml", "--run-dir", "runs/second", "--resume"); !strings.Contains(stderr, "1 row finished before") {
		t.Errorf("%s", stderr)
	}
}
