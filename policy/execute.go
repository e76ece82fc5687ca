package policy

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"podgrade/oci"
	"podgrade/tasks"
)

// source names where the task comes from.
func (r Request) source() string {
	if r.Planned {
		return "task"
	}
	return "record"
}

// docker is the block that the row's cells are made of: that of a tempdir row
// counts for nothing, since it runs in the default image.
func (r Request) docker() tasks.Docker {
	if r.Place == InCell && r.Task.Sandbox.Driver == tasks.DriverTempdir {
		return tasks.Docker{Network: tasks.NetworkBridge}
	}
	return r.Task.Sandbox.Docker
}

// WantsDefaultImage tells whether a planned row gets the default image
// (design: Trust).
func (r Request) WantsDefaultImage() bool {
	docker := r.docker()
	return docker.Image == "" && docker.DockerfilePath == ""
}

// executing adds what the execute phase needs: all that stands in the task
// file beyond the prompt and the agent's own cell.
func (t *terms) executing(r Request) error {
	for _, hook := range r.Task.PreRun {
		t.command(hook.Command, "pre_run", r.Place)
	}
	t.setup = Setup{
		Templates: r.Task.Sandbox.TemplateSources, MockDirs: r.Task.Sandbox.MockPathDirs, Recorders: r.Task.Sandbox.RecordCLI,
		Python: r.Task.Sandbox.Python, Node: r.Task.Sandbox.Node, PreRun: r.Task.PreRun,
	}
	t.agent(r)
	t.packages(r.Task.Sandbox.Python, "sandbox.python", r.Place)
	t.packages(r.Task.Sandbox.Node, "sandbox.node", r.Place)
	if r.Place == InCell {
		if err := t.agentCell(r); err != nil {
			return err
		}
	}
	t.templates(r)
	if s := r.Task.Simulation; s != nil && s.Enabled {
		t.sends(s.Model, t.route(r), "the simulated user: sends what the agent says on your account")
	}
	t.timeouts(r)
	return t.taskDirFor(r)
}

// timeouts adds what podgrade's own steps may take longer than usual.
func (t *terms) timeouts(r Request) {
	podman := r.Task.Sandbox.Podman
	if podman == nil {
		return
	}
	t.setup.Timeouts = podman.Timeouts
	t.lasts("fetching the image", podman.Timeouts.Pull, usualTime)
	t.lasts("building the image", podman.Timeouts.Build, usualTime)
	t.lasts("starting the cell", podman.Timeouts.Start, usualTime)
}

// agent adds what the agent runs.
func (t *terms) agent(r Request) {
	switch podman := r.Task.Sandbox.Podman; r.agent() {
	case tasks.CommandLine:
		t.setup.AgentCommand, t.setup.AgentPrompt = r.Task.Agent.Command, r.Task.Agent.Prompt
		t.command(r.Task.Agent.Command, "the agent", r.Place)
	case tasks.Oracle:
		if podman != nil && podman.Solution != "" {
			t.setup.Solution = podman.Solution
			t.command(podman.Solution, "solution, the oracle agent", r.Place)
		}
	}
}

// agentCell adds what starting the agent's cell needs.
func (t *terms) agentCell(r Request) error {
	if err := t.plannedImage(r); err != nil {
		return err
	}
	if err := t.capabilitySet(r); err != nil {
		return err
	}
	if podman := r.Task.Sandbox.Podman; podman != nil && podman.SetUID {
		t.add(Capabilities, setUID, "programs of the image may gain the rights of their owner while the agent works")
	}
	t.agentNetwork(r)
	t.workingDirOf(r)
	for _, mount := range r.docker().ExtraMounts {
		t.mount(mount)
	}
	return nil
}

// mount adds one mount, with the source as it resolves.
func (t *terms) mount(mount string) {
	source, inCell, _ := strings.Cut(mount, ":")
	reason, subject := "the agent reads and writes it", ""
	if strings.HasSuffix(inCell, ":ro") {
		reason, subject = "the agent reads it", resolved(source)
	}
	t.about(Mount, resolved(source)+":"+inCell, reason, subject)
}

// setUID is the word for clearing no_new_privs.
const setUID = "set_uid"

// plannedImage adds the image that the execute phase starts from.
func (t *terms) plannedImage(r Request) error {
	docker := r.docker()
	switch {
	case docker.DockerfilePath != "":
		if r.Phase == oci.Grade {
			t.add(Image, docker.DockerfilePath, "a cell of the image that was built from it is started")
			return nil
		}
		t.build(docker)
		return nil
	case r.WantsDefaultImage() && r.DefaultImage == "":
		t.add(Image, "the default image", "a cell of it is started; none is set here")
		return nil
	case r.WantsDefaultImage():
		t.image = r.DefaultImage
		t.add(Image, t.image, "a cell of it is started; it is the default image")
	default:
		t.image = docker.Image
		t.add(Image, t.image, "a cell of it is started")
	}
	if r.Pull && r.Phase == oci.Execute {
		t.pulls = true
		t.add(Pull, t.image, "it is fetched from its registry where Podman's store has none of that name, with this user's log-ins")
	}
	return nil
}

// build adds the build of the task's image: one entry, with all that it is given
// (spec/regrade.md 2.4).
func (t *terms) build(docker tasks.Docker) {
	build := docker.Build
	t.setup.Dockerfile, t.setup.Build = docker.DockerfilePath, &build
	file := resolved(docker.DockerfilePath)
	reason := "an image is built from it, with all of " + filepath.Dir(file) + ", and a cell of the image is started"
	for _, name := range sorted(build.Args) {
		reason += fmt.Sprintf("; argument %s=%s", name, build.Args[name])
		os.Expand(build.Args[name], func(variable string) string {
			t.keys = append(t.keys, variable)
			return ""
		})
	}
	for _, secret := range build.Secrets {
		reason += "; secret " + secret
	}
	for _, arg := range build.ExtraArgs {
		reason += "; option " + arg
	}
	t.add(Build, file, reason)
}

// agentNetwork adds the network of the agent's cell.
func (t *terms) agentNetwork(r Request) {
	network, _ := r.Task.Network()
	hosts := strings.Join(r.Task.Sandbox.Hosts(), ", ")
	switch network {
	case tasks.NetworkNone:
	case tasks.NetworkLLMOnly:
		t.add(Network, network, "the agent reaches the model's API through podgrade")
	default:
		t.network, hosts = oci.Egress, ""
		t.add(Network, network, "the agent reaches every network but this host itself")
	}
	if hosts != "" {
		t.about(Network, hosts, "the agent reaches these hosts through podgrade", strings.Join(r.Task.Sandbox.Hosts(), "\x00"))
	}
}

// packages adds the installation of packages into the workspace.
func (t *terms) packages(block *tasks.Packages, key string, place Place) {
	if block != nil && len(block.EnvPackages) > 0 {
		t.command("install "+strings.Join(block.EnvPackages, " "), key+".env_packages", place)
	}
}

// templates adds what the workspace is filled with, and the agent's plugins.
func (t *terms) templates(r Request) {
	for _, source := range r.Task.Sandbox.TemplateSources {
		switch source.Type {
		case tasks.TemplateDir:
			t.add(Path, resolved(source.Path), "a template: the agent gets a copy")
		case tasks.Repo:
			t.command(clone(source), "template_sources", r.Place)
		}
	}
	switch r.agent() {
	case "", tasks.NoAgent, tasks.CommandLine, tasks.Oracle:
		return // none of them reads a plugin
	}
	t.setup.Plugins = t.agentFiles(r, r.Task.Agent, "of the agent")
}

// clone is how a repository is fetched: what names it is no option of git
// (spec/regrade.md D-74).
func clone(source tasks.TemplateSource) string {
	line := "git clone -- " + source.URL
	if source.Commit != "" {
		line += " at " + source.Commit
	}
	return line
}

// taskDirFor adds the task directory where pre_run gets a copy of it.
func (t *terms) taskDirFor(r Request) error {
	if len(r.Task.PreRun) == 0 {
		return nil
	}
	dir, err := taskDir(r)
	if err == nil && dir != "" {
		t.taskDir = dir
		t.add(Path, dir, "the task directory: pre_run gets a copy, which is gone before the agent starts")
	}
	return err
}

// Setup is what happens in the agent's cell before the agent starts, and what
// it starts, as it was accepted.
type Setup struct {
	Templates    []tasks.TemplateSource
	MockDirs     []string
	Recorders    []tasks.RecordCLI
	Python, Node *tasks.Packages // nil: not wanted
	PreRun       []tasks.PreRun
	Plugins      []string // directories of this host
	AgentCommand string   // of the agent command
	AgentPrompt  string   // how it gets the prompt
	Solution     string   // of the agent oracle, relative to the task directory
	Dockerfile   string   // "": the image is not built
	Build        *tasks.Build
	Timeouts     tasks.Timeouts // of podgrade's own steps
}

func (r Request) agent() string {
	if r.Task.Agent == nil {
		return ""
	}
	return r.Task.Agent.Type
}
