package agents_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"podgrade/tasks"
	"podgrade/tasks/agents"
)

// run starts what an agent asks for, here and not in a cell.
func run(t *testing.T, r agents.Request, kind string) (agents.Turn, error) {
	t.Helper()
	agent, err := agents.For(kind)
	if err != nil {
		t.Fatal(err)
	}
	r.Shell, r.Dir = "/bin/sh", t.TempDir()
	start, err := agent.Start(r)
	if err != nil {
		return agents.Turn{}, err
	}
	for _, f := range start.Files {
		if err := os.WriteFile(filepath.Join(r.Dir, f.Name), f.Content, os.FileMode(f.Mode)); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command(start.Argv[0], start.Argv[1:]...)
	c.Env, c.Stdin = append(os.Environ(), start.Env...), strings.NewReader(string(start.Stdin))
	out, err := c.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return agent.Turn(agents.Output{Stdout: out, Code: c.ProcessState.ExitCode()}), nil
}

func TestACommandGetsItsPrompt(t *testing.T) {
	const prompt = "say 'it' $(rm -rf /tmp/never) \"now\"\n"
	for way, line := range map[string]string{
		"":                   "cat",
		tasks.PromptStdin:    "cat",
		tasks.PromptArgument: "printf %s",
		tasks.PromptFile:     `cat "$PROMPT_FILE"`,
	} {
		turn, err := run(t, agents.Request{Prompt: prompt, Command: line, Way: way}, tasks.CommandLine)
		if err != nil || turn.Text != prompt || turn.Replies != 1 || turn.Crash != "" {
			t.Errorf("%q: %+v, %v", way, turn, err)
		}
	}
}

func TestACommandThatFailsBreaksItsTurnOff(t *testing.T) {
	turn, err := run(t, agents.Request{Command: "echo half; exit 3"}, tasks.CommandLine)
	if err != nil || turn.Text != "half\n" || !strings.Contains(turn.Crash, "3") {
		t.Errorf("%+v, %v", turn, err)
	}
}

func TestAPromptThatIsNoArgumentIsRefused(t *testing.T) {
	for _, prompt := range []string{strings.Repeat("x", 128<<10), "a\x00b"} {
		_, err := run(t, agents.Request{Prompt: prompt, Command: "echo", Way: tasks.PromptArgument}, tasks.CommandLine)
		if err == nil || !strings.Contains(err.Error(), "stdin") {
			t.Error(err)
		}
	}
}

func TestTheOracleRunsTheSolutionByItsFirstLine(t *testing.T) {
	for script, want := range map[string]string{
		"echo plain $0":                 "plain",
		"#!/bin/sh\necho own":           "own",
		"#!/bin/cat\nas it stands":      "as it stands",
		"#!/bin/sh\necho early\nexit 1": "early",
	} {
		turn, err := run(t, agents.Request{Script: []byte(script)}, tasks.Oracle)
		if err != nil || !strings.Contains(turn.Text, want) || (turn.Crash != "") != strings.Contains(script, "exit 1") {
			t.Errorf("%q: %+v, %v", script, turn, err)
		}
	}
	if _, err := run(t, agents.Request{}, tasks.Oracle); err == nil {
		t.Error("no solution, and no error")
	}
}

func TestNoAgentStartsNothing(t *testing.T) {
	agent, err := agents.For(tasks.NoAgent)
	if err != nil {
		t.Fatal(err)
	}
	if start, err := agent.Start(agents.Request{}); start != nil || err != nil {
		t.Errorf("%+v, %v", start, err)
	}
}

func TestAgentsThatCallAModelAreRefused(t *testing.T) {
	for _, kind := range []string{tasks.ClaudeCode, tasks.Codex, tasks.OpenCode, tasks.Pi, tasks.Antigravity, tasks.Delegate, "house"} {
		if _, err := agents.For(kind); !errors.Is(err, agents.ErrNoTransport) {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if got := agents.Kinds(); !slices.Equal(got, []string{"command", "none", "oracle"}) {
		t.Error(got)
	}
}

func TestWhatWasDroppedIsSaid(t *testing.T) {
	agent, _ := agents.For(tasks.CommandLine)
	turn := agent.Turn(agents.Output{Stdout: []byte("a\xff"), Dropped: 7, TimedOut: true})
	if !strings.Contains(turn.Text, "7 bytes") || !strings.Contains(turn.Text, "\ufffd") || !strings.Contains(turn.Crash, "time-out") {
		t.Errorf("%+v", turn)
	}
}

// A program that failed is quoted with what it said last, within bounds.
func TestACrashEndsWithWhatTheProgramSaid(t *testing.T) {
	agent, err := agents.For(tasks.CommandLine)
	if err != nil {
		t.Fatal(err)
	}
	for stderr, want := range map[string]string{
		"":                        "it ended with exit code 3",
		" \n":                     "it ended with exit code 3",
		"first\nno such model \n": "it ended with exit code 3; its standard error ends with: no such model",
		"\xff\rlast":              "it ended with exit code 3; its standard error ends with: last",
		strings.Repeat("é", 500):  "it ended with exit code 3; its standard error ends with: " + strings.Repeat("é", 200) + "…",
	} {
		turn := agent.Turn(agents.Output{Code: 3, Stderr: []byte(stderr)})
		if turn.Crash != want {
			t.Errorf("%q: %q, want %q", stderr, turn.Crash, want)
		}
	}
}
