package regrade_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"podgrade/isolation"
	"podgrade/isolation/testimages"
	"podgrade/tasks"
	"podgrade/tasks/record"
)

// What an agent does to what lies around its workspace gives the row the verdict
// that follows from it. It is never the host's failure, which would be no
// verdict and a row to be run again: an agent could escape each grade so.
func TestWhatAnAgentLeavesIsGraded(t *testing.T) {
	for _, engine := range []string{isolation.EngineBundle, isolation.EnginePodman} {
		t.Run(engine, func(t *testing.T) {
			b := newBench(t, engine, testimages.Busybox())
			for i, name := range slices.Sorted(maps.Keys(leavings)) {
				c := leavings[name]
				if engine == isolation.EnginePodman && i%3 != 0 && os.Getenv("PODGRADE_TEST_SOAK") == "" {
					continue // the worker that puts files there is the same
				}
				t.Run(name, func(t *testing.T) {
					b := *b
					b.t = t
					leave(t, &b, c)
				})
			}
		})
	}
}

type leaving struct {
	line  string // of the agent
	state string // what the record says of the state
}

var leavings = map[string]leaving{
	// Where the reference will lie in the grade.
	"a link to the workspace":    {line: "ln -s /work/workspace /work/references"},
	"a link elsewhere":           {line: "mkdir /r && echo mine >/r/answer && ln -s /r /work/references"},
	"a link to itself":           {line: "ln -s references /work/references"},
	"a file":                     {line: "echo x >/work/references"},
	"a pipe":                     {line: "mkfifo /work/references"},
	"its places are moved away":  {line: "mv /work /gone && mkdir -p /opt && ln -s /opt /work"},
	"a link to the moved places": {line: "mv /work /gone && ln -s /gone/workspace /work"},
	// Who reads them would wait.
	"users in a pipe":  {line: "rm -f /etc/passwd && mkfifo /etc/passwd"},
	"groups in a pipe": {line: "rm -f /etc/group /tmp/x && mkfifo /tmp/x && ln -s ../tmp/x /etc/group"},
	"users in a link":  {line: "rm -f /etc/passwd && mkfifo /tmp/y && ln -s /tmp/y /etc/passwd"},
	// What nobody may enter.
	"a closed root":           {line: "chmod 0 /"},
	"a root of somebody else": {line: "chown 77:77 / && chmod 700 /"},
	"a closed task directory": {line: "chmod 0 /work/task_dir"},
	"its places are closed":   {line: "chmod 0 /work"},
	// What no layer can hold.
	"a file without end": {line: "truncate -s 100G /huge", state: record.StateDropped},
}

func leave(t *testing.T, b *bench, c leaving) {
	text := "task_id: leaves\ndescription: leaves things\n" + agentOf("echo mine >answer && "+c.line) + sealedBusybox + `reference: {directory: kept}
success_criteria:
  - {type: run_command, command: 'cmp -s $REFERENCE_DIR/answer answer; test $? = 1', description: the reference is not the agent's}
  - {type: run_command, command: 'grep -q theirs $REFERENCE_DIR/answer', description: it is the task's}
`
	r := b.executes(load(t, write(t, text, map[string]string{"kept/answer": "theirs\n"}), tasks.Request{}))
	if r.Status != record.NotGraded || !r.Gradable {
		t.Fatalf("executed as %s: %s", r.Status, r.Message)
	}
	if state := r.Record.Environment.Text(record.State); c.state != "" && state != c.state {
		t.Errorf("the state is %q", state)
	}
	verdict := r.grades()
	if verdict.Status != record.Success {
		t.Errorf("graded %s\n%s", verdict.Status, r.file(record.GradeLog))
	}
	if said := r.file(record.TaskLog); c.state != "" && !strings.Contains(said, "are not kept") {
		t.Errorf("nobody is told: %s", said)
	}
}
