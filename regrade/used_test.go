package regrade

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"podgrade/oci"
	"podgrade/policy"
	"podgrade/tasks/record"
	"podgrade/tasks/record/fixture"
)

// overstepped says what a grade has used of the engines that its grants do not
// list: the engines are doubles that remember all of it.
func overstepped(grants []policy.Grant, fake *fakeEngines, rowDir string, secrets map[string]string) []string {
	var wrong []string
	is := func(kind policy.Kind, value string) bool {
		return slices.ContainsFunc(grants, func(g policy.Grant) bool { return g.Kind == kind && g.Value == value })
	}
	has := func(kind policy.Kind) bool {
		return slices.ContainsFunc(grants, func(g policy.Grant) bool { return g.Kind == kind })
	}
	check := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	check(len(fake.looked) == 0 || has(policy.Image), "looked for the images %q", fake.looked)
	check(len(fake.policies) == 0, "would fetch an image")
	for i, order := range fake.orders {
		if i >= fake.onHost {
			check(has(policy.Image), "opened a cell of %s", order.Image.Pin)
		}
		for _, name := range order.Plan.Capabilities {
			check(slices.ContainsFunc(grants, func(g policy.Grant) bool {
				return g.Kind == policy.Capabilities && slices.Contains(strings.Fields(g.Value), name)
			}), "gave the capability %s", name)
		}
		check(order.Plan.Network == oci.Sealed || has(policy.Network), "gave the network %v", order.Plan.Network)
		check(order.State == "" || is(policy.StateLayer, order.State), "laid the state layer %q", order.State)
		check(order.TaskDir == "" || is(policy.Path, order.TaskDir), "showed the task directory %q", order.TaskDir)
		check(order.Reference == "" || is(policy.Path, order.Reference), "showed the reference %q", order.Reference)
		check(order.WorkingDir == "" || has(policy.WorkingDir), "worked in %q", order.WorkingDir)
		check(strings.HasPrefix(order.Workspace, rowDir+"/"), "showed the workspace %q", order.Workspace)
		check(!order.Create, "opened an agent's cell")
	}
	for _, cell := range fake.cells {
		for _, command := range cell.ran {
			check(commandGranted(grants, command.Argv, cell.host), "ran %q", command.Argv)
			for name, secret := range secrets {
				given := slices.ContainsFunc(command.Env, func(entry string) bool { return strings.Contains(entry, secret) })
				check(!given || is(policy.Variable, name), "gave %s to %q", name, command.Argv)
			}
		}
	}
	return wrong
}

// commandGranted tells whether one of the grants lists the command line that a
// shell was given, for where it ran.
func commandGranted(grants []policy.Grant, argv []string, host bool) bool {
	kind := policy.Command
	if host {
		kind = policy.HostCommand
	}
	return slices.ContainsFunc(grants, func(g policy.Grant) bool {
		if g.Kind != kind {
			return false
		}
		program, isShell := "", len(argv) == 3 && argv[0] == shell && argv[1] == "-c"
		if !isShell && len(argv) > 0 {
			program = argv[0]
		}
		if isShell {
			return g.Value == argv[2]
		}
		// A criterion that runs a program of its own names that program.
		name := program[strings.LastIndexByte(program, '/')+1:]
		return name != "" && strings.HasPrefix(g.Value, name+" ")
	})
}

// TestOverstepsAreFound makes sure that the check above bites.
func TestOverstepsAreFound(t *testing.T) {
	c := newCase(t, fixture.Pinned, nil)
	c.host["BEDROCK_MODEL"] = "model-of-the-host"
	c.options.Network = NetworkRecorded
	c.fake.states = []string{"sha256:state"}
	c.edit(`"`+record.CommandBasePath+`"`, `"`+record.State+`": "`+record.StateKept+`", "`+record.StateDiffID+`": "sha256:state", "`+record.CommandBasePath+`"`)
	row := c.open()
	defer row.Close()
	g, err := prepare(row, c.options)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.grade(t.Context()); err != nil {
		t.Fatal(err)
	}
	grants, secrets := g.accepted.Grants(), map[string]string{"BEDROCK_MODEL": "model-of-the-host"}
	if wrong := overstepped(grants, c.fake, c.dir, secrets); len(wrong) > 0 {
		t.Errorf("all was granted: %q", wrong)
	}
	for kind, want := range map[policy.Kind]string{
		policy.Image: "opened a cell of", policy.StateLayer: "laid the state layer", policy.Capabilities: "gave the capability",
		policy.Network: "gave the network", policy.Variable: "gave BEDROCK_MODEL", policy.Path: "showed the task directory", policy.Command: "ran [",
	} {
		fewer := slices.DeleteFunc(slices.Clone(grants), func(g policy.Grant) bool { return g.Kind == kind })
		if len(fewer) == len(grants) {
			t.Errorf("there was no grant of a %s", kind)
		}
		if wrong := strings.Join(overstepped(fewer, c.fake, c.dir, secrets), "\n"); !strings.Contains(wrong, want) {
			t.Errorf("without a grant of a %s: %q", kind, wrong)
		}
	}
}
