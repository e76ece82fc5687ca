package policy

import (
	"bytes"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"podgrade/oci"
	"podgrade/tasks"
)

// request is a docker row with one command; change edits it.
func request(t *testing.T, change func(*Request)) Request {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "task.yaml")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	task := &tasks.Task{TaskID: "t", SuccessCriteria: tasks.Criteria{command("test -f x")}}
	task.Sandbox.Driver = tasks.DriverDocker
	task.Sandbox.Docker.Image = "image:1"
	task.Sandbox.Docker.Network = tasks.NetworkBridge
	task.Sandbox.Docker.EnvPassthrough = []string{"API_KEY", "HOME", "UNSET"}
	r := Request{
		Task: task, Phase: oci.Grade, Place: InCell, TaskFile: file, RunDir: filepath.Join(dir, "run"),
		Lookup: func(name string) (string, bool) {
			value, ok := map[string]string{"API_KEY": "secret", "HOME": "/home/me", "ODD": "odd"}[name]
			return value, ok
		},
	}
	if change != nil {
		change(&r)
	}
	return r
}

func command(line string) *tasks.RunCommand {
	return &tasks.RunCommand{Base: tasks.Common{Type: tasks.TypeRunCommand, Description: "d"}, Command: line}
}

// kinds is a grant list in short.
func kinds(t *testing.T, r Request) string {
	t.Helper()
	grants, err := Grants(r)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, g := range grants {
		value := g.Value
		if g.Kind == Path || g.Kind == Capabilities {
			value = "..."
		}
		all = append(all, string(g.Kind)+"="+value)
	}
	return strings.Join(all, "; ")
}

func TestGrants(t *testing.T) {
	file := &tasks.FileExists{Path: "x"}
	tests := []struct {
		name   string
		change func(*Request)
		want   string
	}{
		{"a docker row", nil, "image=image:1; capabilities=...; path=...; variable=API_KEY; command=test -f x"},
		{"file criteria only", func(r *Request) { r.Task.SuccessCriteria = tasks.Criteria{file} }, "image=image:1; capabilities=..."},
		{"a podman row", func(r *Request) { r.Task.Sandbox.Driver = tasks.DriverPodman }, "image=image:1; path=...; command=test -f x"},
		{"the network", func(r *Request) { r.RecordedNetwork = true }, "image=image:1; capabilities=...; network=bridge; path=...; variable=API_KEY; command=test -f x"},
		{"network none", func(r *Request) {
			r.RecordedNetwork = true
			r.Task.Sandbox.Docker.Network = tasks.NetworkNone
		}, "image=image:1; capabilities=...; path=...; variable=API_KEY; command=test -f x"},
		{"an unusual variable of the base list", func(r *Request) { r.Task.Sandbox.Docker.EnvPassthrough = []string{"ODD"} },
			"image=image:1; capabilities=...; path=...; variable=ODD; command=test -f x"},
		{"post_run", func(r *Request) { r.Task.PostRun = []tasks.PostRun{{Command: "rm x"}} },
			"image=image:1; capabilities=...; path=...; variable=API_KEY; command=test -f x; command=rm x"},
		{"post_run that was run", func(r *Request) {
			r.Task.PostRun = []tasks.PostRun{{Command: "rm x"}}
			r.PostRunDone = true
		}, "image=image:1; capabilities=...; path=...; variable=API_KEY; command=test -f x"},
		{"packages that were lost", func(r *Request) {
			r.Task.Sandbox.Python, r.Task.Sandbox.Node = &tasks.Packages{EnvPackages: []string{"a", "b"}}, &tasks.Packages{EnvPackages: []string{"c"}}
			r.LostVenv = true
		}, "image=image:1; capabilities=...; path=...; variable=API_KEY; command=test -f x; command=install a b"},
		{"lost packages that no command needs", func(r *Request) {
			r.Task.SuccessCriteria = tasks.Criteria{file}
			r.Task.Sandbox.Python = &tasks.Packages{EnvPackages: []string{"a"}}
			r.LostVenv = true
		}, "image=image:1; capabilities=..."},
		{"no packages", func(r *Request) {
			r.Task.Sandbox.Python, r.Task.Sandbox.Node = &tasks.Packages{}, nil
			r.LostVenv, r.LostNodeModules = true, true
		}, "image=image:1; capabilities=...; path=...; variable=API_KEY; command=test -f x"},
		{"pre_run is not run again", func(r *Request) { r.Task.PreRun = []tasks.PreRun{{Command: "setup"}} },
			"image=image:1; capabilities=...; path=...; variable=API_KEY; command=test -f x"},
		{"judges", func(r *Request) {
			r.Task.SuccessCriteria = tasks.Criteria{
				&tasks.LLMJudge{JudgeInput: tasks.JudgeInput{Enabled: true}, Model: "m"},
				&tasks.LLMJudge{},
				&tasks.AgentJudge{JudgeInput: tasks.JudgeInput{Enabled: true}},
			}
		}, "image=image:1; capabilities=...; path=...; judge=m by your own route; judge=the default model by your own route"},
		{"on the host", func(r *Request) { r.Place = OnHost }, "path=...; variable=API_KEY; host command=test -f x"},
		{"a pin", func(r *Request) {
			r.Pin = oci.Pin{Reference: "image:1", ID: strings.Repeat("a", 64), Platform: "linux/amd64"}
		},
			"image=image:1 (id aaaaaaaaaaaa, linux/amd64); capabilities=...; path=...; variable=API_KEY; command=test -f x"},
		{"a state layer", func(r *Request) {
			r.Pin = oci.Pin{Reference: "image:1", ID: strings.Repeat("a", 64), Platform: "linux/amd64"}
			r.State = "sha256:1"
		},
			"image=image:1 (id aaaaaaaaaaaa, linux/amd64); state layer=sha256:1; capabilities=...; path=...; variable=API_KEY; command=test -f x"},
		{"a state layer over nothing that is pinned", func(r *Request) { r.State = "sha256:1" },
			"image=image:1; capabilities=...; path=...; variable=API_KEY; command=test -f x"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := kinds(t, request(t, test.change)); got != test.want {
				t.Errorf("got\n%s, want\n%s", got, test.want)
			}
		})
	}
}

func TestRefusedOutright(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Request)
		text   string
	}{
		{"mounts", func(r *Request) { r.Task.Sandbox.Docker.ExtraMounts = []string{"/etc:/x"} }, "/etc:/x"},
		{"a Dockerfile", func(r *Request) { r.Task.Sandbox.Docker.DockerfilePath = "/x/Dockerfile" }, "Dockerfile"},
		{"no image", func(r *Request) { r.Task.Sandbox.Docker.Image = "" }, "names no image"},
		{"llm_only", func(r *Request) {
			r.RecordedNetwork = true
			r.Task.Sandbox.Docker.Network = tasks.NetworkLLMOnly
		}, "llm_only"},
		{"an unknown capability", func(r *Request) {
			r.Task.Sandbox.Podman = &tasks.Podman{Caps: tasks.Caps{Mode: tasks.CapsList, List: []string{"CAP_EVERYTHING"}}}
		}, "CAP_EVERYTHING"},
		{"a criterion nobody knows", func(r *Request) { r.Task.SuccessCriteria = tasks.Criteria{&tasks.Common{}} }, "nobody has said"},
		{"no task file for TASK_DIR", func(r *Request) {
			r.TaskFile = "/nowhere/task.yaml"
			r.Task.SuccessCriteria = tasks.Criteria{command("sh $TASK_DIR/check.sh")}
		}, "task directory"},
		{"no task file for a reference", func(r *Request) {
			r.TaskFile = ""
			r.Task.Reference = &tasks.Reference{Directory: "ref"}
		}, "reference"},
		{"no reference", func(r *Request) { r.Task.Reference = &tasks.Reference{Directory: "ref"} }, "reference"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := Consent(request(t, test.change), Answer{RecordedCommands: true}, new(bytes.Buffer))
			var refusal *Refusal
			if !errors.As(err, &refusal) || !strings.Contains(err.Error(), test.text) || refusal.Do == "" {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestConsent(t *testing.T) {
	r := request(t, nil)
	var notice bytes.Buffer
	_, err := Consent(r, Answer{}, &notice)
	var refusal *Refusal
	if !errors.As(err, &refusal) || len(refusal.Grants) != 5 || notice.Len() > 0 {
		t.Fatalf("without consent: %v; printed %q", err, notice.String())
	}
	for _, want := range []string{"1 command:\n  - command: test -f x", "4 grants:\n  - image: image:1", "--allow-recorded-commands"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the page holds no %q:\n%v", want, err)
		}
	}
	a, err := Consent(r, Answer{RecordedCommands: true}, &notice)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(notice.String(), "test -f x") || strings.Contains(notice.String(), "secret") {
		t.Errorf("printed %q", notice.String())
	}
	if got := strings.Join(a.Env(), " "); got != "API_KEY=secret" {
		t.Errorf("env %s", got)
	}
	if !a.Valid() || !a.Runs() || a.Network() != oci.Sealed || a.TaskDir() != filepath.Dir(r.TaskFile) || len(a.Withheld()) != 0 {
		t.Errorf("accepted %+v", a)
	}
}

func TestAHostThatOnlyReads(t *testing.T) {
	reading := func(r *Request) {
		r.Place = OnHost
		r.Task.SuccessCriteria = tasks.Criteria{&tasks.FileExists{Path: "x"}}
		r.Task.Reference = &tasks.Reference{Directory: filepath.Dir(r.RunDir)}
	}
	if _, err := Consent(request(t, reading), Answer{}, new(bytes.Buffer)); err == nil {
		t.Error("a path that a record names is read without any answer")
	}
	allowed := func(r *Request) {
		reading(r)
		r.HostAllowed = true
	}
	if _, err := Consent(request(t, allowed), Answer{}, new(bytes.Buffer)); err != nil {
		t.Errorf("reading on the host was asked for: %v", err)
	}
	runs := func(r *Request) {
		allowed(r)
		r.Task.SuccessCriteria = append(r.Task.SuccessCriteria, command("id"))
	}
	if _, err := Consent(request(t, runs), Answer{}, new(bytes.Buffer)); err == nil {
		t.Error("--allow-host-grading alone runs a recorded command")
	}
}

func TestTheZeroValueAllowsNothing(t *testing.T) {
	var a Accepted
	if a.Valid() || a.Runs() || a.Network() != oci.Sealed || len(a.Capabilities()) != 0 || len(a.Env()) != 0 || a.TaskDir() != "" || a.State() != "" {
		t.Errorf("%+v", a)
	}
}

func TestTaskDirIsShownAsItResolves(t *testing.T) {
	secret := t.TempDir()
	os.WriteFile(filepath.Join(secret, "task.yaml"), nil, 0o644)
	link := filepath.Join(t.TempDir(), "harmless")
	if err := os.Symlink(secret, link); err != nil {
		t.Fatal(err)
	}
	grants, err := Grants(request(t, func(r *Request) { r.TaskFile = filepath.Join(link, "task.yaml") }))
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range grants {
		if g.Kind == Path && g.Value != secret {
			t.Errorf("shown as %s, leads to %s", g.Value, secret)
		}
	}
	// Without the file, or out of reach, nothing is read there.
	loop := filepath.Join(secret, "loop")
	if err := os.Symlink("loop", loop); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{filepath.Join(secret, "other.yaml"), "tasks/task.yaml", filepath.Join(secret, "task.yaml", "x.yaml"), filepath.Join(loop, "x.yaml")} {
		grants, err = Grants(request(t, func(r *Request) { r.TaskFile = file }))
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
		for _, g := range grants {
			if g.Kind == Path {
				t.Errorf("a task directory without its task file: %s", g)
			}
		}
		_, err = Grants(request(t, func(r *Request) {
			r.TaskFile = file
			r.Task.SuccessCriteria = tasks.Criteria{command("sh $TASK_DIR/check.sh")}
		}))
		if err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s is needed: %v", file, err)
		}
	}
}

func TestGrantsAreNeutral(t *testing.T) {
	_, err := Consent(request(t, func(r *Request) {
		r.Task.SuccessCriteria = tasks.Criteria{command("echo \x1b[2J\u202e\n  - command: harmless")}
	}), Answer{}, new(bytes.Buffer))
	if strings.ContainsAny(err.Error(), "\x1b\u202e") || strings.Contains(err.Error(), "\n  - command: harmless") {
		t.Errorf("%q", err)
	}
}

// TestEveryCriterionIsClassified reads the source: each criterion type of
// package tasks must stand in a case of the type switch.
func TestEveryCriterionIsClassified(t *testing.T) {
	classified := map[string]bool{}
	source, err := parser.ParseFile(token.NewFileSet(), "criterion.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(source, func(n ast.Node) bool {
		if clause, ok := n.(*ast.CaseClause); ok {
			for _, each := range clause.List {
				if star, ok := each.(*ast.StarExpr); ok {
					classified[star.X.(*ast.SelectorExpr).Sel.Name] = true
				}
			}
		}
		return true
	})
	types := criterionTypes(t)
	if len(types) < 16 {
		t.Fatalf("only %d criterion types were found: %v", len(types), types)
	}
	for _, name := range types {
		if !classified[name] {
			t.Errorf("nobody has said what a criterion of type %s needs", name)
		}
	}
}

// criterionTypes are the structs of package tasks that embed Base.
func criterionTypes(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../tasks/criterion*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no sources: %v", err)
	}
	var types []string
	for _, file := range files {
		source, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(source, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if body, ok := spec.Type.(*ast.StructType); ok && embedsBase(body) {
				types = append(types, spec.Name.Name)
			}
			return true
		})
	}
	return types
}

func embedsBase(body *ast.StructType) bool {
	for _, field := range body.Fields.List {
		if name, ok := field.Type.(*ast.Ident); ok && len(field.Names) == 0 && name.Name == "Base" {
			return true
		}
	}
	return false
}
