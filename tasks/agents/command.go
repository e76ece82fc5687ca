package agents

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"podgrade/oci"
	"podgrade/tasks"
)

// command runs a command line of the task. What it prints is its one turn.
type command struct{}

// mostArgument is the longest single argument that Linux takes, in bytes.
const mostArgument = 128<<10 - 1

// promptName is the file that a command line reads its prompt from.
const promptName = "prompt.txt"

func (command) Start(r Request) (*Start, error) {
	if strings.TrimSpace(r.Command) == "" {
		return nil, errors.New("the agent command has no command line")
	}
	start := &Start{Argv: []string{r.Shell, "-c", r.Command}}
	switch r.Way {
	case tasks.PromptArgument:
		if len(r.Prompt) > mostArgument || strings.ContainsRune(r.Prompt, 0) {
			return nil, fmt.Errorf("the prompt cannot be an argument: it has %d bytes, and an argument at most %d and no NUL; write prompt: stdin", len(r.Prompt), mostArgument)
		}
		// The shell's own first parameter, so that nothing in the prompt is ever
		// read as shell.
		start.Argv = []string{r.Shell, "-c", r.Command + ` "$1"`, r.Shell, r.Prompt}
	case tasks.PromptFile:
		start.Files = []File{{Name: promptName, Mode: 0o644, Content: []byte(r.Prompt)}}
		start.Env = []string{oci.EnvPromptFile + "=" + path.Join(r.Dir, promptName)}
	default:
		start.Stdin = []byte(r.Prompt)
	}
	return start, nil
}

func (command) Turn(o Output) Turn {
	return Turn{Text: text(o), Replies: 1, Crash: crash(o)}
}
