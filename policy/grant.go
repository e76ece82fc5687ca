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
	Judge        Kind = "judge"        // something is sent to a model on the caller's account
	Command      Kind = "command"      // a recorded command line runs
)

// Grant is one thing beyond the seal.
type Grant struct {
	Kind   Kind
	Value  string // the image, variable, resolved path or command line
	Reason string // in plain words: what happens with it
}

// String is one line, safe to print.
func (g Grant) String() string {
	text := fmt.Sprintf("%s: %s", g.Kind, Clip(g.Value, 400))
	if g.Reason != "" {
		text += " (" + Neutral(g.Reason) + ")"
	}
	return text
}

// Page lists grants for a person: the commands counted apart from the rest.
func Page(grants []Grant) string {
	var commands, rest []Grant
	for _, g := range grants {
		if g.Kind == Command {
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
