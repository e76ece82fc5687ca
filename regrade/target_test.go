package regrade

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"podgrade/tasks"
	"podgrade/tasks/record"
	"podgrade/tasks/record/fixture"
)

// A row is graded and counted once, by whatever paths it is named.
func TestARowThatIsNamedAgainIsOneTarget(t *testing.T) {
	row := newCase(t, fixture.Pinned, nil).dir
	run := filepath.Dir(filepath.Dir(filepath.Dir(row)))
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(row, link); err != nil {
		t.Fatal(err)
	}
	other := newCase(t, fixture.Pinned, nil).dir
	targets := Targets([]string{row, row + "/", link, run, run, "/no/such/row", other})
	if len(targets) != 3 || targets[0].Dir != row || targets[1].Dir != "/no/such/row" || targets[2].Dir != other {
		t.Errorf("%+v", targets)
	}
}

// The file of another task is called that, and not a change of every key.
func TestTheFileOfAnotherTaskIsNamed(t *testing.T) {
	dir := contentsOf(t)
	row := digestRow(t, dir, nil)
	config, err := record.NewTaskConfig(row.Task, row.File.Source, absolute(row.File.Path))
	if err != nil {
		t.Fatal(err)
	}
	info := record.NewObject()
	info.Set(record.RunDigest, "of the run")
	rec, err := record.New(record.Execution{TaskID: "a", Description: row.Task.Description, VariantID: row.Variant, AgentType: row.Task.Agent.Type,
		Started: time.Now(), Completed: time.Now(), Status: record.NotGraded, Environment: info, TaskConfig: config})
	if err != nil {
		t.Fatal(err)
	}
	other := digestRow(t, dir, map[string]string{"task_id: a": "task_id: b", "initial_prompt: prompt": "initial_prompt: other"})
	file := &GivenFile{path: "b.yaml", rows: []tasks.Row{other}}
	_, err = file.ForRow("row", rec)
	if err == nil || KindOf(err) != Refused || !strings.Contains(err.Error(), `the file is of the task "b", and the row of "a"; name the file of the row's task`) {
		t.Error(err)
	}
	same := digestRow(t, dir, map[string]string{"initial_prompt: prompt": "initial_prompt: other"})
	file = &GivenFile{path: "a.yaml", rows: []tasks.Row{same}}
	if _, err = file.ForRow("row", rec); err == nil || !strings.Contains(err.Error(), "executed with another initial_prompt;") {
		t.Error(err)
	}
}
