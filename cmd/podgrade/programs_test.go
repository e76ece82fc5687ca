package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestAMissingProgramIsSaidOnce: on a host without Podman, or with half an
// installation, no run directory is made and no row fails one by one.
func TestAMissingProgramIsSaidOnce(t *testing.T) {
	dir := t.TempDir()
	alone := filepath.Join(dir, "bin", "podgrade")
	text, err := os.ReadFile(filepath.Join(buildDir(t), "bin", "podgrade"))
	if err == nil {
		err = errors.Join(os.Mkdir(filepath.Dir(alone), 0o755), os.WriteFile(alone, text, 0o755))
	}
	task := "task_id: t\ndescription: d\nagent: {type: none}\nsandbox: {driver: docker, docker: {image: \"localhost/podgrade-test/nothing:1\", network: none}}\n" + passing
	if err := errors.Join(err, os.WriteFile(filepath.Join(dir, "task.yaml"), []byte(task), 0o644)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ program, path, says string }{
		{filepath.Join(buildDir(t), "bin", "podgrade"), dir, "find Podman: "},
		{alone, os.Getenv("PATH"), "find podgrade's own programs in "},
	} {
		for _, verb := range []string{"run", "execute"} {
			cmd := exec.Command(c.program, verb, "task.yaml", "--repeats", "3")
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+c.path)
			out, err := cmd.CombinedOutput()
			if exitCode(err) != 1 || strings.Count(string(out), c.says) != 1 {
				t.Errorf("%s: %v\n%s", verb, err, out)
			}
			if _, err := os.Lstat(filepath.Join(dir, runsDir)); err == nil {
				t.Errorf("%s made a run directory", verb)
			}
		}
	}
}
