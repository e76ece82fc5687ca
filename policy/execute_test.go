package policy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"podgrade/oci"
	"podgrade/tasks"
)

// planned is a request for a task file that nothing was executed of.
func planned(t *testing.T, phase oci.Phase, change func(*Request)) Request {
	t.Helper()
	r := request(t, nil)
	r.Phase, r.Planned, r.Task.Agent = phase, true, &tasks.Agent{Type: tasks.ClaudeCode}
	r.Task.Sandbox.Podman = &tasks.Podman{Caps: tasks.Caps{Mode: tasks.CapsNone}}
	docker := &r.Task.Sandbox.Docker
	docker.EnvPassthrough, docker.EnvPassthroughExtra = []string{"OTHER_KEY"}, docker.EnvPassthrough
	if change != nil {
		change(&r)
	}
	return r
}

// TestOnlyVariablesThatSomebodyNamedEnterACell: the list of upstream is of
// credentials, and a task file that says nothing does not ask for them.
func TestOnlyVariablesThatSomebodyNamedEnterACell(t *testing.T) {
	file := filepath.Join(t.TempDir(), "task.yaml")
	for text, want := range map[string]string{
		"{image: i}": "",
		"{image: i, env_passthrough_extra: [MINE, ANTHROPIC_API_KEY, HOME]}": "MINE ANTHROPIC_API_KEY",
		"{image: i, env_passthrough: [OTHER_KEY, UNSET]}":                    "OTHER_KEY",
	} {
		err := os.WriteFile(file, []byte("{task_id: a, description: b, initial_prompt: c, agent: {type: command, command: x}, sandbox: {driver: docker, docker: "+text+
			"}, success_criteria: [{type: file_exists, path: a, description: d}]}"), 0o600)
		if err != nil {
			t.Fatal(err)
		}
		l := &tasks.Loader{}
		loaded, err := l.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		task, err := l.Resolve(loaded, tasks.Layers{})
		if err != nil {
			t.Fatal(err)
		}
		r := Request{Task: task, Phase: oci.Execute, Planned: true, Place: InCell, TaskFile: file, Lookup: func(name string) (string, bool) {
			return "secret", name != "UNSET"
		}}
		accepted, err := Consent(r, Answer{TaskFile: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(accepted.Variables(), " "); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// TestAGradeGetsTheVariablesOfItsRun: what the agent's cell did not have is
// neither given to the grade nor missed there.
func TestAGradeGetsTheVariablesOfItsRun(t *testing.T) {
	for _, passed := range [][]string{nil, {"API_KEY"}, {}} {
		r := request(t, nil)
		r.Task.Sandbox.Docker.EnvPassthrough = []string{"API_KEY", "HOME"}
		if passed != nil {
			r.Passed = &passed
		}
		accepted, err := Consent(r, Answer{TaskFile: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := 1
		if passed != nil {
			want = len(passed)
		}
		if got := accepted.Variables(); len(got) != want || len(accepted.Withheld()) != 0 {
			t.Errorf("%v: %v, withheld %v", passed, got, accepted.Withheld())
		}
	}
}

func TestGrantsOfTheExecutePhase(t *testing.T) {
	plugin := t.TempDir()
	const image, everything = "image=image:1; ", "image=image:1; network=bridge"
	for name, c := range map[string]struct {
		change func(*Request)
		want   string
	}{
		"a docker task": {nil, everything},
		"criteria are for the grade": {func(r *Request) {
			r.Task.SuccessCriteria = append(r.Task.SuccessCriteria, &tasks.LLMJudge{JudgeInput: tasks.JudgeInput{Enabled: true}})
		}, everything},
		"usual capabilities": {func(r *Request) { r.Task.Sandbox.Podman = nil }, image + "capabilities=...; network=bridge"},
		"set-uid programs":   {func(r *Request) { r.Task.Sandbox.Podman.SetUID = true }, image + "capabilities=...; network=bridge"},
		"pre_run, with the task directory and variables": {func(r *Request) { r.Task.PreRun = []tasks.PreRun{{Command: "setup"}} },
			everything + "; path=...; variable=API_KEY; command=setup"},
		"packages": {func(r *Request) {
			r.Task.Sandbox.Driver = tasks.DriverPodman
			r.Task.Sandbox.Podman.Network = tasks.NetworkNone
			r.Task.Sandbox.Python = &tasks.Packages{EnvPackages: []string{"a", "b"}}
			r.Task.Sandbox.Node = &tasks.Packages{}
		}, "image=image:1; command=install a b"},
		"no network": {func(r *Request) { r.Task.Sandbox.Podman.Network = tasks.NetworkNone }, "image=image:1"},
		"the model and a host": {func(r *Request) {
			r.Task.Sandbox.Podman.Network = tasks.NetworkLLMOnly
			r.Task.Sandbox.Podman.Egress = []string{"b:443", "a"}
		}, image + "network=llm_only; network=a, b:443"},
		"mounts": {func(r *Request) { r.Task.Sandbox.Docker.ExtraMounts = []string{"/a:/b:ro", "/c:/d"} },
			everything + "; mount=/a:/b:ro; mount=/c:/d"},
		"a Dockerfile": {func(r *Request) { r.Task.Sandbox.Docker.DockerfilePath = "/x/Dockerfile" }, "build=/x/Dockerfile; network=bridge"},
		"templates and plugins": {func(r *Request) {
			r.Task.Sandbox.Driver = tasks.DriverPodman
			r.Task.Sandbox.Podman.Network = tasks.NetworkNone
			r.Task.Sandbox.TemplateSources = tasks.TemplateSources{{Type: tasks.Repo, URL: "https://h/r"}, {Type: tasks.TemplateDir, Path: "/t"}, {Type: tasks.StarterFiles}}
			r.Task.Agent.Plugins = []tasks.Plugin{{Path: plugin}, {Path: "/nonexistent"}}
		}, "image=image:1; path=...; path=...; command=git clone -- https://h/r"},
		"the oracle's solution": {func(r *Request) {
			r.Task.Sandbox.Driver = tasks.DriverPodman
			r.Task.Sandbox.Podman.Network, r.Task.Sandbox.Podman.Solution = tasks.NetworkNone, "solve.sh"
			r.Task.Agent.Type = tasks.Oracle
		}, "image=image:1; command=solve.sh"},
		"a tempdir task has the default image": {func(r *Request) {
			r.Task.Sandbox.Driver = tasks.DriverTempdir
			r.Task.Sandbox.Docker.ExtraMounts = []string{"/a:/b"}
			r.DefaultImage = "default:1"
		}, "image=default:1; network=bridge"},
		"no default image": {func(r *Request) { r.Task.Sandbox.Docker.Image = "" }, "image=the default image; network=bridge"},
		"no agent block":   {func(r *Request) { r.Task.Agent = nil }, everything},
	} {
		t.Run(name, func(t *testing.T) {
			if got := kinds(t, planned(t, oci.Execute, c.change)); got != c.want {
				t.Errorf("got\n%s, want\n%s", got, c.want)
			}
		})
	}
}

func TestGrantsOfAPlannedGrade(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Request)
		want   string
	}{
		"a docker task": {nil, "image=image:1; path=...; variable=API_KEY; command=test -f x"},
		"a built image": {func(r *Request) { r.Task.Sandbox.Docker.DockerfilePath = "/x/Dockerfile" },
			"image=/x/Dockerfile; path=...; variable=API_KEY; command=test -f x"},
		"a tempdir task": {func(r *Request) {
			r.Task.Sandbox.Driver = tasks.DriverTempdir
			r.Task.Sandbox.Docker.DockerfilePath = "/x/Dockerfile"
			r.DefaultImage = "default:1"
		}, "image=default:1; path=...; command=test -f x"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := kinds(t, planned(t, oci.Grade, c.change)); got != c.want {
				t.Errorf("got\n%s, want\n%s", got, c.want)
			}
		})
	}
}

// TestAPlanIsRefusedInItsOwnWords: there is no record to speak of.
func TestAPlanIsRefusedInItsOwnWords(t *testing.T) {
	for name, change := range map[string]func(*Request){
		"mounts": func(r *Request) { r.Task.Sandbox.Docker.ExtraMounts = []string{"/etc:/x"} },
		"capabilities": func(r *Request) {
			r.Task.Sandbox.Podman.Caps = tasks.Caps{Mode: tasks.CapsList, List: []string{"CAP_NOPE"}}
		},
	} {
		_, err := Grants(planned(t, oci.Grade, change))
		if err == nil || strings.Contains(err.Error(), "record") || !strings.Contains(err.Error(), "the task ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	file := filepath.Join(t.TempDir(), "gone", "task.yaml")
	r := planned(t, oci.Execute, func(r *Request) {
		r.TaskFile = file
		r.Task.PreRun = []tasks.PreRun{{Command: "true"}}
	})
	if grants, err := Grants(r); err != nil || strings.Contains(Page(grants), "task directory") {
		t.Errorf("a task directory that is not there: %v %v", grants, err)
	}
	if _, err := os.Stat(filepath.Dir(file)); err == nil {
		t.Error("asking made the directory")
	}
}
