package agents

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"podgrade/tasks"
)

// Agent is one kind of agent.
type Agent interface {
	// Start says how the next turn is started; nil: there is none, and the
	// workspace stays as it was set up.
	Start(Request) (*Start, error)
	// Turn reads what the program left.
	Turn(Output) Turn
}

// Request is what a turn is started with.
type Request struct {
	Prompt string
	Shell  string // of the cell
	// Command is the command line that was accepted, for the agent command, and
	// Way how it gets the prompt.
	Command string
	Way     string
	// Script is the solution, for the agent oracle.
	Script []byte
	// Dir is an empty directory of the cell, outside of the workspace, that the
	// program can write to.
	Dir string
}

// Start is how a turn is started.
type Start struct {
	Argv  []string
	Env   []string // beside the surroundings of every command
	Stdin []byte
	// Files are put into Request.Dir before the turn, and are gone afterwards.
	Files []File
}

// File is one file beside the workspace.
type File struct {
	Name    string
	Mode    uint32
	Content []byte
}

// Output is what a turn left.
type Output struct {
	Stdout, Stderr []byte // as far as they were kept
	Dropped        int64  // bytes of Stdout that were not kept
	Code           int
	TimedOut       bool
	Started        time.Time
	Duration       time.Duration
}

// Turn is what the agent said.
type Turn struct {
	Text  string // its reply
	Calls []Call
	Model string // "" when it names none
	// Replies is the number of messages of the agent.
	Replies int
	// Crash is why the turn counts as broken off; "": it does not.
	Crash string
}

// Call is one call of a tool.
type Call struct {
	Tool       string
	ID         string
	Parameters map[string]any
	Status     string // success, error, or "" where it is not known
	Result     string
	Started    time.Time
	Duration   time.Duration
}

// builtin are the agents that work in this release.
var builtin = map[string]Agent{
	tasks.NoAgent:     none{},
	tasks.CommandLine: command{},
	tasks.Oracle:      oracle{},
}

// ErrNoTransport: the kind of agent calls a model, which this release cannot.
var ErrNoTransport = errors.New("it calls a model, and this release has no way to one")

// For returns the agent of a kind. The error wraps ErrNoTransport.
func For(kind string) (Agent, error) {
	if agent, ok := builtin[kind]; ok {
		return agent, nil
	}
	return nil, fmt.Errorf("the agent %s cannot work here: %w", kind, ErrNoTransport)
}

// Kinds names the agents that work in this release.
func Kinds() []string { return slices.Sorted(maps.Keys(builtin)) }

// text is output as a record holds it, with a line that says what is missing.
func text(o Output) string {
	s := strings.ToValidUTF8(string(o.Stdout), "\ufffd")
	if o.Dropped > 0 {
		s += fmt.Sprintf("\n[%d bytes of the output were dropped]\n", o.Dropped)
	}
	return s
}

// crash says why a program that ended so broke its turn off.
func crash(o Output) string {
	switch {
	case o.TimedOut:
		return "it was ended by its time-out"
	case o.Code != 0:
		return fmt.Sprintf("it ended with exit code %d", o.Code) + complaint(o.Stderr)
	}
	return ""
}

// mostComplaint is as much of a line as a reason repeats, in characters.
const mostComplaint = 200

// complaint is the last line of standard error, which mostly says why; "" where
// there is none.
func complaint(stderr []byte) string {
	said := strings.TrimSpace(strings.ToValidUTF8(string(stderr), "\ufffd"))
	if said == "" {
		return ""
	}
	last := []rune(strings.TrimSpace(said[strings.LastIndexAny(said, "\n\r")+1:]))
	if len(last) > mostComplaint {
		last = append(last[:mostComplaint], '\u2026')
	}
	return "; its standard error ends with: " + string(last)
}
