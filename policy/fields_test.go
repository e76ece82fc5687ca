package policy

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"podgrade/oci"
	"podgrade/tasks"
)

// structs are the structs that a task is made of, criteria included.
func structs(t *testing.T) map[string]reflect.Type {
	t.Helper()
	found := map[string]reflect.Type{}
	var walk func(of reflect.Type)
	walk = func(of reflect.Type) {
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			walk(of.Elem())
		case reflect.Struct:
			if of.PkgPath() != reflect.TypeFor[tasks.Task]().PkgPath() || found[of.Name()] != nil {
				return
			}
			found[of.Name()] = of
			for i := range of.NumField() {
				if of.Field(i).IsExported() {
					walk(of.Field(i).Type)
				}
			}
		}
	}
	walk(reflect.TypeFor[tasks.Task]())
	for _, criterion := range everyCriterion() {
		walk(reflect.TypeOf(criterion))
	}
	for _, name := range criterionTypes(t) {
		if found[name] == nil {
			t.Errorf("everyCriterion lacks %s", name)
		}
	}
	return found
}

// TestEveryFieldIsClassified: a new field of a task, or of a criterion, fails
// until somebody has said what it needs.
func TestEveryFieldIsClassified(t *testing.T) {
	known, there := Fields(), map[string]bool{}
	for name, of := range structs(t) {
		for i := range of.NumField() {
			if !of.Field(i).IsExported() {
				continue
			}
			field := name + "." + of.Field(i).Name
			there[field] = true
			use, ok := known[field]
			if !ok {
				t.Errorf("nobody has said what %s needs: name it in fields.go, and in termsOf when that is a grant", field)
			}
			if (use.Kind == "") == (use.Why == "") {
				t.Errorf("%s needs a kind of grant, or a reason for none", field)
			}
		}
	}
	for field, use := range known {
		if !there[field] {
			t.Errorf("%s is no field of a task any more", field)
		}
		if use.Kind != "" && !slices.Contains(Kinds(), use.Kind) {
			t.Errorf("%s: %q is no kind", field, use.Kind)
		}
	}
	lists := 0
	for _, names := range granted {
		lists += len(strings.Fields(names))
	}
	for _, names := range needless {
		lists += len(strings.Fields(names))
	}
	if lists != len(known) {
		t.Errorf("%d names for %d fields: one is classified twice", lists, len(known))
	}
}

// everyCriterion is one of each type, with something in every field that needs a
// grant.
func everyCriterion() tasks.Criteria {
	asked := tasks.JudgeInput{Enabled: true}
	return tasks.Criteria{
		&tasks.RunCommand{Command: "true", Timeout: 30}, &tasks.CommandExecuted{}, &tasks.CommandsEfficiency{}, &tasks.SkillTriggered{},
		&tasks.UiPathEval{AgentName: "a", EvalSet: "b"}, &tasks.CLICalled{}, &tasks.FileExists{}, &tasks.FileContains{}, &tasks.FileMatchesRegex{},
		&tasks.FileCheck{Patterns: []tasks.FilePattern{{}}}, &tasks.JSONCheck{Assertions: []tasks.JSONAssertion{{}}}, &tasks.ClassificationMatch{},
		&tasks.ReferenceComparison{}, &tasks.LLMJudge{JudgeInput: asked, Model: "m"},
		&tasks.AgentJudge{JudgeInput: asked, Agent: tasks.Agent{Type: tasks.CommandLine, Command: "judge", Model: "n", Plugins: []tasks.Plugin{{Path: "/usr"}}}},
		&tasks.SystemOneJudge{JudgeInput: asked, BaseURL: "https://b", APIKeyEnv: "B_KEY", Questions: map[string]tasks.Question{"q": {}}},
	}
}

// rich is a task with something in every field that needs a grant, so that
// changing one of them must change a plan.
func rich(dir string) *tasks.Task {
	stop, number := true, 1
	text := "x"
	task := &tasks.Task{
		TaskID: "t", Agent: &tasks.Agent{Type: tasks.CommandLine, Command: "agent", Plugins: []tasks.Plugin{{Path: "/usr"}}},
		SuccessCriteria: everyCriterion(), Reference: &tasks.Reference{Directory: dir},
		PreRun: []tasks.PreRun{{Command: "pre"}}, PostRun: []tasks.PostRun{{Command: "post"}},
		Dataset: &tasks.Dataset{SampleSeed: &number}, Simulation: &tasks.Simulation{Enabled: true, Model: "s"},
		CheckerContext: &tasks.CheckerContext{APIRoute: &tasks.APIRoute{Route: "litellm", Model: "r", Params: map[string]any{"p": "q"}, EnvParams: map[string]string{"e": "E_KEY"}}},
	}
	task.RunLimits.StopEarly = &stop
	task.Sandbox = tasks.Sandbox{
		Driver: tasks.DriverDocker, Python: &tasks.Packages{EnvPackages: []string{"a"}}, Node: &tasks.Packages{EnvPackages: []string{"b"}},
		TemplateSources: tasks.TemplateSources{{Type: tasks.TemplateDir, Path: dir}, {Type: tasks.Repo, URL: "https://h/r", Commit: "c"}, {Type: tasks.StarterFiles, Files: []tasks.StarterFile{{}}}},
		RecordCLI:       []tasks.RecordCLI{{Responses: []tasks.CLIResponse{{When: tasks.CLIRule{CLIMatch: tasks.CLIMatch{Flags: map[string]tasks.FlagPredicate{"f": {Equals: &text}}}}}}}},
		Docker: tasks.Docker{
			Image: "image:1", Network: tasks.NetworkLLMOnly, WorkingDir: "/a", EgressAllowlist: []string{"h"},
			EnvPassthrough: []string{"API_KEY"}, EnvPassthroughExtra: []string{"ODD"}, ExtraMounts: []string{"/usr:/m"},
		},
	}
	return task
}

// settings are tasks of different shapes: no single one reaches every field.
func settings(dir string) map[string]func() *tasks.Task {
	with := func(change func(*tasks.Task)) func() *tasks.Task {
		return func() *tasks.Task {
			task := rich(dir)
			change(task)
			return task
		}
	}
	return map[string]func() *tasks.Task{
		"docker": with(func(*tasks.Task) {}),
		"graded": with(func(task *tasks.Task) { task.Sandbox.Docker.ExtraMounts = nil }),
		"graded with a network": with(func(task *tasks.Task) {
			task.Sandbox.Docker.ExtraMounts, task.Sandbox.Docker.Network = nil, tasks.NetworkBridge
		}),
		"an agent with plugins": with(func(task *tasks.Task) {
			task.Agent.Type, task.Agent.ClaudeSettings = tasks.ClaudeCode, "/etc/hostname"
		}),
		"built": with(func(task *tasks.Task) {
			task.Sandbox.Docker.DockerfilePath = "/b/Dockerfile"
			task.Sandbox.Docker.Build = tasks.Build{Args: map[string]string{"A": "${ODD}"}, Secrets: []string{"s"}, ExtraArgs: []string{"o"}}
		}),
		"podman": with(func(task *tasks.Task) {
			task.Agent.Type, task.Sandbox.Docker.ExtraMounts = tasks.Oracle, nil
			task.Sandbox.Podman = &tasks.Podman{
				Caps: tasks.Caps{Mode: tasks.CapsList, List: []string{"CAP_CHOWN"}}, Network: tasks.NetworkLLMOnly, Egress: []string{"g"},
				WorkingDir: "/b", Solution: "solve", Timeouts: tasks.Timeouts{Pull: 1, Build: 1, Start: 1, Grade: 1},
			}
		}),
		"judged by the route's model": with(func(task *tasks.Task) {
			task.Sandbox.Docker.ExtraMounts = nil
			task.SuccessCriteria = append(task.SuccessCriteria, &tasks.LLMJudge{JudgeInput: tasks.JudgeInput{Enabled: true}})
		}),
		"judged by an agent with plugins": with(func(task *tasks.Task) {
			task.Sandbox.Docker.ExtraMounts = nil
			judge := task.SuccessCriteria[slices.IndexFunc(task.SuccessCriteria, func(c tasks.Criterion) bool { _, is := c.(*tasks.AgentJudge); return is })].(*tasks.AgentJudge)
			judge.Agent.Type, judge.Agent.ClaudeSettings = tasks.ClaudeCode, "/etc/hostname"
		}),
	}
}

// plansOf are the plans of a task in every phase and place.
func plansOf(t *testing.T, task *tasks.Task, file string) string {
	var text strings.Builder
	for _, r := range []Request{
		{Phase: oci.Grade, Place: InCell}, {Phase: oci.Grade, Place: InCell, RecordedNetwork: true}, {Phase: oci.Grade, Place: OnHost},
		{Phase: oci.Execute, Place: InCell, Planned: true, Pull: true}, {Phase: oci.Execute, Place: OnHost, Planned: true}, {Phase: oci.Grade, Place: InCell, Planned: true},
	} {
		r.Task, r.TaskFile, r.RunDir = task, file, "/r"
		r.Lookup = func(name string) (string, bool) { return "v", !strings.HasPrefix(name, "UNSET") }
		plan, err := PlanOf(r)
		if err != nil {
			fmt.Fprintln(&text, err)
			continue
		}
		fmt.Fprintf(&text, "%s\n", plan.Canonical())
	}
	return text.String()
}

// mutations yields every exported leaf and container below a value, with the name
// of its field, changed: shown is called while it is.
func mutations(v reflect.Value, field string, shown func(field string)) {
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if !v.IsNil() && v.Kind() == reflect.Pointer {
			mutations(v.Elem(), field, shown)
		} else if !v.IsNil() && v.Elem().Kind() == reflect.Pointer {
			mutations(v.Elem(), field, shown)
		} else if v.Type() == reflect.TypeFor[any]() {
			changed(v, reflect.ValueOf("/usr/bin"), field, shown)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				mutations(v.Field(i), v.Type().Name()+"."+f.Name, shown)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			mutations(v.Index(i), field, shown)
		}
		if v.Type().Elem().Kind() == reflect.String {
			more := "OTHER"
			if field == "Caps.List" {
				more = "CAP_FOWNER"
			}
			changed(v, reflect.Append(v.Slice3(0, v.Len(), v.Len()), reflect.ValueOf(more)), field, shown)
		}
		if v.Len() > 0 {
			changed(v, reflect.Zero(v.Type()), field, shown)
		}
	case reflect.Map:
		changed(v, reflect.Zero(v.Type()), field, shown)
	case reflect.String:
		other := "other"
		switch field {
		case "Docker.Network", "Podman.Network":
			other = tasks.NetworkNone
		case "Caps.List":
			other = "CAP_KILL"
		case "Plugin.Path", "Reference.Directory":
			other = "/bin"
		}
		changed(v, reflect.ValueOf(other).Convert(v.Type()), field, shown)
	case reflect.Bool:
		changed(v, reflect.ValueOf(!v.Bool()), field, shown)
	case reflect.Int, reflect.Float64:
		changed(v, reflect.ValueOf(9999).Convert(v.Type()), field, shown)
	}
}

func changed(v, to reflect.Value, field string, shown func(string)) {
	was := reflect.New(v.Type()).Elem()
	was.Set(v)
	v.Set(to)
	shown(field)
	v.Set(was)
}

// TestAPlanShowsWhatNeedsAGrantAndNothingElse changes every field of tasks that
// use all of them: one that needs a grant changes some plan, and one that needs
// none changes no plan in any phase and place.
func TestAPlanShowsWhatNeedsAGrantAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "task.yaml")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	uses, shows, tried := Fields(), map[string]bool{}, map[string]bool{}
	for name, make := range settings(dir) {
		task := make()
		before := plansOf(t, task, file)
		mutations(reflect.ValueOf(task), "", func(field string) {
			tried[field] = true
			if plansOf(t, task, file) == before {
				return
			}
			shows[field] = true
			if use := uses[field]; use.Kind == "" && !strings.HasPrefix(use.Why, "it decides") {
				t.Errorf("%s: %s needs no grant, they say (%s), and changes the plan", name, field, use.Why)
			}
		})
		if after := plansOf(t, task, file); after != before {
			t.Fatalf("%s: the task was not put back", name)
		}
	}
	for field, use := range uses {
		if use.Kind != "" && tried[field] && !shows[field] {
			t.Errorf("%s needs a grant (%s), and changing it changes no plan", field, use.Kind)
		}
		if use.Kind != "" && !tried[field] && field != "Docker.Build" && field != "Podman.Caps" && field != "Podman.Timeouts" && field != "Sandbox.Python" && field != "Sandbox.Node" {
			t.Errorf("%s needs a grant, and nothing tried it", field)
		}
	}
}
