package main

import (
	"os"
	"strings"
	"testing"
)

// What a task brings is no part of a row, and a script may read it that no criterion
// names. Of a verdict that is another one for it the record and the warnings say so.
func TestAnotherTaskDirectoryIsSaid(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.write("t/task.yaml", sceneTask(t, "echo 42 > made", `success_criteria:
  - {type: run_command, command: "eval 'cmp made $TASK''_DIR/expected'", description: as expected}
`))
	s.write("t/expected", "42\n")
	row := "r/default/t/00"
	s.podgrade(0, "run", "t/task.yaml", "--run-dir", "r")
	before := string(s.fields(row + "/task.json")["environment_info"])
	printsAll(t, before, `"podgrade_graded_task_dir_digest":"`)

	s.write("t/expected", "43\n")
	_, stderr := s.podgrade(1, "evaluate", row)
	printsAll(t, stderr, "warning: the verdict is another one than before, and the task directory holds something else than then")
	_, stderr = s.podgrade(1, "evaluate", row)
	if strings.Contains(stderr, "another one than before") {
		t.Errorf("the same verdict:\n%s", stderr)
	}
	s.write("t/expected", "42\n")
	s.podgrade(0, "evaluate", row)
	if now := string(s.fields(row + "/task.json")["environment_info"]); strings.Contains(now, "graded_without_task_dir") {
		t.Errorf("it had its task directory: %s", now)
	}

	if err := os.Rename(s.path("t"), s.path("elsewhere")); err != nil {
		t.Fatal(err)
	}
	_, stderr = s.podgrade(1, "evaluate", row)
	printsAll(t, stderr, "which was made with a task directory, and this one without")
	now := string(s.fields(row + "/task.json")["environment_info"])
	printsAll(t, now, `"graded_without_task_dir":"`+s.path("t/task.yaml")+`"`)
	if strings.Contains(now, "task_dir_digest") {
		t.Errorf("it had none: %s", now)
	}
}

// A row that was finished before is named with its reasons, as one that is graded now,
// and a grade that failed is not said to need a resume alone.
func TestAResumeSaysWhyRowsDidNotPass(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.write("fails.yaml", sceneTask(t, "touch made", failing1))
	s.podgrade(1, "run", "fails.yaml", "--run-dir", "r")
	stdout, _ := s.podgrade(1, "run", "fails.yaml", "--run-dir", "r", "--resume")
	printsAll(t, stdout, "- default/t/00: FAILURE, score 0.500\n    - 0.000  file_exists  it is not there: ")
	s.write("ends.yaml", sceneTask(t, "exit 3", passing))
	s.podgrade(1, "run", "ends.yaml", "--run-dir", "e")
	stdout, _ = s.podgrade(1, "run", "ends.yaml", "--run-dir", "e", "--resume")
	printsAll(t, stdout, "it ended with exit code 3", "\n    - 0.000  run_command  it was made: ")

	s.write("outside.yaml", sceneTask(t, "true", "success_criteria:\n  - {type: file_exists, path: /etc/passwd, description: d}\n"))
	for _, more := range [][]string{nil, {"--resume"}} {
		stdout, _ = s.podgrade(1, append([]string{"run", "outside.yaml", "--run-dir", "o", "--junit-xml", "o.xml"}, more...)...)
		printsAll(t, stdout, "1 of 1 rows executed, and their grade failed; with what is said above mended")
		printsAll(t, s.text("o.xml"), `errors="1"`, "executed, not graded: ")
	}
}

// What an agent leaves running keeps its output open: that it has ended is said.
func TestAnAgentWhoseOutputIsHeldHasEnded(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.write("task.yaml", sceneTask(t, "(sleep 600 &); touch made", "run_limits: {turn_timeout: 10}\n"+failing1))
	stdout, _ := s.podgrade(1, "run", "task.yaml", "--run-dir", "r")
	printsAll(t, stdout, "the agent's turn had ended, and what it left running held its output for the 10s of turn_timeout")
}
