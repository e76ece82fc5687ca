package policy

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"podgrade/oci"
)

// Answer is what the operator said on the command line.
type Answer struct {
	// RecordedCommands accepts every grant (--allow-recorded-commands).
	RecordedCommands bool
	// TaskFile: the task is the operator's own file and not a record's, so that
	// all that it asks for is wanted. Nothing is asked and nothing printed.
	TaskFile bool
}

// Accepted is what a grade may use beyond the seal. Only Consent makes one;
// the zero value allows nothing and opens no cell.
type Accepted struct {
	made     bool
	place    Place
	terms    terms
	env      []string
	withheld []string
}

// Refusal is the error for what may not happen: nothing was started.
type Refusal struct {
	What   string  // what is refused and why
	Grants []Grant // what would have been needed, when consent was missing
	Do     string  // one thing to do
}

// Error is the whole page, safe to print.
func (r *Refusal) Error() string {
	text := Neutral(r.What)
	if len(r.Grants) > 0 {
		text += "\n" + Page(r.Grants)
	} else {
		text += "; "
	}
	return text + Neutral(r.Do)
}

// Consent asks for the request's grants. They are written to notice whether
// they were accepted before or not: opting in does not silence the disclosure
// (spec/regrade.md 2.5). The error is a *Refusal.
func Consent(r Request, answer Answer, notice io.Writer) (Accepted, error) {
	terms, err := termsOf(r)
	if err != nil {
		return Accepted{}, err
	}
	if len(terms.grants) > 0 && !answer.TaskFile && !answer.RecordedCommands && !readingOnly(r, terms) {
		return Accepted{}, &Refusal{
			What:   "the record asks for more than a sealed cell, and nobody has accepted that:",
			Grants: terms.grants,
			Do:     "Read the list; when all of it may happen, run the same command with --allow-recorded-commands.",
		}
	}
	if len(terms.grants) > 0 && !answer.TaskFile {
		fmt.Fprintf(notice, "accepted from the record:\n%s", Page(terms.grants))
	}
	a := Accepted{made: true, place: r.Place, terms: *terms}
	for _, name := range terms.variables {
		value, _ := r.Lookup(name)
		a.env = append(a.env, name+"="+value)
	}
	a.withheld = withheld(r, terms)
	return a, nil
}

// readingOnly tells whether a grade on the host would only read: then the
// operator's choice of the host was the answer (design: Trust).
func readingOnly(r Request, t *terms) bool {
	return r.Place == OnHost && r.HostAllowed &&
		!slices.ContainsFunc(t.grants, func(g Grant) bool { return g.Kind != Path })
}

// withheld are the variables that the record passes on, that are set here,
// and that commands do not get.
func withheld(r Request, t *terms) []string {
	if len(t.commands) == 0 || r.Planned {
		return nil
	}
	var names []string
	for _, name := range r.passedOn() {
		if _, set := r.Lookup(name); set && !slices.Contains(t.variables, name) {
			names = append(names, name)
		}
	}
	return names
}

// Valid tells whether Consent made the value.
func (a Accepted) Valid() bool { return a.made }

// Place is where the phase happens.
func (a Accepted) Place() Place { return a.place }

// Image is the reference to look the image up by when it is not pinned.
func (a Accepted) Image() string { return a.terms.image }

// State is the state layer to grade with; "": none.
func (a Accepted) State() string {
	if !a.made {
		return ""
	}
	return a.terms.state
}

// Drift tells whether another image of the pinned one's name will do.
func (a Accepted) Drift() bool { return a.made && a.terms.drift }

// Pulls tells whether the image may be fetched from its registry.
func (a Accepted) Pulls() bool { return a.made && a.terms.pulls }

// Capabilities is the bounding set of commands in the cell.
func (a Accepted) Capabilities() []string { return slices.Clone(a.terms.capabilities) }

// Network is the network of the cell; oci.Sealed unless it was granted.
func (a Accepted) Network() oci.Network {
	if !a.made {
		return oci.Sealed
	}
	return a.terms.network
}

// Env holds the accepted variables of this host, as name=value.
func (a Accepted) Env() []string { return slices.Clone(a.env) }

// Variables names the variables of this host that commands get.
func (a Accepted) Variables() []string { return slices.Clone(a.terms.variables) }

// Setup is what the execute phase makes and runs; nothing for a grade.
func (a Accepted) Setup() Setup { return a.terms.setup }

// Withheld names the variables that the record passes on, that are set here,
// and that commands do not get.
func (a Accepted) Withheld() []string { return slices.Clone(a.withheld) }

// TaskDir is the task directory on this host, resolved; "" when there is none.
func (a Accepted) TaskDir() string { return a.terms.taskDir }

// Reference is the reference's directory on this host, resolved; "" when the
// task has none.
func (a Accepted) Reference() string { return a.terms.reference }

// SearchPath holds the recorded directories that come first on PATH of
// commands on the host.
func (a Accepted) SearchPath() []string { return slices.Clone(a.terms.searchPath) }

// Runs tells whether any recorded command was accepted.
func (a Accepted) Runs() bool {
	return slices.ContainsFunc(a.terms.grants, func(g Grant) bool { return g.Kind == Command })
}

// Grants is what was accepted.
func (a Accepted) Grants() []Grant { return slices.Clone(a.terms.grants) }

// Names joins names for a record.
func Names(names []string) string { return strings.Join(names, ",") }
