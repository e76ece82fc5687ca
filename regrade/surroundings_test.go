package regrade

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"podgrade/oci"
	"podgrade/tasks"
	"podgrade/tasks/record"
	"podgrade/tasks/record/fixture"
)

func TestEnvironmentInACell(t *testing.T) {
	c := newCase(t, fixture.Pinned, func(o *fixture.Order) {
		o.Files["node_modules/.bin/x"] = ""
		o.Files[".venv/bin/python"] = ""
		o.Environment = map[string]any{record.CommandBasePath: "relative:/opt/agent/bin:/work/workspace/bin:/nowhere:/usr/bin"}
	})
	c.host["BEDROCK_MODEL"] = "m"
	c.host["AWS_REGION"] = "r"
	c.host["SECRET"] = "s"
	c.pass()
	got := c.fake.cells[0].env()
	want := map[string]string{
		"PATH":              "/work/workspace/node_modules/.bin:/work/workspace/.venv/bin:/opt/agent/bin:/usr/bin:/usr/bin:/bin",
		"VIRTUAL_ENV":       "/work/workspace/.venv",
		"NODE_PATH":         "",
		"NPM_CONFIG_PREFIX": "/work/workspace/.npm-prefix",
		"FROM_IMAGE":        "1",
		"HOME":              "/root",
		"BEDROCK_MODEL":     "m",
		"AWS_REGION":        "r",
		oci.EnvInContainer:  "1",
		oci.EnvTelemetry:    "false",
		oci.EnvTaskDir:      oci.TaskDirPath,
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %q, want %q", name, got[name], value)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s=%s was not expected", name, got[name])
		}
	}
	for _, entry := range c.fake.orders[0].Plan.Env {
		if strings.HasPrefix(entry, "BEDROCK_MODEL") {
			t.Error("a value of the host stands in the plan, and so in the record")
		}
	}
	if !strings.Contains(c.notice.String(), "variable: BEDROCK_MODEL") {
		t.Error("a variable that was passed on is not named")
	}
}

func TestEnvironmentOnTheHost(t *testing.T) {
	outside := t.TempDir()
	var inside string
	c := newCase(t, fixture.Pinned, func(o *fixture.Order) {
		inside = filepath.Join(o.Out, "default/byod_smoke_test/00/artifacts")
		o.Environment = map[string]any{record.CommandBasePath: strings.Join([]string{"bin", outside, inside, "/nowhere", "/usr/bin"}, ":")}
	})
	c.options.AllowHost = true
	c.host["BEDROCK_MODEL"] = "m"
	c.host["SECRET"] = "s"
	c.pass()
	got := c.fake.cells[0].env()
	if got["PATH"] != outside+":/usr/bin:/bin" {
		t.Errorf("PATH %s", got["PATH"])
	}
	if got["HOME"] != "/home/caller" || got["BEDROCK_MODEL"] != "m" || got[oci.EnvTaskDir] != "/private/task" {
		t.Errorf("environment %v", got)
	}
	for _, name := range []string{"SECRET", oci.EnvInContainer} {
		if _, ok := got[name]; ok {
			t.Errorf("%s reached a command on the host", name)
		}
	}
	if !strings.Contains(c.notice.String(), "search path: "+outside) {
		t.Errorf("the search path is no grant: %s", c.notice.String())
	}
}

func TestNoVenvWithoutAPythonBlock(t *testing.T) {
	c := newCase(t, fixture.Pinned, func(o *fixture.Order) {
		o.Files[".venv/bin/python"] = ""
		o.Change = func(task *tasks.Task) { task.Sandbox.Python = nil }
	})
	c.pass()
	if path := c.fake.cells[0].env()["PATH"]; strings.Contains(path, ".venv") {
		t.Errorf("PATH %s", path)
	}
}

// TestEvidenceIsNotTouched: grading opens the workspace for reading only.
func TestEvidenceIsNotTouched(t *testing.T) {
	c := newCase(t, fixture.Pinned, criteriaOf(fileExists("answer.txt"), runCommand("true")))
	workspace := filepath.Join(c.dir, "artifacts/byod_smoke_test")
	before := listing(t, workspace)
	c.pass()
	if after := listing(t, workspace); !slices.Equal(before, after) {
		t.Errorf("before %v\nafter %v", before, after)
	}
}

func listing(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		all = append(all, path+" "+info.Mode().String()+" "+info.ModTime().String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
