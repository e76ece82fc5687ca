package policy

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"podgrade/oci"
	"podgrade/tasks"
)

// Grants lists everything beyond the seal that the request needs, in the
// order: cell, paths, variables, judges, commands. It reads names
// and metadata only. An error means that the request can never be granted.
func Grants(r Request) ([]Grant, error) {
	terms, err := termsOf(r)
	if err != nil {
		return nil, err
	}
	return terms.grants, nil
}

// terms is what a request comes to: the grants, and the values that an engine
// gets when they are accepted.
type terms struct {
	grants       []Grant
	commands     []Grant
	judges       []Grant
	limits       []Grant
	runs         bool     // some command runs, listed or not
	keys         []string // variables that are read for a judge or a build, and enter no cell
	image        string
	pin          oci.Pin // that the image is looked up by, where it is Known
	pulls        bool    // the image may be fetched
	state        string  // diff id of the state layer; "": none
	cleanState   string  // of that of the clean room; "": none
	drift        bool    // another image of the pinned one's name will do
	capabilities []string
	network      oci.Network
	variables    []string // names, all set here
	taskDir      string
	reference    string
	searchPath   []string
	workingDir   string // in the image, or auto; "": the workspace is mounted
	criteria     tasks.Criteria
	postRun      []tasks.PostRun
	setup        Setup // of the execute phase
}

func (t *terms) add(kind Kind, value, reason string) { t.about(kind, value, reason, "") }

// about adds a grant about which a policy file is asked by another word than its
// value.
func (t *terms) about(kind Kind, value, reason, subject string) {
	t.grants = append(t.grants, Grant{Kind: kind, Value: value, Reason: reason, subject: subject})
}

func termsOf(r Request) (*terms, error) {
	t := &terms{network: oci.Sealed}
	add := t.grading
	if r.Phase == oci.Execute {
		add = t.executing
	}
	if err := add(r); err != nil {
		return nil, err
	}
	if t.runs {
		t.variablesOf(r)
	}
	t.keysOf(r)
	t.grants = slices.Concat(t.grants, t.limits, t.judges, t.commands)
	return t, keepsKey(r, t.grants)
}

// keepsKey refuses what lies in the directory of the signing key: whoever reads it
// can sign as this user. Where it lies below what is given, it is left out.
func keepsKey(r Request, grants []Grant) error {
	if r.KeyDir == "" {
		return nil
	}
	for _, g := range grants {
		dir := g.Value
		switch g.Kind {
		case Path:
		case Build:
			dir = filepath.Dir(dir)
		case Mount:
			dir, _, _ = strings.Cut(dir, ":")
		default:
			continue
		}
		if within(resolved(dir), resolved(r.KeyDir)) || g.Kind == Mount && within(resolved(r.KeyDir), resolved(dir)) {
			return &Refusal{
				What: "the " + r.source() + " names " + dir + ", where the signing key of this user is: nothing may read that",
				Do:   "name another directory; the key belongs into no task",
			}
		}
	}
	return nil
}

// grading adds what a grade needs.
func (t *terms) grading(r Request) error {
	for _, criterion := range r.Task.SuccessCriteria {
		if err := t.criterion(criterion, r); err != nil {
			return err
		}
	}
	t.criteria = r.Task.SuccessCriteria
	if !r.PostRunDone {
		for _, hook := range r.Task.PostRun {
			t.hook(hook, r)
		}
	}
	t.reinstalls(r)
	if r.Place == InCell {
		if err := t.cell(r); err != nil {
			return err
		}
	}
	return t.paths(r)
}

// reinstalls adds the packages that a grade installs again, for its commands: a
// grade that runs none needs none. A block without packages asks for nothing.
func (t *terms) reinstalls(r Request) {
	if !t.runs {
		return
	}
	if block := r.Task.Sandbox.Python; r.LostVenv && block != nil && len(block.EnvPackages) > 0 {
		t.setup.Python = block
		t.packages(block, "sandbox.python", r.Place)
	}
	if block := r.Task.Sandbox.Node; r.LostNodeModules && block != nil && len(block.EnvPackages) > 0 {
		t.setup.Node = block
		t.packages(block, "sandbox.node", r.Place)
	}
}

// hook adds one command of post_run. What the operator runs after every row is
// the operator's own, whoever wrote it down again (spec/regrade.md 2.3).
func (t *terms) hook(hook tasks.PostRun, r Request) {
	t.postRun = append(t.postRun, hook)
	if slices.Contains(r.Baseline, hook.Command) {
		t.runs = true
		return
	}
	t.command(hook.Command, "post_run", r.Place)
}

// cell adds what starting a grading cell of the row needs.
func (t *terms) cell(r Request) error {
	imageOf := t.recordedImage
	if r.Planned {
		imageOf = t.plannedImage
	}
	if err := imageOf(r); err != nil {
		return err
	}
	if err := t.capabilitySet(r); err != nil {
		return err
	}
	if err := t.networkOf(r); err != nil {
		return err
	}
	t.workingDirOf(r)
	if mounts := r.docker().ExtraMounts; len(mounts) > 0 {
		return &Refusal{
			What: "the " + r.source() + " mounts " + strings.Join(mounts, ", ") + ", and a grading cell sees nothing of this host but workspace, task directory and reference",
			Do:   "copy what the criteria need into the task directory, or grade with --allow-host-grading",
		}
	}
	return nil
}

// recordedImage adds the image of a row that was executed.
func (t *terms) recordedImage(r Request) error {
	docker := r.Task.Sandbox.Docker
	t.image = docker.Image
	switch {
	case r.Pin.Known():
		t.image, t.pin = r.Pin.Reference, r.Pin
		reason := "a cell of this image is started"
		if t.drift = r.ImageDrift; t.drift {
			reason += ", or where it is gone of the one that has its name now"
		}
		t.about(Image, r.Pin.String(), reason, strings.Join([]string{r.Pin.Reference, r.Pin.ID, r.Pin.Digest}, "\x00"))
		if t.state = r.State; t.state != "" {
			t.add(StateLayer, t.state, "what an agent changed outside of its workspace lies over the image, as this host kept it or an archive brought it")
		}
		if t.cleanState = r.CleanState; t.cleanState != "" && t.cleanState != t.state {
			t.add(StateLayer, t.cleanState, "what the task had changed before an agent worked lies over the image of the clean room, as this host kept it or an archive brought it")
		}
	case docker.DockerfilePath != "":
		return &Refusal{
			What: "the row's image was built from " + docker.DockerfilePath + " and the record does not say which image that gave",
			Do:   "grade the row on the host that executed it, or pin the image by executing the row with podgrade",
		}
	case t.image == "":
		return &Refusal{
			What: "the record names no image",
			Do:   "execute the row again with a task that names one, or grade it with --allow-host-grading",
		}
	default:
		t.add(Image, t.image, "a cell of the image that has this name now is started; the record holds no pin")
	}
	return nil
}

func (t *terms) capabilitySet(r Request) error {
	switch caps := r.Task.Sandbox.Capabilities(); caps.Mode {
	case tasks.CapsNone:
	case tasks.CapsList:
		if _, err := oci.CapabilityMask(caps.List); err != nil {
			return &Refusal{What: "the " + r.source() + " asks for capabilities: " + err.Error(), Do: "correct the task and execute it again"}
		}
		t.capabilities = caps.List
		t.add(Capabilities, strings.Join(caps.List, " "), "commands in the cell may have these, as the "+r.source()+" asks")
	default:
		t.capabilities = oci.DockerCapabilities()
		t.add(Capabilities, strings.Join(t.capabilities, " "),
			"commands in the cell may have these, as in the containers of upstream; all are limited to the cell's own user namespace")
	}
	return nil
}

func (t *terms) networkOf(r Request) error {
	if !r.RecordedNetwork {
		return nil
	}
	switch network, _ := r.Task.Network(); network {
	case tasks.NetworkNone:
	case tasks.NetworkLLMOnly:
		return &Refusal{
			What: "--network recorded was given, and the " + r.source() + " asks for llm_only: a grading cell has no network or all of it",
			Do:   "leave --network out; what the criteria then try to reach is counted and stamped",
		}
	default:
		t.network = oci.Egress
		t.add(Network, network, "commands in the cell reach every network but this host itself")
	}
	return nil
}

// variablesOf adds the host variables that are asked for and that are set
// here.
func (t *terms) variablesOf(r Request) {
	for _, name := range r.passthrough() {
		if !isName(name) {
			continue
		}
		if _, set := r.Lookup(name); set {
			t.variables = append(t.variables, name)
			t.add(Variable, name, "commands get its value on this host")
		}
	}
}

// passthrough names the host variables that the row asks for. Upstream's default
// list is of credentials, and none of them enters a cell because nobody said a
// word: of a task file of the operator's only the names that an author wrote
// count, whatever a record says.
func (r Request) passthrough() []string {
	if !r.Planned && !r.Given {
		return r.passedOn()
	}
	docker := r.Task.Sandbox.Docker
	if !r.Task.Wrote("sandbox.docker.env_passthrough") {
		docker.EnvPassthrough = nil
	}
	return r.variablesFor(docker.Passthrough())
}

// passedOn names the host variables that the run passed on, as far as the record
// says: those that the agent's cell had, where podgrade executed the row.
func (r Request) passedOn() []string {
	if r.Passed != nil {
		return r.variablesFor(*r.Passed)
	}
	return r.variablesFor(r.Task.Sandbox.Docker.Passthrough())
}

// variablesFor leaves out HOME, which names a directory of this host, and all of
// them where the driver has no such key.
func (r Request) variablesFor(names []string) []string {
	if r.Task.Sandbox.Driver != tasks.DriverDocker {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "HOME" })
}

// isName tells whether a variable can be passed on under this name.
func isName(name string) bool {
	return name != "" && !strings.ContainsAny(name, "=\x00")
}

func (t *terms) command(line, whose string, place Place) {
	t.runs = true
	if place == OnHost {
		t.commands = append(t.commands, Grant{Kind: HostCommand, Value: line, Reason: whose + ", runs on this host, as you"})
		return
	}
	t.commands = append(t.commands, Grant{Kind: Command, Value: line, Reason: whose + ", runs in the cell"})
}

// usualTime is how long a command may run before that is worth a line of its
// own: a record can ask for years.
const usualTime = time.Hour

// lasts adds a time limit that is above the usual one.
func (t *terms) lasts(what string, seconds int, usual time.Duration) {
	if seconds > int(usual/time.Second) {
		t.limits = append(t.limits, Grant{Kind: Limit, Value: fmt.Sprintf("%s: %d s", what, seconds), Reason: fmt.Sprintf("it may take that long; %v is usual", usual)})
	}
}

// workingDirOf adds the directory of the image that commands work in, where the
// workspace is not mounted (spec/regrade.md 3.4).
func (t *terms) workingDirOf(r Request) {
	if r.Task.Sandbox.Driver == tasks.DriverTempdir {
		return
	}
	if t.workingDir = r.Task.Sandbox.WorkingDir(); t.workingDir != "" {
		t.add(WorkingDir, t.workingDir, "commands in the cell work in this directory of the image, over what it holds there")
	}
}

// keysOf adds the host variables that podgrade itself reads for a judge or a
// build. They enter no cell.
func (t *terms) keysOf(r Request) {
	slices.Sort(t.keys)
	for _, name := range slices.Compact(t.keys) {
		if _, set := r.Lookup(name); set && isName(name) {
			t.add(Variable, name, "its value on this host is sent to a judge or put into a build argument; it enters no cell")
		}
	}
}
