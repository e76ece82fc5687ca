package criteria_test

import (
	"regexp"
	"strings"
	"sync"
	"testing"

	"podgrade/tasks"
	"podgrade/tasks/criteria"
)

// uip is a recorded command with rules of every kind.
func uip() tasks.RecordCLI {
	regex, equals := `^v(?P<major>\d+)$`, "json"
	rule := func(change func(*tasks.CLIRule)) tasks.CLIRule {
		r := tasks.CLIRule{CLIMatch: tasks.CLIMatch{ValueFlags: []string{"output"}}}
		change(&r)
		return r
	}
	return tasks.RecordCLI{Tool: "uip", ExitCode: 1, Stderr: "no such command\n", Responses: []tasks.CLIResponse{
		{When: rule(func(r *tasks.CLIRule) {
			r.Verb, r.Flags = "projects list", map[string]tasks.FlagPredicate{"output": {Equals: &equals}}
		}), Stdout: "[]\n"},
		{When: rule(func(r *tasks.CLIRule) { r.VerbAnyOf = []string{"projects list", "projects ls"} }), Stdout: "none\n"},
		{When: rule(func(r *tasks.CLIRule) {
			r.Flags = map[string]tasks.FlagPredicate{"release": {MatchesRegex: &regex}}
		}), ExitCode: 7, Stderr: "broken\n"},
	}}
}

func TestRecorderAnswers(t *testing.T) {
	r, err := criteria.NewRecorder([]tasks.RecordCLI{uip(), {Tool: "kubectl", ExitCode: 1}})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		tool, argv string
		want       criteria.RecordedReply
		line       string
	}{
		{"uip", "projects list --output json", criteria.RecordedReply{Stdout: "[]\n"}, `"argv": ["projects", "list", "--output", "json"], "exit": 0, "rule": 0}`},
		{"uip", "projects list", criteria.RecordedReply{Stdout: "none\n"}, `"exit": 0, "rule": 1}`},
		{"uip", "projects ls x", criteria.RecordedReply{Stdout: "none\n"}, `"rule": 1}`},
		{"uip", "deploy --release v12", criteria.RecordedReply{Exit: 7, Stderr: "broken\n"}, `"exit": 7, "rule": 2}`},
		{"uip", "deploy --release 12", criteria.RecordedReply{Exit: 1, Stderr: "no such command\n"}, `"exit": 1}`},
		{"uip", "", criteria.RecordedReply{Exit: 1, Stderr: "no such command\n"}, `"argv": [], "exit": 1}`},
		{"kubectl", "a\xffb ä", criteria.RecordedReply{Exit: 1}, `"argv": ["a\ufffdb", "\u00e4"], "exit": 1}`},
	} {
		got := r.Call(test.tool, strings.Fields(test.argv), "")
		if !strings.HasSuffix(got.Line, test.line) || !regexp.MustCompile(`^\{"ts": "\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00", "tool": "`+test.tool+`", "argv": \[`).MatchString(got.Line) {
			t.Errorf("%s %s is logged as %s", test.tool, test.argv, got.Line)
		}
		got.Line = ""
		if got != test.want {
			t.Errorf("%s %s: %+v, want %+v", test.tool, test.argv, got, test.want)
		}
	}
	if got := r.Call("other", nil, ""); got.Exit != 127 || got.Line != "" {
		t.Errorf("a command that is not recorded: %+v", got)
	}
	if n := strings.Count(r.Log(), "\n"); n != 7 {
		t.Errorf("%d lines in the log", n)
	}
}

// What the recorder logs is what the criterion reads.
func TestRecorderLogIsReadByTheCriterion(t *testing.T) {
	r, err := criteria.NewRecorder([]tasks.RecordCLI{uip()})
	if err != nil {
		t.Fatal(err)
	}
	where := func() criteria.Surroundings {
		return criteria.Surroundings{Cell: newCell(map[string]string{"cli_mocks/calls.jsonl": r.Log()})}
	}
	counts := func(n int) *tasks.CLICalled {
		c := &tasks.CLICalled{Base: common(tasks.TypeCLICalled), Log: "cli_mocks/calls.jsonl", MinCount: n, MaxCount: &n}
		c.Tool = "uip"
		return c
	}
	none := where()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { r.Call("uip", []string{"projects", "list\n\"\xff"}, "") })
	}
	all.Wait()
	twenty := where()
	r.Call("uip", nil, "its arguments are too long")
	check(t, []expectation{
		{name: "no call", criterion: counts(0), where: none, score: 1, details: "0 of 0"},
		{name: "calls", criterion: counts(20), where: twenty, score: 1, details: "20 of 20"},
		{name: "a call that is not whole", criterion: counts(21), where: where(), details: "sidecar_error", err: "sidecar_error"},
	})
}

func TestRecorderLogHasAnEnd(t *testing.T) {
	r, err := criteria.NewRecorder([]tasks.RecordCLI{uip()})
	if err != nil {
		t.Fatal(err)
	}
	for range 40 {
		r.Call("uip", []string{strings.Repeat("x", 1<<20)}, "")
	}
	lines := strings.Split(strings.TrimSuffix(r.Log(), "\n"), "\n")
	if last := lines[len(lines)-1]; len(r.Log()) > 33<<20 || !strings.Contains(last, "sidecar_error") || len(lines) > 33 {
		t.Errorf("%d bytes, %d lines, the last is %.100s", len(r.Log()), len(lines), last)
	}
}

func TestRecorderRefuses(t *testing.T) {
	entry := uip()
	entry.Responses[0].Stdout = strings.Repeat("x", 100<<10)
	if _, err := criteria.NewRecorder([]tasks.RecordCLI{entry}); err == nil || !strings.Contains(err.Error(), "uip") {
		t.Errorf("an answer that is too long: %v", err)
	}
	entry, bad := uip(), "("
	entry.Responses[2].When.Flags["release"] = tasks.FlagPredicate{MatchesRegex: &bad}
	if _, err := criteria.NewRecorder([]tasks.RecordCLI{entry}); err == nil || !strings.Contains(err.Error(), "responses[2]") {
		t.Errorf("a rule that is none: %v", err)
	}
}
