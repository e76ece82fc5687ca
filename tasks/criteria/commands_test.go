package criteria_test

import (
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"podgrade/tasks"
	"podgrade/tasks/criteria"
)

func text(s string) *string { return &s }

func number(n int) *int { return &n }

// running is a workspace whose commands print and exit.
func running(stdout string, code int) criteria.Surroundings {
	cell := newCell(nil)
	cell.run = printed(stdout, code)
	return criteria.Surroundings{Cell: cell}
}

// ending is a workspace whose commands end in a given way.
func ending(exit criteria.Exit) criteria.Surroundings {
	cell := newCell(nil)
	cell.run = func(criteria.Command) (criteria.Exit, error) { return exit, nil }
	return criteria.Surroundings{Cell: cell, NetworkWithheld: true}
}

func TestRunCommand(t *testing.T) { check(t, runCommandTable()) }

func runCommandTable() []expectation {
	run := func(change func(*tasks.RunCommand)) *tasks.RunCommand {
		c := &tasks.RunCommand{Base: common(tasks.TypeRunCommand), Command: "make test", Timeout: 30, StdoutMatch: "exact"}
		if change != nil {
			change(c)
		}
		return c
	}
	expecting := func(stdout, match string) *tasks.RunCommand {
		return run(func(c *tasks.RunCommand) { c.ExpectedStdout, c.StdoutMatch = &stdout, match })
	}
	scoring := run(func(c *tasks.RunCommand) { c.ScoreFromStdout = true })
	scoringThree := run(func(c *tasks.RunCommand) { c.ScoreFromStdout, c.ExpectedExitCode = true, 3 })
	long := strings.Repeat("é", 4001)
	timedOut := criteria.Exit{Code: 137, TimedOut: true, Stdout: output("0.7\n")}
	return []expectation{
		{name: "exit 0", criterion: run(nil), where: running("", 0), score: 1, details: "Command: make test\nExit code: 0 (expected 0)"},
		{name: "exit 1", criterion: run(nil), where: running("", 1)},
		{name: "expected exit code", criterion: run(func(c *tasks.RunCommand) { c.ExpectedExitCode = 3 }), where: running("", 3), score: 1},
		{name: "exact is trimmed", criterion: expecting(" ok ", "exact"), where: running("ok\r\n", 0), score: 1},
		{name: "exact differs", criterion: expecting("ok", "exact"), where: running("ok then", 0), details: "Expected stdout (exact): ok"},
		{name: "contains", criterion: expecting(" ok ", "contains"), where: running("all ok then", 0), score: 1},
		{name: "regex is not trimmed", criterion: expecting(`^ok$`, "regex"), where: running(" ok", 0)},
		{name: "regex searches", criterion: expecting(`\d+ passed`, "regex"), where: running("12 passed", 0), score: 1},
		{name: "bad regex is no match", criterion: expecting(`(`, "regex"), where: running("(", 0)},
		{name: "untranslatable regex", criterion: expecting(`(?ai:(a)\1)`, "regex"), where: running("", 0), author: "cannot translate"},
		{name: "stdout matches, exit code does not", criterion: expecting("ok", "exact"), where: running("ok", 1)},
		{name: "output is cut at 4000 characters", criterion: run(nil), where: running(long, 0), score: 1, details: strings.Repeat("é", 4000) + "... [1 more characters]"},
		{name: "invalid UTF-8 is replaced", criterion: expecting("a\ufffdb", "exact"), where: running("a\xffb", 0), score: 1},
		{name: "score", criterion: scoring, where: running("0.75\nmore", 0), score: 0.75},
		{name: "score of Python's float", criterion: scoring, where: running(" 1_0e-1 \n", 0), score: 1},
		{name: "score above 1", criterion: scoring, where: running("7", 0), score: 1},
		{name: "score below 0", criterion: scoring, where: running("-7", 0)},
		{name: "score with another exit code", criterion: scoring, where: running("0.75", 1), err: "Exit code 1, expected 0"},
		{name: "score with the expected exit code", criterion: scoringThree, where: running("0.75", 3), score: 0.75},
		{name: "score and exit 0, 3 expected", criterion: scoringThree, where: running("0.75", 0), err: "Exit code 0, expected 3"},
		{name: "score is no number", criterion: scoring, where: running("good\n0.5", 0), err: "no number: 'good'"},
		{name: "score of no output", criterion: scoring, where: running("", 0), err: "no number"},
		{name: "score NaN", criterion: scoring, where: running("nan", 0), err: "no finite number"},
		{name: "score infinity", criterion: scoring, where: running("inf", 0), err: "no finite number"},
		{name: "time-out", criterion: run(nil), where: ending(timedOut), details: "Command timed out after 30 seconds"},
		{name: "time-out scores nothing", criterion: scoring, where: ending(timedOut), err: "Exit code -1"},
		{name: "time-out and -1 expected", criterion: run(func(c *tasks.RunCommand) { c.ExpectedExitCode = -1 }), where: ending(timedOut), score: 1},
		{name: "no shell", criterion: run(nil), where: ending(criteria.Exit{NoShell: true, Code: 127}), err: "FileNotFoundError"},
		{name: "the command ends its cell", criterion: run(nil), where: ending(criteria.Exit{Code: 137, CellEnded: true}), details: "ended its own cell"},
		{name: "tried the network", criterion: run(nil), where: ending(criteria.Exit{Code: 6, NetworkAttempts: 4}), details: "tried to reach a network 4 times"},
		{name: "lost cell", criterion: run(nil), infra: "the cell is lost"},
		{name: "part of the output was dropped", criterion: expecting("a", "contains"), where: ending(criteria.Exit{Stdout: criteria.Output{Text: []byte("b"), Dropped: 9, Bytes: 10}}), details: "Only a part of the 10 bytes"},
	}
}

func TestRunCommandAsksTheCell(t *testing.T) {
	for name, row := range map[string]struct {
		seconds int
		want    time.Duration
	}{
		"seconds": {7, 7 * time.Second}, "none at all": {0, 1}, "negative": {-3, 1},
		"more than a duration holds": {10_000_000_000, 365 * 24 * time.Hour},
	} {
		where := running("", 0)
		c := &tasks.RunCommand{Base: common(tasks.TypeRunCommand), Command: "true", Timeout: row.seconds}
		if _, err := criteria.Check(t.Context(), []tasks.Criterion{exists("."), c}, where); err != nil {
			t.Fatal(err)
		}
		got := where.Cell.(*fakeCell).ran[0]
		if got.Line != "true" || got.Timeout != row.want || got.Label != "criterion 2" {
			t.Errorf("%s: the cell was asked for %+v", name, got)
		}
	}
}

// calls makes a trajectory of one turn.
func calls(list ...criteria.Call) criteria.Surroundings {
	return criteria.Surroundings{Trajectory: &criteria.Trajectory{Turns: []criteria.Turn{{Calls: list}}}}
}

func bash(command, status string) criteria.Call {
	parameters, _ := json.Marshal(map[string]string{"command": command})
	return criteria.Call{Tool: "Bash", Parameters: parameters, Status: status}
}

func tool(name, parameters string) criteria.Call {
	return criteria.Call{Tool: name, Parameters: json.RawMessage(parameters), Status: criteria.StatusSuccess}
}

func TestCommandExecuted(t *testing.T) { check(t, commandExecutedTable()) }

func commandExecutedTable() []expectation {
	of := func(change func(*tasks.CommandExecuted)) *tasks.CommandExecuted {
		c := &tasks.CommandExecuted{Base: common(tasks.TypeCommandExecuted), MinCount: 1}
		change(c)
		return c
	}
	pattern := func(wanted string) *tasks.CommandExecuted {
		return of(func(c *tasks.CommandExecuted) { c.CommandPattern = wanted })
	}
	where := calls(bash("git commit -m 'x y'", "success"), bash(`bash -lc "git 'push' origin"`, "error"), bash("echo 'open", "success"),
		tool("Write", `{"path": "a.txt", "text": "`+strings.Repeat("x", 1990)+`END"}`), tool("Odd", `[1]`))
	return []expectation{
		{name: "any call", criterion: of(func(c *tasks.CommandExecuted) {}), where: where, score: 1, details: "5 matching calls"},
		{name: "tool", criterion: of(func(c *tasks.CommandExecuted) { c.ToolName = "Bash" }), where: where, score: 1, details: "3 matching calls"},
		{name: "tool is exact", criterion: of(func(c *tasks.CommandExecuted) { c.ToolName = "bash" }), where: where},
		{name: "raw command", criterion: pattern(`-m 'x y'`), where: where, score: 1},
		{name: "normalised command", criterion: pattern(`^git push origin$`), where: where, score: 1},
		{name: "normalised quotes", criterion: pattern(`-m x y$`), where: where, score: 1},
		{name: "unparsable command", criterion: pattern(`'open`), where: where, score: 1},
		{name: "dot takes a line feed", criterion: pattern("a.b"), where: calls(bash("a\nb", "")), score: 1},
		{name: "parameters as JSON", criterion: pattern(`"path": "a.txt"`), where: where, score: 1},
		{name: "parameters beyond the window", criterion: pattern(`END`), where: where},
		{name: "command beyond the window", criterion: pattern(`END`), where: calls(bash(strings.Repeat("x", 3000)+"END", "")), score: 1},
		{name: "exclude", criterion: of(func(c *tasks.CommandExecuted) { c.CommandPattern, c.ExcludePattern = "git", "push" }), where: where, score: 1, details: "1 matching"},
		{name: "success", criterion: of(func(c *tasks.CommandExecuted) { c.CommandPattern, c.RequireSuccess = "push", true }), where: where},
		{name: "share of the minimum", criterion: of(func(c *tasks.CommandExecuted) { c.ToolName, c.MinCount = "Bash", 4 }), where: where, score: 0.75},
		{name: "no minimum", criterion: of(func(c *tasks.CommandExecuted) { c.ToolName, c.MinCount = "None", 0 }), where: where, score: 1},
		{name: "within bounds", criterion: of(func(c *tasks.CommandExecuted) { c.ToolName, c.MaxCount = "Bash", number(3) }), where: where, score: 1},
		{name: "above the maximum", criterion: of(func(c *tasks.CommandExecuted) { c.ToolName, c.MaxCount = "Bash", number(2) }), where: where},
		{name: "must not run", criterion: of(func(c *tasks.CommandExecuted) { c.CommandPattern, c.MinCount, c.MaxCount = "rm -rf", 0, number(0) }), where: where, score: 1},
		{name: "no trajectory", criterion: pattern("a"), err: "no trajectory"},
		{name: "bad pattern", criterion: pattern("("), where: where, err: "Invalid regular expression"},
	}
}

func TestCommandsEfficiency(t *testing.T) { check(t, commandsEfficiencyTable()) }

func commandsEfficiencyTable() []expectation {
	expected := &tasks.CommandsEfficiency{Base: common(tasks.TypeCommandsEfficiency), ExpectedCommands: 2}
	return []expectation{
		{name: "none", criterion: expected, where: calls(), score: 1},
		{name: "fewer", criterion: expected, where: calls(bash("a", "")), score: 1},
		{name: "more", criterion: expected, where: calls(bash("a", ""), bash("a", ""), bash("a", ""), tool("Read", "{}")), score: 0.5},
		{name: "no trajectory", criterion: expected, err: "no trajectory"},
	}
}

func TestSkillTriggered(t *testing.T) { check(t, skillTriggeredTable()) }

func skillTriggeredTable() []expectation {
	of := func(name, expected string) *tasks.SkillTriggered {
		return &tasks.SkillTriggered{Base: common(tasks.TypeSkillTriggered), SkillName: name, ExpectedSkill: expected}
	}
	return []expectation{
		{name: "tool", criterion: of("pdf", "pdf"), where: calls(tool("Skill", `{"skill": "pdf"}`)), score: 1},
		{name: "tool with a plugin", criterion: of("pdf", "pdf"), where: calls(tool("Skill", `{"skill": "office:pdf"}`)), score: 1},
		{name: "another skill", criterion: of("pdf", "pdf"), where: calls(tool("Skill", `{"skill": "pdf2"}`))},
		{name: "path", criterion: of("pdf", "pdf"), where: calls(tool("Read", `{"file": "/x/skills/pdf/SKILL.md"}`)), score: 1},
		{name: "path with backslashes", criterion: of("pdf", "pdf"), where: calls(tool("Read", `{"file": "c:\\skills\\\\pdf\\a"}`)), score: 1},
		{name: "path of another", criterion: of("pdf", "pdf"), where: calls(tool("Read", `{"file": "/x/skills/pdfs/SKILL.md"}`))},
		{name: "not used and not expected", criterion: of("pdf", ""), where: calls(bash("ls", "")), score: 1},
		{name: "used and not expected", criterion: of("pdf", ""), where: calls(tool("Skill", `{"skill": "pdf"}`)), details: "expected: no"},
		{name: "name that no path can have", criterion: of("p.f", "p.f"), where: calls(tool("Read", `{"file": "skills/p.f/x"}`))},
		{name: "no trajectory", criterion: of("pdf", "pdf"), err: "no trajectory"},
	}
}

func TestCLICalled(t *testing.T) { check(t, cliCalledTable()) }

func cliCalledTable() []expectation {
	of := func(change func(*tasks.CLICalled)) *tasks.CLICalled {
		c := &tasks.CLICalled{Base: common(tasks.TypeCLICalled), Log: "cli_mocks/calls.jsonl", MinCount: 1, IgnoreFlags: []string{"output"}}
		c.ValueFlags = []string{"output"}
		change(c)
		return c
	}
	flag := func(name string, p tasks.FlagPredicate) *tasks.CLICalled {
		return of(func(c *tasks.CLICalled) { c.Flags = map[string]tasks.FlagPredicate{name: p} })
	}
	log := func(lines ...string) criteria.Surroundings {
		return criteria.Surroundings{Cell: newCell(map[string]string{"cli_mocks/calls.jsonl": strings.Join(lines, "\n")})}
	}
	argv := func(words ...string) criteria.Surroundings {
		line, _ := json.Marshal(map[string]any{"tool": "uip", "argv": words, "exit": 0})
		return log(string(line), "")
	}
	verb := of(func(c *tasks.CLICalled) { c.Verb = "projects list" })
	linked := func(end string) criteria.Surroundings {
		where := log(`{"tool": "uip", "argv": ["projects", "list"]}`)
		where.Cell.(*fakeCell).add("cli_mocks/calls.jsonl"+end, fakeFile{kind: criteria.Symlink, target: "/etc/passwd"})
		return where
	}
	failed := log(`{"argv": []}`)
	failed.Cell.(*fakeCell).add("cli_mocks/calls.jsonl.error", fakeFile{kind: criteria.Regular})
	return []expectation{
		{name: "verb", criterion: verb, where: argv("projects", "list", "x"), score: 1},
		{name: "verb behind a value flag", criterion: verb, where: argv("--output", "json", "projects", "list"), score: 1},
		{name: "verb behind a switch", criterion: verb, where: argv("--quiet", "projects", "list"), score: 1},
		{name: "verb too short", criterion: verb, where: argv("projects")},
		{name: "one of several verbs", criterion: of(func(c *tasks.CLICalled) { c.VerbAnyOf = []string{"a b", "projects list"} }), where: argv("projects", "list"), score: 1},
		{name: "positional", criterion: of(func(c *tasks.CLICalled) { c.Verb, c.Positional = "get", []string{"x", "y"} }), where: argv("get", "x", "--", "y", "-z"), score: 1},
		{name: "dash is positional", criterion: of(func(c *tasks.CLICalled) { c.Positional = []string{"-"} }), where: argv("-"), score: 1},
		{name: "negative number is positional", criterion: of(func(c *tasks.CLICalled) { c.Positional = []string{"-1.5"} }), where: argv("-1.5"), score: 1},
		{name: "tool", criterion: of(func(c *tasks.CLICalled) { c.Tool = "uip" }), where: argv("x"), score: 1},
		{name: "another tool", criterion: of(func(c *tasks.CLICalled) { c.Tool = "git" }), where: argv("x")},
		{name: "equals", criterion: flag("name", tasks.FlagPredicate{Equals: text("-v")}), where: argv("--name", "-v"), score: 1},
		{name: "bound with =", criterion: flag("name", tasks.FlagPredicate{Equals: text("a=b")}), where: argv("--name=a=b"), score: 1},
		{name: "repeated", criterion: flag("name", tasks.FlagPredicate{Equals: text("b")}), where: argv("--name", "a", "--name", "b"), score: 1},
		{name: "contains", criterion: flag("name", tasks.FlagPredicate{Contains: text("bc")}), where: argv("--name", "abcd"), score: 1},
		{name: "regex", criterion: flag("name", tasks.FlagPredicate{MatchesRegex: text("^A"), Flags: 2}), where: argv("--name", "abcd"), score: 1},
		{name: "any of", criterion: flag("name", tasks.FlagPredicate{AnyOf: []string{"x", "y"}}), where: argv("--name", "y"), score: 1},
		{name: "present", criterion: flag("force", tasks.FlagPredicate{Present: true}), where: argv("--force", "x"), score: 1},
		{name: "not present", criterion: flag("force", tasks.FlagPredicate{Present: true}), where: argv("x")},
		{name: "absent", criterion: flag("force", tasks.FlagPredicate{Absent: true}), where: argv("x"), score: 1},
		{name: "not absent", criterion: flag("force", tasks.FlagPredicate{Absent: true}), where: argv("--force")},
		{name: "alias", criterion: flag("name", tasks.FlagPredicate{Equals: text("b"), Aliases: []string{"n"}}), where: argv("-n", "b"), score: 1},
		{name: "letters", criterion: flag("x", tasks.FlagPredicate{Present: true}), where: argv("-ax"), score: 1},
		{name: "letters with a value", criterion: flag("n", tasks.FlagPredicate{Equals: text("5")}), where: argv("-n5"), score: 1},
		{name: "declared long name behind one dash", criterion: flag("name", tasks.FlagPredicate{Equals: text("b")}), where: argv("-name", "b"), score: 1},
		{name: "value flag at the end", criterion: flag("name", tasks.FlagPredicate{Equals: text("")}), where: argv("--name"), score: 1},
		{name: "count above the maximum", criterion: of(func(c *tasks.CLICalled) { c.Tool, c.MaxCount = "uip", number(0); c.MinCount = 0 }), where: argv("x")},
		{name: "no calls and none wanted", criterion: of(func(c *tasks.CLICalled) { c.Verb, c.MaxCount, c.MinCount = "rm", number(0), 0 }), where: log(""), score: 1},
		{name: "log missing", criterion: verb, err: "no log of calls"},
		{name: "log failed", criterion: verb, where: failed, err: "could not be logged"},
		{name: "log failed, behind a link", criterion: verb, where: linked(".error"), err: "could not be logged"},
		{name: "log behind a link outside", criterion: verb, where: linked(""), err: "A link leads out of the sandbox"},
		{name: "no JSON", criterion: verb, where: log("{"), err: "line 1 is no JSON"},
		{name: "no object", criterion: verb, where: log(`{"argv": []}`, "[]"), err: "line 2 is no JSON object"},
		{name: "argv is no list", criterion: verb, where: log(`{"argv": "x"}`), err: "no argv"},
		{name: "argv of numbers", criterion: verb, where: log(`{"argv": [1]}`), err: "no string"},
		{name: "sidecar error", criterion: verb, where: log(`{"argv": [], "sidecar_error": "x"}`), err: "sidecar_error"},
		{name: "rule error scores 0", criterion: verb, where: log(`{"argv": [], "rule_error": "x"}`), err: "rule_error"},
		{name: "log outside", criterion: of(func(c *tasks.CLICalled) { c.Log = "/etc/passwd" }), author: "outside of the sandbox"},
	}
}

// TestReferenceComparison runs the script by the python3 of this machine.
func TestReferenceComparison(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Fatalf("this test needs python3: apt-get install python3 (%v)", err)
	}
	of := func(method string) *tasks.ReferenceComparison {
		return &tasks.ReferenceComparison{Base: common(tasks.TypeReferenceComparison), AgentFile: "a.py", ReferenceFile: "r.py", ComparisonMethod: method, SimilarityThreshold: 0.8}
	}
	where := func(agent, reference string) criteria.Surroundings {
		dir := t.TempDir()
		write(t, dir+"/a.py", agent)
		write(t, dir+"/r.py", reference)
		cell := newCell(map[string]string{"a.py": agent})
		cell.run = shellIn(dir)
		return criteria.Surroundings{Cell: cell, Reference: newCell(map[string]string{"r.py": reference}), ReferencePath: dir}
	}
	code := "def f(x):\n    return x + 1\n"
	lost := where(code, code)
	lost.Cell.(*fakeCell).run = printed("", 127)
	taken, never := lost, lost
	taken.TakenAway = func(program string) string { return "/usr/bin/" + program }
	never.TakenAway = func(string) string { return "" }
	unreferenced := where(code, code)
	unreferenced.Reference = nil
	other := where(code, code)
	other.Reference = newCell(nil)
	junk := where(code, code)
	junk.Cell.(*fakeCell).run = printed(`{"names": ["a"], "files": [[0], [7]]}`, 0)
	check(t, []expectation{
		{name: "same", criterion: of("ast"), where: where(code, code), score: 1},
		{name: "other names are the same tree", criterion: of("ast"), where: where(strings.ReplaceAll(code, "x", "y"), code), score: 1},
		{name: "half", criterion: of("ast"), where: where("pass\n", "pass\npass\npass\n"), score: 2 * 2.0 / 6, details: "Similarity by ast: 0.667, needed: 0.800"},
		{name: "tokens", criterion: of("token"), where: where("x = 1\n", "y = 'b'\n"), score: 2 * 4.0 / 10},
		{name: "unparsable agent file", criterion: of("ast"), where: where("def", code), err: "SyntaxError"},
		{name: "unparsable reference", criterion: of("ast"), where: where(code, "def"), author: "SyntaxError"},
		{name: "missing agent file", criterion: of("ast"), where: criteria.Surroundings{Reference: newCell(nil)}, err: "File not found"},
		{name: "missing reference file", criterion: of("ast"), where: other, author: "does not exist"},
		{name: "no reference directory", criterion: of("ast"), where: unreferenced, author: "no reference directory"},
		{name: "no python3", criterion: of("ast"), where: lost, author: "needs python3"},
		{name: "python3 that the agent took away", criterion: of("ast"), where: taken, err: "although the image has it (/usr/bin/python3)"},
		{name: "python3 that the image never had", criterion: of("ast"), where: never, author: "needs python3"},
		{name: "complexity", criterion: of("complexity"), where: where(code, code), author: "not offered"},
		{name: "python3 that lies", criterion: of("ast"), where: junk, err: "something else than the comparison"},
	})
	results, err := criteria.Check(t.Context(), []tasks.Criterion{of("ast")}, where(code, code))
	if err != nil || results[0].PassThreshold != 0.8 {
		t.Errorf("pass_threshold is %v (%v), want similarity_threshold", results[0].PassThreshold, err)
	}
}

// shellIn runs commands by the shell of this machine in a directory.
func shellIn(dir string) func(criteria.Command) (criteria.Exit, error) {
	return func(command criteria.Command) (criteria.Exit, error) {
		c := exec.CommandContext(context.Background(), "sh", "-c", command.Line)
		c.Dir = dir
		stdout, err := c.Output()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			return criteria.Exit{}, err
		}
		return criteria.Exit{Code: c.ProcessState.ExitCode(), Stdout: output(string(stdout))}, nil
	}
}

func TestUiPathEval(t *testing.T) {
	of := func(thresholds map[string]float64) *tasks.UiPathEval {
		return &tasks.UiPathEval{Base: common(tasks.TypeUiPathEval), AgentName: "main", EvalSet: "it's.json", Thresholds: thresholds}
	}
	where := func(results string, code int) criteria.Surroundings {
		cell := newCell(map[string]string{"__uipath/podgrade-eval.json": results})
		cell.run = printed("", code)
		return criteria.Surroundings{Cell: cell}
	}
	nested := `{"evaluationSetResults": [{"evaluationRunResults": [{"evaluatorName": "exact", "result": {"score": 1}}, {"evaluatorId": "id", "result": {"score": false}}]},
		{"evaluationRunResults": [{"evaluatorName": "exact", "result": {"score": 0.5}}]}]}`
	check(t, []expectation{
		{name: "met and not met", criterion: of(map[string]float64{"exact": 0.75, "id": 0.1, "none": 0}), where: where(nested, 0), score: 1.0 / 3, details: "none: not measured"},
		{name: "flat", criterion: of(map[string]float64{"exact": 0.5}), where: where(`{"exact": 0.5}`, 0), score: 1},
		{name: "no thresholds", criterion: of(nil), where: where(`{}`, 0), score: 1},
		{name: "failed", criterion: of(nil), where: where(``, 3), err: "exit code 3"},
		{name: "no CLI", criterion: of(nil), where: where(``, 127), author: "needs the uipath CLI"},
		{name: "no JSON", criterion: of(nil), where: where(`x`, 0), err: "JSONDecodeError"},
		{name: "no object", criterion: of(nil), where: where(`[]`, 0), err: "ValueError"},
		{name: "no results", criterion: of(nil), where: running("", 0), err: "FileNotFoundError"},
	})
}
