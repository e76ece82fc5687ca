package regrade

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"podgrade/isolation"
	"podgrade/tasks"
	"podgrade/tasks/record"
	"podgrade/tasks/record/fixture"
)

// withPackages is a row whose task installs packages.
func withPackages(t *testing.T, form fixture.Form, info map[string]any) *rowCase {
	t.Helper()
	return newCase(t, form, func(o *fixture.Order) {
		o.Environment = info
		o.Change = func(task *tasks.Task) {
			task.Sandbox.Python = &tasks.Packages{EnvPackages: []string{"one", "two"}}
			task.Sandbox.Node = &tasks.Packages{EnvPackages: []string{"three"}}
		}
	})
}

// installed are the programs that installed something in the grade.
func installed(c *rowCase) string {
	var all []string
	for _, cell := range c.fake.cells {
		for _, command := range cell.ran {
			if line := strings.Join(command.Argv, " "); strings.Contains(line, " install ") || strings.Contains(line, " add ") || strings.Contains(line, " venv ") {
				all = append(all, line)
			}
		}
	}
	return strings.Join(all, "\n")
}

// TestOnlyWhatWasLostIsInstalledAgain (spec/regrade.md 1.5): of a row of
// coder-eval, and of one whose capture left something out and that has no state
// layer; what the agent removed stays removed.
func TestOnlyWhatWasLostIsInstalledAgain(t *testing.T) {
	captured := map[string]any{record.Version: "9", record.CaptureExcluded: 1}
	for name, test := range map[string]struct {
		form   fixture.Form
		info   map[string]any
		keeps  []string // directories that the workspace still has
		python bool
		node   bool
	}{
		"a row of coder-eval":              {fixture.Unpinned, nil, nil, true, true},
		"one that has its environment":     {fixture.Unpinned, nil, []string{venvDir}, false, true},
		"one that has all":                 {fixture.Unpinned, nil, []string{venvDir, nodeDir}, false, false},
		"a capture without a state layer":  {fixture.Pinned, captured, nil, true, true},
		"a workspace that the agent left":  {fixture.Pinned, map[string]any{record.Version: "9"}, nil, false, false},
		"what the agent left in the image": {fixture.Pinned, map[string]any{record.Version: "9", record.CaptureExcluded: 1, record.State: record.StateKept, record.StateDiffID: "sha256:1"}, nil, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := withPackages(t, test.form, test.info)
			c.fake.states = []string{"sha256:1"}
			for _, dir := range test.keeps {
				if err := os.Mkdir(filepath.Join(c.dir, record.ArtifactsDir, "byod_smoke_test", dir), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			c.pass()
			lines := installed(c)
			if strings.Contains(lines, "one two") != test.python || strings.Contains(lines, "three") != test.node || !test.python && strings.Contains(lines, "venv") {
				t.Errorf("installed:\n%s\n%s", lines, c.notice.String())
			}
			for text, want := range map[string]bool{"install one two": test.python, "install three": test.node} {
				if strings.Contains(c.notice.String(), text) != want {
					t.Errorf("the page names %q: %v\n%s", text, !want, c.notice.String())
				}
			}
		})
	}
}

// TestNoVerdictWithoutThePackages: a bare interpreter's verdict says nothing.
func TestNoVerdictWithoutThePackages(t *testing.T) {
	c := withPackages(t, fixture.Unpinned, nil)
	c.fake.run = func(cell *fakeCell, last string, _ io.Writer) (isolation.Exit, error) {
		if last == "two" {
			return isolation.Exit{Code: 1}, nil
		}
		return isolation.Exit{}, nil
	}
	c.refused(Infrastructure, "install again what the workspace has lost", true)
	if !strings.Contains(c.file(record.GradeLog), "one two") {
		t.Error("the log does not say what was tried")
	}
}
