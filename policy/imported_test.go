package policy_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"podgrade/oci"
	"podgrade/policy"
	"podgrade/tasks"
)

// importedRequest is of a task with a command and a reference, whose record says
// where an import put both.
func importedRequest(t *testing.T, taskDir, reference string) policy.Request {
	t.Helper()
	run, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(run, "imported")
	for _, name := range []string{"imported/task", "imported/key", "artifacts/task"} {
		if err := os.MkdirAll(filepath.Join(run, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("/etc", filepath.Join(dir, "out")), os.Symlink("../artifacts/task", filepath.Join(dir, "agents"))); err != nil {
		t.Fatal(err)
	}
	return policy.Request{
		Task: &tasks.Task{
			TaskID: "t", Reference: &tasks.Reference{Directory: "/etc"},
			SuccessCriteria: tasks.Criteria{&tasks.RunCommand{Base: tasks.Common{Type: tasks.TypeRunCommand, Description: "d"}, Command: "true"}},
		},
		Phase: oci.Grade, Place: policy.OnHost, HostAllowed: true, TaskFile: "/etc/passwd", RunDir: run,
		Imported: policy.Imported{Dir: dir, TaskDir: taskDir, Reference: reference},
		Lookup:   func(string) (string, bool) { return "", false },
	}
}

// What a record says of imported directories leads to an entry of the one place
// where imports are put, which is disclosed, and nowhere else.
func TestImportedDirectoriesAreEntriesOfTheirPlace(t *testing.T) {
	r := importedRequest(t, "task", "key")
	accepted, err := policy.Consent(r, policy.Answer{RecordedCommands: true}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if accepted.TaskDir() != filepath.Join(r.Imported.Dir, "task") || accepted.Reference() != filepath.Join(r.Imported.Dir, "key") {
		t.Errorf("%q, %q", accepted.TaskDir(), accepted.Reference())
	}
	for _, dir := range []string{accepted.TaskDir(), accepted.Reference()} {
		if !slices.ContainsFunc(accepted.Grants(), func(g policy.Grant) bool { return g.Kind == policy.Path && g.Value == dir }) {
			t.Errorf("%s is not disclosed", dir)
		}
	}
	for _, bad := range []string{"..", ".", "/etc", "../artifacts/task", "task/..", "task/../../..", "./task", "out", "agents", "gone", "task/", "task\x00"} {
		for name, r := range map[string]policy.Request{"task directory": importedRequest(t, bad, "key"), "reference": importedRequest(t, "task", bad)} {
			_, err := policy.Consent(r, policy.Answer{RecordedCommands: true}, io.Discard)
			var refused *policy.Refusal
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "podgrade import") {
				t.Errorf("the %s %q: %v", name, bad, err)
			}
		}
	}
	// A task file of the operator's own has a directory of its own.
	r = importedRequest(t, "out", "out")
	r.Given = true
	if grants, err := policy.Grants(r); err != nil || !slices.ContainsFunc(grants, func(g policy.Grant) bool { return g.Value == "/etc" }) {
		t.Errorf("%v, %v", grants, err)
	}
}

// An export reads what the record names only when somebody has accepted that.
func TestNothingIsCarriedWithoutConsent(t *testing.T) {
	r := importedRequest(t, "task", "key")
	_, err := policy.ConsentToCarry(r, policy.Answer{RecordedCommands: true}, io.Discard)
	var refused *policy.Refusal
	if !errors.As(err, &refused) || len(refused.Grants) != 2 || !strings.Contains(err.Error(), "--allow-recorded-paths") {
		t.Fatal(err)
	}
	var notice strings.Builder
	carried, err := policy.ConsentToCarry(r, policy.Answer{RecordedPaths: true}, &notice)
	if err != nil || carried.TaskDir != filepath.Join(r.Imported.Dir, "task") || carried.Reference != filepath.Join(r.Imported.Dir, "key") {
		t.Errorf("%+v, %v", carried, err)
	}
	for _, dir := range []string{carried.TaskDir, carried.Reference} {
		if !strings.Contains(notice.String(), dir) {
			t.Errorf("%s is not among %s", dir, notice.String())
		}
	}
	if accepted, err := policy.Consent(r, policy.Answer{RecordedPaths: true}, io.Discard); err == nil && accepted.Runs() {
		t.Error("who lets directories be read lets nothing run")
	}
	r.SignedBy = policy.Own
	if _, err := policy.ConsentToCarry(r, policy.Answer{}, io.Discard); !errors.As(err, &refused) {
		t.Errorf("a signature lets directories travel: %v", err)
	}
	r.Task.SuccessCriteria, r.Task.Reference = nil, nil
	if carried, err := policy.ConsentToCarry(r, policy.Answer{}, io.Discard); err != nil || carried != (policy.Carried{}) {
		t.Errorf("%+v, %v", carried, err)
	}
}
