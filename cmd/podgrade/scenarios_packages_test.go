package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"podgrade/isolation/testimages"
	"podgrade/tasks/record"
	"podgrade/tasks/record/fixture"
)

// TestScenarioPackages grades a row of coder-eval whose workspace was captured
// out of a container, and so has lost its virtual environment. The image holds
// the index, so that no network is needed.
func TestScenarioPackages(t *testing.T) {
	t.Parallel()
	const image = "localhost/podgrade-test/packages:1"
	s := newScene(t)
	testImage(t, testimages.Toolbox())
	if err := os.CopyFS(s.path("image"), os.DirFS("../../tasks/examples/python-package/image")); err != nil {
		t.Fatal(err)
	}
	s.podgrade(0, "images", "build", "--file", "image/Dockerfile", "--tag", image, "image")
	imported := func(name, packages, criterion string) (row string) {
		t.Helper()
		s.write(name+".yaml", `task_id: t
description: d
initial_prompt: p
agent: {type: claude-code}
sandbox: {driver: docker, docker: {image: "`+image+`", network: none}, python: {env_packages: [`+packages+`]}}
success_criteria:
  - {type: run_command, command: "`+criterion+`", description: what the grade finds}
`)
		dir, err := fixture.Write(fixture.Order{Task: s.path(name + ".yaml"), Out: s.path(name), Form: fixture.Unpinned, Files: map[string]string{"made": "p"}})
		if err != nil {
			t.Fatal(err)
		}
		row, _ = filepath.Rel(s.dir, dir)
		return row
	}
	t.Run("D-12: packages that the workspace has lost are installed again, when that is accepted", func(t *testing.T) {
		row := imported("some", "greeting", `python -c 'import greeting' && test -n \"$VIRTUAL_ENV\"`)
		_, stderr := s.podgrade(2, "evaluate", row)
		printsAll(t, stderr, "install greeting")
		s.podgrade(0, "evaluate", row, trusting)
		if r := s.is(row, "SUCCESS", 1); !slices.Equal(r.stamps(), []string{record.GradedWithUnpinnedImage + "=" + image}) {
			t.Errorf("stamps %v", r.stamps())
		}
		if log := s.text(row + "/" + record.GradeLog); !strings.Contains(log, "has lost .venv, so python packages are installed again") {
			t.Errorf("%s", log)
		}
		if left, err := os.ReadDir(s.path(row + "/" + record.ArtifactsDir + "/t")); err != nil || len(left) != 1 {
			t.Errorf("the workspace holds %v, %v", left, err)
		}
	})
	t.Run("D-12: an empty list installs nothing", func(t *testing.T) {
		row := imported("none", "", "test ! -e .venv")
		s.podgrade(0, "evaluate", row, trusting)
		s.is(row, "SUCCESS", 1)
	})
}
