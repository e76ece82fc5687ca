package regrade

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"podgrade/isolation"
	"podgrade/tasks"
	"podgrade/tasks/record"
	"podgrade/tasks/record/fixture"
)

// TestWorkspaceStaysInsideTheRow is D-68: whatever record and row directory
// name, no tree outside of the row is graded.
func TestWorkspaceStaysInsideTheRow(t *testing.T) {
	t.Run("D-68: no tree outside of the row is graded", func(t *testing.T) {
		const recorded = `artifacts/byod_smoke_test"`
		tests := []struct {
			name string
			make func(c *rowCase, outside string)
			text string
		}{
			{"sandbox_path outside", func(c *rowCase, outside string) {
				c.edit(filepath.Join(c.dir, recorded), outside+`"`)
			}, "outside of the row"},
			{"sandbox_path with dots", func(c *rowCase, outside string) {
				c.edit(recorded, strings.Repeat("../", 30)+outside[1:]+`"`)
			}, "outside of the row"},
			{"sandbox_path is the row's parent", func(c *rowCase, _ string) {
				c.edit(recorded, `../"`)
			}, "outside of the row"},
			{"workspace is a link out", func(c *rowCase, outside string) {
				dir := filepath.Join(c.dir, "artifacts/byod_smoke_test")
				os.RemoveAll(dir)
				os.Symlink(outside, dir)
			}, "outside of the row"},
			{"artifacts is a link out", func(c *rowCase, outside string) {
				os.RemoveAll(filepath.Join(c.dir, "artifacts"))
				os.Mkdir(filepath.Join(outside, "byod_smoke_test"), 0o755)
				os.Symlink(outside, filepath.Join(c.dir, "artifacts"))
			}, "outside of the row"},
			{"the only child is a link out", func(c *rowCase, outside string) {
				os.RemoveAll(filepath.Join(c.dir, "artifacts/byod_smoke_test"))
				os.Symlink(outside, filepath.Join(c.dir, "artifacts/other"))
			}, "outside of the row"},
			{"task_id climbs", func(c *rowCase, _ string) {
				c.edit(`"task_id": "byod_smoke_test"`, `"task_id": "../../.."`)
				c.edit(filepath.Join(c.dir, recorded), `/gone"`)
				os.Mkdir(filepath.Join(c.dir, "artifacts/second"), 0o755)
			}, "2 directories"},
			{"a second tree behind many files", func(c *rowCase, _ string) {
				c.edit(`"task_id": "byod_smoke_test"`, `"task_id": "gone"`)
				c.edit(filepath.Join(c.dir, recorded), `/gone"`)
				for i := range 3000 {
					os.WriteFile(filepath.Join(c.dir, "artifacts", strconv.Itoa(i)), nil, 0o644)
				}
				os.Mkdir(filepath.Join(c.dir, "artifacts/second"), 0o755)
			}, "2 directories"},
			{"no artifacts", func(c *rowCase, _ string) {
				os.RemoveAll(filepath.Join(c.dir, "artifacts"))
			}, "--workspace"},
		}
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				c := newCase(t, fixture.Pinned, nil)
				test.make(c, t.TempDir())
				c.refused(Refused, test.text, false)
			})
		}
	})
}

func TestWorkspaceFound(t *testing.T) {
	const recorded = `artifacts/byod_smoke_test"`
	tests := []struct {
		name string
		make func(c *rowCase)
		want string
	}{
		{"recorded", func(*rowCase) {}, "artifacts/byod_smoke_test"},
		{"by the task's id", func(c *rowCase) { c.edit(recorded, `gone"`) }, "artifacts/byod_smoke_test"},
		{"the only child", func(c *rowCase) {
			c.edit(recorded, `gone"`)
			os.Rename(filepath.Join(c.dir, "artifacts/byod_smoke_test"), filepath.Join(c.dir, "artifacts/x"))
		}, "artifacts/x"},
		{"artifacts itself", func(c *rowCase) {
			c.edit(recorded, `gone"`)
			os.RemoveAll(filepath.Join(c.dir, "artifacts/byod_smoke_test"))
		}, "artifacts"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newCase(t, fixture.Pinned, nil)
			test.make(c)
			c.pass()
			if got := c.fake.orders[0].Workspace; got != filepath.Join(c.dir, test.want) {
				t.Errorf("graded %s", got)
			}
		})
	}
	c := newCase(t, fixture.Pinned, nil)
	c.options.Workspace = t.TempDir()
	graded := c.pass()
	if got := c.fake.orders[0].Workspace; got != c.options.Workspace {
		t.Errorf("--workspace: graded %s", got)
	}
	if got, want := stampText(graded), fmt.Sprintf("graded_with_other_workspace=%q", c.options.Workspace); got != want {
		t.Errorf("--workspace: stamps %s, want %s", got, want)
	}
	c.options.Workspace = filepath.Join(c.dir, "artifacts", ".", "byod_smoke_test")
	if got := stampText(c.pass()); got != "" {
		t.Errorf("--workspace names the record's own: stamps %s", got)
	}
	c.options.Workspace = "/dev/null"
	if _, err := c.grade(); KindOf(err) != User {
		t.Errorf("--workspace of no directory: %v", err)
	}
}

func TestUnreadableRecords(t *testing.T) {
	tests := []struct {
		name string
		make func(c *rowCase)
		kind Kind
		text string
	}{
		{"none", func(c *rowCase) { os.Remove(filepath.Join(c.dir, record.TaskFile)) }, User, "it has no record"},
		{"not JSON", func(c *rowCase) { c.edit(`{`, `[`) }, Refused, "JSON"},
		{"a key twice", func(c *rowCase) { c.edit(`"task_id"`, `"final_status": "SUCCESS", "task_id"`) }, Refused, "twice"},
		{"nested deep", func(c *rowCase) {
			c.edit(`"sdk_options": null`, `"sdk_options": `+strings.Repeat("[", 4000)+strings.Repeat("]", 4000))
		}, Refused, "deeper"},
		{"no task", func(c *rowCase) { c.edit(`"task_config": {`, `"task_config": null, "x": {`) }, Refused, "task_config"},
		{"an unknown status", func(c *rowCase) { c.edit(`"NOT_GRADED"`, `"\u001b[2JDONE"`) }, Refused, "final_status"},
		{"a task that is none", func(c *rowCase) {
			c.edit(`"type": "run_command"`, `"type": "magic"`)
			c.edit(`"source_yaml": "`, `"source_yaml_of_old": "`) // it would be graded by that
		}, Refused, "magic"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newCase(t, fixture.Pinned, nil)
			test.make(c)
			c.refused(test.kind, test.text, false)
			if _, err := c.grade(); strings.ContainsRune(err.Error(), 0x1b) {
				t.Errorf("an escape sequence reaches the terminal: %q", err)
			}
		})
	}
}

func TestRecordThatIsNoPlainFile(t *testing.T) {
	c := newCase(t, fixture.Pinned, nil)
	path := filepath.Join(c.dir, record.TaskFile)
	text := c.file(record.TaskFile)
	os.Remove(path)
	victim := filepath.Join(t.TempDir(), "victim")
	os.WriteFile(victim, []byte(text), 0o644)
	os.Symlink(victim, path)
	c.refused(Refused, "symbolic link", false)
	if data, _ := os.ReadFile(victim); string(data) != text {
		t.Error("a file outside of the row was changed")
	}
	os.Remove(path)
	syscall.Mkfifo(path, 0o644)
	row, err := record.OpenRow(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer row.Close()
	if _, err := Grade(t.Context(), row, c.options); KindOf(err) != Refused || !strings.Contains(err.Error(), "named pipe") {
		t.Errorf("a pipe: %v", err)
	}
}

// TestLogsThatAreLinks is D-39: a planted link is not followed, and the
// verdict stands.
func TestLogsThatAreLinks(t *testing.T) {
	t.Run("D-39: a planted link is not followed", func(t *testing.T) {
		c := newCase(t, fixture.Pinned, nil)
		victim := filepath.Join(t.TempDir(), "victim")
		os.WriteFile(victim, []byte("precious"), 0o644)
		for _, name := range []string{record.GradeLog, record.GradeCellLog, record.GradeCellFile, record.ExecuteFile} {
			os.Symlink(victim, filepath.Join(c.dir, name))
		}
		if v := c.pass(); v.Status != record.Success {
			t.Errorf("%s", v.Status)
		}
		if data, _ := os.ReadFile(victim); string(data) != "precious" {
			t.Errorf("a link was followed: %q", data)
		}
		for _, name := range []string{record.GradeLog, record.GradeCellLog, record.GradeCellFile} {
			if !strings.Contains(c.notice.String(), name) {
				t.Errorf("nothing is said about %s", name)
			}
		}
	})
}

func TestARecordThatCannotBeWritten(t *testing.T) {
	c := newCase(t, fixture.Pinned, nil)
	c.fake.run = func(*fakeCell, string, io.Writer) (isolation.Exit, error) {
		c.edit(`"setup_ms": 250.5`, `"setup_ms": 1.5`)
		return isolation.Exit{}, nil
	}
	_, err := c.grade()
	if KindOf(err) != Infrastructure || !strings.Contains(err.Error(), "the grade itself succeeded") {
		t.Errorf("%v", err)
	}
	if r := c.record(); r.Status != record.NotGraded {
		t.Error("what another process wrote was overwritten")
	}
}

func TestNothingOfARecordReachesTheTerminalRaw(t *testing.T) {
	evil := "\x1b[2J\u202eevil\r\x07\x00"
	c := newCase(t, fixture.Pinned, criteriaOf(runCommand("echo "+evil)))
	c.fake.run = func(_ *fakeCell, _ string, out io.Writer) (isolation.Exit, error) {
		io.WriteString(out, evil+"\xff\xfe")
		return isolation.Exit{Code: 1}, nil
	}
	c.pass()
	for name, text := range map[string]string{"notice": c.notice.String(), "log": c.file(record.GradeLog)} {
		if strings.ContainsAny(text, "\x1b\u202e\r\x07\x00") {
			t.Errorf("%s: %q", name, text)
		}
		if !strings.Contains(text, `\x1b[2J\u202eevil\r\x07\x00`) {
			t.Errorf("%s hides what is there: %q", name, text)
		}
	}
}

// TestARecordWritesNoLinesOfItsOwn: a description with line feeds must not
// look like a verdict of podgrade.
func TestARecordWritesNoLinesOfItsOwn(t *testing.T) {
	const forged = "a/b/00: NOT_GRADED -> + SUCCESS"
	escapes := fileExists("/etc/passwd")
	escapes.Description = "x\n" + forged
	lost := runCommand("x")
	lost.Description = "x\n" + forged
	pattern := &tasks.FileMatchesRegex{Base: base(tasks.TypeFileMatchesRegex, "x\n"+forged), Path: "a.txt", Pattern: `(?ai)(k)\1`, MustMatch: true}
	for name, criterion := range map[string]tasks.Criterion{"escapes": escapes, "lost": lost, "pattern": pattern} {
		t.Run(name, func(t *testing.T) {
			c := newCase(t, fixture.Pinned, criteriaOf(criterion))
			c.fake.run = func(*fakeCell, string, io.Writer) (isolation.Exit, error) {
				return isolation.Exit{}, isolation.ErrCellLost
			}
			_, err := c.grade()
			if err == nil || !strings.Contains(err.Error(), forged) {
				t.Fatalf("%v", err)
			}
			if strings.Contains(err.Error(), "\n"+forged) {
				t.Errorf("a line of the record's own: %v", err)
			}
			if !strings.Contains(err.Error(), ";") {
				t.Errorf("nothing to do is named: %v", err)
			}
		})
	}
}

func TestReferenceIsChecked(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a/b": "1", "a-b": "2", "c": "3", ".git/HEAD": "ref", "sub/.git": "gitdir"} {
		path := filepath.Join(dir, name)
		os.MkdirAll(filepath.Dir(path), 0o755)
		os.WriteFile(path, []byte(text), 0o644)
	}
	os.Symlink("/etc/passwd", filepath.Join(dir, "link"))
	digest, err := referenceDigest(dir)
	if err != nil {
		t.Fatal(err)
	}
	// printf 'a/b\0001\0a-b\0002\0c\0003\0' | sha256sum
	if want := "7bf6816efa3a21b15f4418b605c5e594cf17075fea7cca6157b2b590b1a1d738"; digest != want {
		t.Errorf("digest %s, want %s", digest, want)
	}
	with := func(recorded string) *rowCase {
		return newCase(t, fixture.Pinned, func(o *fixture.Order) {
			o.Change = func(task *tasks.Task) { task.Reference = &tasks.Reference{Directory: dir} }
			if recorded != "" {
				o.Environment = map[string]any{record.ReferenceDigest: recorded}
			}
		})
	}
	c := with(digest)
	c.pass()
	if got := c.fake.orders[0].Reference; got != dir {
		t.Errorf("the cell got %q", got)
	}
	if !strings.Contains(c.notice.String(), "path: "+dir) {
		t.Error("the reference is no grant")
	}
	c = with("")
	c.pass()
	if !strings.Contains(c.notice.String(), "no digest of the reference") {
		t.Error("no warning about a missing digest")
	}
	os.WriteFile(filepath.Join(dir, "c"), []byte("changed"), 0o644)
	with(digest).refused(Refused, "digest", false)
	os.RemoveAll(dir)
	with(digest).refused(Refused, "reference", false)
}

// TestTheTaskFileIsTheRows: a record that names another file would give its
// commands the directory of that file.
func TestTheTaskFileIsTheRows(t *testing.T) {
	other := filepath.Join(t.TempDir(), "other.yaml")
	os.WriteFile(other, []byte("task_id: other\n"), 0o644)
	for named, why := range map[string]string{"/etc/passwd": "use the recorded task file", other: `its task_id is "other"`} {
		c := newCase(t, fixture.Pinned, nil)
		config, err := c.record().TaskConfig()
		if err != nil {
			t.Fatal(err)
		}
		c.edit(config.SourceFile, named)
		c.refused(Refused, why, false)
	}
}

// TestReferenceIsBounded in directories too: they cost as much as files.
func TestReferenceIsBounded(t *testing.T) {
	dir := t.TempDir()
	for i := range 3 {
		os.MkdirAll(filepath.Join(dir, fmt.Sprint(i)), 0o755)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if files, err := referenceFiles(root, 3); err != nil || len(files) > 0 {
		t.Errorf("three directories: %v, %v", files, err)
	}
	if _, err := referenceFiles(root, 2); err == nil || !strings.Contains(err.Error(), "more than 2 files and directories") {
		t.Errorf("three directories of two: %v", err)
	}
}

func TestGapsAreSaid(t *testing.T) {
	c := newCase(t, fixture.Pinned, func(o *fixture.Order) {
		o.Files["node_modules/x"] = ""
		o.Change = func(task *tasks.Task) {
			task.Sandbox.Python = &tasks.Packages{EnvPackages: []string{"numpy"}}
			task.Sandbox.Node = &tasks.Packages{EnvPackages: []string{"left-pad"}}
		}
	})
	c.edit("coder-eval/tasks/byod_smoke_test.yaml", "nowhere.yaml")
	c.edit(`"skip": false`, `"skip": false, "from_the_future": 1`)
	c.pass()
	for _, want := range []string{"python packages", "no task directory", "from_the_future"} {
		if !strings.Contains(c.notice.String(), want) || !strings.Contains(c.file(record.GradeLog), want) {
			t.Errorf("nothing is said about %q: %s", want, c.notice.String())
		}
	}
	if strings.Contains(c.notice.String(), "node packages") {
		t.Error("a workspace with node_modules is called incomplete")
	}
}
