package policy

import (
	"fmt"
	"strings"
)

// Kind tells what a grant gives.
type Kind string

// The kinds of grants.
const (
	Image        Kind = "image"        // a cell of an image is started
	StateLayer   Kind = "state layer"  // the cell's root begins with what an agent changed
	Capabilities Kind = "capabilities" // of the commands in a cell
	Network      Kind = "network"      // of a cell
	Variable     Kind = "variable"     // a variable of this host enters a cell
	Path         Kind = "path"         // a path of this host is read
	Mount        Kind = "mount"        // a path of this host, where a cell sees it
	Build        Kind = "build"        // an image is built from a Dockerfile
	Pull         Kind = "pull"         // an image is fetched from its registry
	SearchPath   Kind = "search path"  // recorded directories come first on PATH on this host
	WorkingDir   Kind = "directory"    // of the image, that commands work in
	Limit        Kind = "limit"        // one that is lifted above what is usual
	Judge        Kind = "judge"        // something is sent to a model on the caller's account
	Command      Kind = "command"      // a recorded command line runs in a cell
	HostCommand  Kind = "host command" // a recorded command line runs on this host
)

// Kinds returns all kinds of grants.
func Kinds() []Kind {
	return []Kind{Image, StateLayer, Capabilities, Network, Variable, Path, Mount, Build, Pull, SearchPath, WorkingDir, Limit, Judge, Command, HostCommand}
}

// runs tells whether a command line runs by grants of the kind.
func (k Kind) runs() bool { return k == Command || k == HostCommand }

// Grant is one thing beyond the seal.
type Grant struct {
	Kind   Kind   `json:"kind"`
	Value  string `json:"value"`  // the image, variable, resolved path or command line
	Reason string `json:"reason"` // in plain words: what happens with it

	subject string // what a policy file is asked about, where it is not the value
}

// String is one line, safe to print.
func (g Grant) String() string {
	text := fmt.Sprintf("%s: %s", g.Kind, Clip(g.Value, mostShown))
	if g.Reason != "" {
		text += " (" + Neutral(g.Reason) + ")"
	}
	return text
}

// mostShown bounds what a page shows of one value, in characters. How much is left
// out is said, and the JSON form holds all of it.
const mostShown = 4000

// Page lists grants for a person: the commands counted apart from the rest.
func Page(grants []Grant) string {
	var commands, rest []Grant
	for _, g := range grants {
		if g.Kind.runs() {
			commands = append(commands, g)
		} else {
			rest = append(rest, g)
		}
	}
	var b strings.Builder
	section(&b, commands, "command", "commands")
	section(&b, rest, "grant", "grants")
	return b.String()
}

func section(b *strings.Builder, grants []Grant, one, many string) {
	if len(grants) == 0 {
		return
	}
	if len(grants) != 1 {
		one = many
	}
	fmt.Fprintf(b, "%d %s:\n", len(grants), one)
	for _, g := range grants {
		fmt.Fprintf(b, "  - %s\n", g)
	}
}
