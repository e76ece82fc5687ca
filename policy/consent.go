package policy

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"podgrade/oci"
	"podgrade/tasks"
)

// Answer is what the operator has said.
type Answer struct {
	// RecordedCommands accepts every grant (--allow-recorded-commands).
	RecordedCommands bool
	// Plans accept exactly what they name, by Plan.Hash (--accept-plan, or a yes
	// at the terminal). With any of them nothing else is accepted, not even of a
	// task file of the operator's.
	Plans []string
	// Agreed are plans that somebody at the terminal has said yes to, by
	// Plan.Hash. They take nothing away from the other ways.
	Agreed []string
	// Policy is the operator's policy file; nil: there is none.
	Policy *File
	// RecordedPaths accepts that an export reads the directories that the record
	// names (--allow-recorded-paths).
	RecordedPaths bool
	// TaskFile: the task is the operator's own file and not a record's, so that
	// all that it asks for is wanted. Nothing is asked and nothing printed.
	TaskFile bool
}

// Accepted is what a grade may use beyond the seal. Only Consent makes one;
// the zero value allows nothing and opens no cell.
type Accepted struct {
	made     bool
	request  Request
	terms    terms
	env      []string
	withheld []string
	context  string // directory of the build, where it may be read
	policy   *File
	byPolicy bool // the image was accepted by what the policy file says of names
}

// Refusal is the error for what may not happen: nothing was started.
type Refusal struct {
	What   string  // what is refused and why
	Grants []Grant // what would have been needed, when consent was missing
	Do     string  // one thing to do
	Plan   string  // hash of what is asked for, when consent was missing
}

// Brief is one line, safe to print, for a list in which the page would be lost.
func (r *Refusal) Brief() string {
	if len(r.Grants) == 0 {
		return Neutral(r.What + "; " + r.Do)
	}
	text := strings.TrimSuffix(r.What, ":") + ": " + counted(r.Grants)
	if r.Plan != "" {
		text += ", plan " + r.Plan
	}
	return Neutral(text)
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

// Asked is what there is to answer about a request.
type Asked struct {
	Plan     Plan
	Open     []Grant // of the plan: what neither policy file nor signature answers
	SignedBy Signer
}

// Ask finds out what there is to answer, and answers nothing. The error is a
// *Refusal, of what can never be granted or what the policy file denies.
func Ask(r Request, policy *File) (Asked, error) {
	terms, err := termsOf(r)
	if err != nil {
		return Asked{}, err
	}
	return ask(r, terms, policy)
}

func ask(r Request, terms *terms, policy *File) (Asked, error) {
	asked := Asked{SignedBy: r.SignedBy, Plan: Plan{Phase: r.Phase, Place: r.Place, Grants: terms.grants}}
	if err := denied(policy, terms.grants); err != nil || readsOnly(r, terms.grants) {
		return asked, err
	}
	for _, g := range terms.grants {
		if !r.SignedBy.vouches(g.Kind) && !policy.allows(g, terms.grants) {
			asked.Open = append(asked.Open, g)
		}
	}
	return asked, nil
}

// Explicit tells whether the operator has answered for this command by name, so
// that nothing but the answer need speak for the row.
func (answer Answer) Explicit() bool { return answer.RecordedCommands || len(answer.Plans) > 0 }

// Consent asks for the request's grants. They are written to notice whether
// they were accepted before or not: opting in does not silence the disclosure
// (spec/regrade.md 2.5). The error is a *Refusal.
func Consent(r Request, answer Answer, notice io.Writer) (Accepted, error) {
	terms, err := termsOf(r)
	if err != nil {
		return Accepted{}, err
	}
	asked, err := ask(r, terms, answer.Policy)
	if err != nil {
		return Accepted{}, err
	}
	if err := answer.accept(r, asked, notice); err != nil {
		return Accepted{}, err
	}
	agreed := slices.Contains(answer.Agreed, asked.Plan.Hash())
	a := Accepted{made: true, request: r, terms: *terms, policy: answer.Policy, context: contextOf(r, terms, answer)}
	a.byPolicy = !answer.TaskFile && !answer.RecordedCommands && len(answer.Plans) == 0 && !agreed && r.SignedBy == Unsigned
	for _, name := range terms.variables {
		value, _ := r.Lookup(name)
		a.env = append(a.env, name+"="+value)
	}
	a.withheld = withheld(r, terms)
	return a, nil
}

// accept tells by an error that nobody has accepted what is asked for.
func (answer Answer) accept(r Request, asked Asked, notice io.Writer) error {
	hash := asked.Plan.Hash()
	switch {
	case len(answer.Plans) > 0 && len(asked.Plan.Grants) > 0 && !slices.Contains(answer.Plans, hash):
		return &Refusal{
			What:   "another plan was accepted than the one that is asked for, which is " + hash + ":",
			Grants: asked.Plan.Grants,
			Do:     "Read the list; when all of it may happen, accept it with --accept-plan " + hash + ".",
			Plan:   hash,
		}
	case answer.TaskFile, len(asked.Plan.Grants) == 0:
	case slices.Contains(answer.Agreed, hash): // who agreed has read the page
	case answer.RecordedCommands, len(answer.Plans) > 0:
		fmt.Fprintf(notice, "accepted from the record:\n%s", Page(asked.Plan.Grants))
	case len(asked.Open) == 0 && r.SignedBy == Own:
		fmt.Fprintf(notice, "accepted: %s, by the signature of your own key\n", counted(asked.Plan.Grants))
	case len(asked.Open) == 0 && r.SignedBy != Unsigned:
		fmt.Fprintf(notice, "accepted: %s, by the signature of a %s and the policy file\n", counted(asked.Plan.Grants), r.SignedBy)
	case len(asked.Open) == 0 && readsOnly(r, asked.Plan.Grants):
		fmt.Fprintf(notice, "accepted from the record:\n%s", Page(asked.Plan.Grants))
	case len(asked.Open) == 0:
		fmt.Fprintf(notice, "accepted: %s, by the policy file %s\n", counted(asked.Plan.Grants), Neutral(answer.Policy.path))
	default:
		return missing(asked, hash)
	}
	return nil
}

// missing is the refusal for want of an answer.
func missing(asked Asked, hash string) error {
	all := ", which accepts this and nothing else."
	what := "the record asks for more than a sealed cell, and nobody has accepted that:"
	if asked.Plan.Place == OnHost {
		what = "the record asks for more than to be read, and nobody has accepted that:"
	}
	if more := len(asked.Plan.Grants) - len(asked.Open); more > 0 {
		what = strings.TrimSuffix(what, ":") + fmt.Sprintf("; accepted already: %d, and left:", more)
		all = ", which accepts all of it, what is accepted already too, and nothing else."
	}
	return &Refusal{
		What:   what,
		Grants: asked.Open,
		Do:     "Read the list; when all of it may happen, run the same command with --allow-recorded-commands, or with --accept-plan " + hash + all,
		Plan:   hash,
	}
}

// denied refuses what the policy file denies: that wins over every answer.
func denied(policy *File, grants []Grant) error {
	if policy == nil {
		return nil
	}
	var list []Grant
	for _, g := range grants {
		if policy.Deny.names(g, true) {
			list = append(list, g)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return &Refusal{
		What:   "the policy file " + policy.path + " denies what is asked for:",
		Grants: list,
		Do:     "nothing accepts that but another policy file",
	}
}

// allows tells whether the file answers for a grant of the list; a limit is
// lifted where the commands may run that take the time.
func (f *File) allows(g Grant, of []Grant) bool {
	if f == nil {
		return false
	}
	if g.Kind == StateLayer { // it is the image's, and this host made it
		return slices.ContainsFunc(of, func(g Grant) bool { return g.Kind == Image && f.allows(g, nil) })
	}
	if g.Kind == Limit && slices.ContainsFunc(of, func(g Grant) bool { return g.Kind == HostCommand }) && f.Allow.HostCommands != All {
		return false
	}
	return f.Allow.names(g, false)
}

// contextOf is the directory of the row's build where it may be read: of the
// operator's own file, or below the task directory that was accepted.
func contextOf(r Request, t *terms, answer Answer) string {
	file := r.builtFrom()
	if !filepath.IsAbs(file) {
		return ""
	}
	dir, err := resolvedDir(filepath.Dir(file))
	if err != nil || !answer.TaskFile && (t.taskDir == "" || !within(dir, t.taskDir)) {
		return ""
	}
	return dir
}

// builtFrom is the Dockerfile of the row's image; "": it was not built.
func (r Request) builtFrom() string {
	if r.Task.Sandbox.Driver == tasks.DriverTempdir {
		return ""
	}
	return r.Task.Sandbox.Docker.DockerfilePath
}

// StillHolds refuses when what was accepted means something else by now, as when
// a path that was shown leads elsewhere. It is asked again at the point of use,
// just before a cell is opened.
func (a Accepted) StillHolds() error {
	if !a.made {
		return &Refusal{What: "nobody has accepted anything", Do: "report this as a defect of podgrade"}
	}
	now, err := PlanOf(a.request)
	if err != nil {
		return err
	}
	was := Plan{Phase: a.request.Phase, Place: a.request.Place, Grants: a.terms.grants}
	if now.Hash() == was.Hash() {
		return nil
	}
	return &Refusal{What: "what was accepted means something else now; it was " + was.Hash() + " and is " + now.Hash(), Do: "see what changes the paths that it names, and grade the row again"}
}

// CheckImage refuses an image whose own names and digests the policy file
// denies, or does not allow where nothing else accepted it: what a record calls an
// image is only what the record says. It is asked once the image is found, before
// a cell is opened.
func (a Accepted) CheckImage(pin oci.Pin, names []string) error {
	if a.policy == nil {
		return nil
	}
	names = append(slices.Clone(names), pin.ID, pin.Digest)
	for _, name := range names {
		if a.policy.Deny.image([]string{name}) {
			return &Refusal{What: "the policy file " + a.policy.path + " denies the image " + pin.String() + ", by " + name, Do: "nothing accepts that but another policy file"}
		}
	}
	if a.byPolicy && !a.policy.Allow.image(names) {
		return &Refusal{What: "the policy file allows the image by the name that the record gives it, and here " + pin.String() + " has no such name",
			Do: "grade it with --accept-plan or --allow-recorded-commands when it may be used"}
	}
	return nil
}

// readsOnly tells whether a grade on the host would only read: then the
// operator's choice of the host was the answer (design: Trust).
func readsOnly(r Request, grants []Grant) bool {
	return r.Place == OnHost && r.HostAllowed &&
		!slices.ContainsFunc(grants, func(g Grant) bool { return g.Kind != Path })
}

// withheld are the variables that the record passes on, that are set here,
// and that commands do not get.
func withheld(r Request, t *terms) []string {
	if !t.runs || r.Planned {
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
func (a Accepted) Place() Place { return a.request.Place }

// Pin is the image's identity that it is looked up by; it need not be Known.
func (a Accepted) Pin() oci.Pin { return a.terms.pin }

// Criteria are the criteria that may be asked.
func (a Accepted) Criteria() tasks.Criteria { return slices.Clone(a.terms.criteria) }

// PostRun are the commands that may run after the criteria.
func (a Accepted) PostRun() []tasks.PostRun { return slices.Clone(a.terms.postRun) }

// WorkingDir is where in the image commands work, auto for the image's own; "":
// the workspace is mounted.
func (a Accepted) WorkingDir() string { return a.terms.workingDir }

// NetworkWithheld tells whether the run had a network and the cell has none.
func (a Accepted) NetworkWithheld() bool {
	if !a.made || a.request.Place != InCell || a.terms.network != oci.Sealed {
		return false
	}
	network, _ := a.request.Task.Network()
	return network != tasks.NetworkNone
}

// BuiltFrom is the Dockerfile that the row's image was built from, for messages
// only; "": it was not built.
func (a Accepted) BuiltFrom() string {
	if !a.made {
		return ""
	}
	return a.request.builtFrom()
}

// BuildContext is the directory that the image was built from, where it may be
// read; "": it may not.
func (a Accepted) BuildContext() string { return a.context }

// Image is the reference to look the image up by when it is not pinned.
func (a Accepted) Image() string { return a.terms.image }

// State is the state layer to grade with; "": none.
func (a Accepted) State() string {
	if !a.made {
		return ""
	}
	return a.terms.state
}

// CleanState is the state layer of the clean room; "": none.
func (a Accepted) CleanState() string {
	if !a.made {
		return ""
	}
	return a.terms.cleanState
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

// Runs tells whether any command of the row may run.
func (a Accepted) Runs() bool { return a.terms.runs }

// Grants is what was accepted.
func (a Accepted) Grants() []Grant { return slices.Clone(a.terms.grants) }

// counted is how much was accepted.
func counted(grants []Grant) string {
	commands := 0
	for _, g := range grants {
		if g.Kind.runs() {
			commands++
		}
	}
	return number(commands, "command") + " and " + number(len(grants)-commands, "grant")
}

func number(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// Names joins names for a record.
func Names(names []string) string { return strings.Join(names, ",") }
