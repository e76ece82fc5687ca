package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRunSaysWhyRowsDidNotPass: whoever has only what was printed learns the
// reason, and what to do; an error is not cut before that.
func TestRunSaysWhyRowsDidNotPass(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.write("ends.yaml", sceneTask(t, "exit 3", passing))
	stdout, stderr := s.podgrade(1, "run", "ends.yaml", "--run-dir", "ends")
	printsAll(t, stderr, "! executed, ERROR", "it ended with exit code 3")
	printsAll(t, stdout, "it ended with exit code 3", "\n    - 0.000  run_command  it was made: ", "\n    - 0.000  file_contains  it holds the prompt: ")

	s.write("fails.yaml", sceneTask(t, "touch made", failing1))
	stdout, _ = s.podgrade(1, "run", "fails.yaml", "--run-dir", "fails")
	printsAll(t, stdout, "- default/t/00: FAILURE, score 0.500\n    - 0.000  file_exists  it is not there: ")
	if strings.Contains(stdout, "it was made") {
		t.Errorf("a criterion that passed is listed:\n%s", stdout)
	}

	for image, fetches := range map[string]bool{"registry.invalid/podgrade-test/nothing:1": true, "localhost/podgrade-test/nothing:1": false} {
		s.write("image.yaml", strings.ReplaceAll(sceneTask(t, "true", passing), sceneImage(t), image))
		stdout, _ = s.podgrade(1, "run", "image.yaml", "--run-dir", filepath.Base(filepath.Dir(image))+"-"+strings.SplitN(image, "/", 2)[0])
		printsAll(t, stdout, "1 of 1 rows could not be executed and have no record; with --resume --run-dir", "no such image in Podman's store", "`podgrade images import TAR "+image+"`")
		if strings.Contains(stdout, "--retry") {
			t.Errorf("a row without a record needs no --retry:\n%s", stdout)
		}
		if strings.Contains(stdout, "--pull missing") != fetches {
			t.Errorf("%s: may it be fetched? %v:\n%s", image, fetches, stdout)
		}
	}

	s.write("image/Dockerfile", "FROM localhost/podgrade-test/nothing:1\n")
	built := strings.ReplaceAll(sceneTask(t, "true", passing), "image: ", "dockerfile_path: ")
	s.write("build.yaml", strings.ReplaceAll(built, sceneImage(t), "image/Dockerfile"))
	stdout, stderr = s.podgrade(1, "run", "build.yaml", "--run-dir", "build")
	for _, printed := range []string{stdout, stderr} {
		printsAll(t, stdout, "1 of 1 rows ended with an error and cannot be graded; with --resume --retry error")
		printsAll(t, printed, "BUILD_FAILED", "podgrade-test/nothing:1", "what it builds on must be in Podman's store: podgrade images ls")
	}
	if _, err := os.Stat(filepath.Join(s.dir, "build", "run.md")); err != nil {
		t.Error(err)
	}
}

func printsAll(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in:\n%s", part, text)
		}
	}
}

// What an agent said last is its own text, and the reader's terminal and browser
// are not its own.
func TestAnAgentsLastWordsAreNeutral(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.write("task.yaml", sceneTask(t, `printf '\033[31mred\007<script>\n' >&2; exit 3`, passing))
	stdout, stderr := s.podgrade(1, "run", "task.yaml", "--run-dir", "r")
	printsAll(t, stderr, `its standard error ends with: \x1b[31mred\x07<script>`)
	junit, _ := s.podgrade(0, "report", "r", "-f", formatJUnit)
	for where, text := range map[string]string{"stdout": stdout, "stderr": stderr, "run.md": s.text("r/run.md"), "junit": junit} {
		if strings.ContainsAny(text, "\x1b\x07") || where == "junit" && strings.Contains(text, "<script>") {
			t.Errorf("%s holds it as it came: %q", where, text)
		}
	}
}
