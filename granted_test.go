package podgrade_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path"
	"slices"
	"strings"
	"testing"

	"podgrade/policy"
)

// reader is a function that reads a field which needs a grant, without package
// policy: the file, the function and the field.
type reader struct{ file, function, field string }

func (r reader) String() string { return r.file + " " + r.function + " " + r.field }

// readers are those that may, by file and function, with the fields and the
// reason. None of them takes a field of a record in order to use it.
var readers = map[string]struct {
	fields string
	why    string
}{
	"regrade/check.go setUpProblems":       {"Agent.Command", operators},
	"regrade/digest.go contents":           {"Docker.DockerfilePath Podman.Solution Sandbox.TemplateSources TemplateSource.Path", operators},
	"regrade/digest.go placeless":          {"Docker.DockerfilePath Sandbox.TemplateSources TemplateSource.Path", noted},
	"regrade/execute.go openWith":          {"Timeouts.Start", accepted},
	"regrade/execute.go open":              {"Task.Network", operators},
	"regrade/execute.go referenceDirs":     {"Reference.Directory", operators},
	"regrade/execute_image.go build":       {"Build.Args Build.ExtraArgs Build.Secrets Timeouts.Build", accepted},
	"regrade/execute_image.go findImage":   {"Timeouts.Pull", accepted},
	"regrade/executed.go name":             {"Agent.Model", operators},
	"regrade/given.go network":             {"Task.Network", operators},
	"regrade/grade_record.go authorErrors": {"Task.SuccessCriteria", noted},
	"regrade/grade_record.go gaps":         {"Packages.EnvPackages Sandbox.Node Sandbox.Python", noted},
	"regrade/grade_record.go read":         {"Task.SuccessCriteria", noted},
	"regrade/hooks.go postRun":             {"PostRun.Command", accepted},
	"regrade/job.go cannotGive":            {"Docker.ExtraMounts Podman.SetUID Sandbox.Hosts Task.Network", operators},
	"regrade/job.go noModelFor":            {"Task.Network", operators},
	"regrade/plan.go failed":               {"Task.SuccessCriteria", operators},
	"regrade/plan.go rows":                 {"Task.SuccessCriteria", operators},
	"regrade/plan_row.go criteriaProblems": {"Task.SuccessCriteria", operators},
	"regrade/plan_row.go describe":         {"Agent.Model Task.Network", operators},
	"regrade/plan_row.go image":            {"Docker.DockerfilePath Docker.Image", operators},
	"regrade/plan_row.go needs":            {"Task.SuccessCriteria", operators},
	"regrade/pre_run.go hook":              {"PreRun.Command", accepted},
	"regrade/run.go gradeFindings":         {"Task.SuccessCriteria", operators},
	"regrade/setup.go repository":          {"TemplateSource.Commit TemplateSource.URL", accepted},
	"regrade/setup.go templateDir":         {"TemplateSource.Path", accepted},
	"regrade/setup_packages.go node":       {"Packages.EnvPackages", accepted},
	"regrade/setup_packages.go python":     {"Packages.EnvPackages", accepted},
	"regrade/shadows.go ofVenv":            {"Sandbox.Python", noted},
	"regrade/surroundings.go searchPath":   {"Sandbox.Python", noted},
	"regrade/verdict.go stamp":             {"Task.PreRun", noted},
}

// Why a function may read such a field.
const (
	accepted  = "it has it from policy.Accepted"
	operators = "the task is of the operator's own file, which is asked about as such"
	noted     = "it uses nothing of it: whether it is there is counted, compared or told"
)

// grantedMethods are the methods of tasks that say what such fields come to.
var grantedMethods = map[string]bool{
	"Task.Network": true, "Sandbox.Capabilities": true, "Sandbox.WorkingDir": true, "Sandbox.Hosts": true, "Docker.Passthrough": true, "Loader.PluginDir": true,
}

// generics are the functions of the standard library through which a value keeps
// its type. Nothing else of it has to be known: its own types hold no task.
var generics = map[string]string{
	"iter": `package iter
type Seq[V any] func(yield func(V) bool)
type Seq2[K, V any] func(yield func(K, V) bool)`,
	"slices": `package slices
import "iter"
func Clone[S ~[]E, E any](s S) (r S) { return }
func Compact[S ~[]E, E comparable](s S) (r S) { return }
func DeleteFunc[S ~[]E, E any](s S, del func(E) bool) (r S) { return }
func Concat[S ~[]E, E any](s ...S) (r S) { return }
func Insert[S ~[]E, E any](s S, i int, v ...E) (r S) { return }
func Collect[E any](seq iter.Seq[E]) (r []E) { return }
func Sorted[E any](seq iter.Seq[E]) (r []E) { return }
func Values[S ~[]E, E any](s S) (r iter.Seq[E]) { return }
func All[S ~[]E, E any](s S) (r iter.Seq2[int, E]) { return }
func Backward[S ~[]E, E any](s S) (r iter.Seq2[int, E]) { return }`,
	"maps": `package maps
import "iter"
func Clone[M ~map[K]V, K comparable, V any](m M) (r M) { return }
func Keys[M ~map[K]V, K comparable, V any](m M) (r iter.Seq[K]) { return }
func Values[M ~map[K]V, K comparable, V any](m M) (r iter.Seq[V]) { return }
func All[M ~map[K]V, K comparable, V any](m M) (r iter.Seq2[K, V]) { return }`,
	"cmp": `package cmp
func Or[T comparable](v ...T) (r T) { return }`,
}

// typed type-checks packages of the module from their source. What it does not
// know of other modules stays without a type.
type typed struct {
	t       *testing.T
	set     *token.FileSet
	files   map[string][]*ast.File // by package directory
	checked map[string]*types.Package
	info    *types.Info
}

func newTyped(t *testing.T) *typed {
	c := &typed{
		t: t, set: token.NewFileSet(), files: map[string][]*ast.File{}, checked: map[string]*types.Package{"unsafe": types.Unsafe},
		info: &types.Info{Selections: map[*ast.SelectorExpr]*types.Selection{}},
	}
	for _, s := range sources(t) {
		c.add(s.path, nil)
	}
	return c
}

func (c *typed) add(name string, text any) {
	c.t.Helper()
	file, err := parser.ParseFile(c.set, name, text, parser.SkipObjectResolution)
	if err != nil {
		c.t.Fatal(err)
	}
	// A file for other systems would define everything twice.
	if strings.HasSuffix(name, "_other.go") {
		return
	}
	c.files[path.Dir(name)] = append(c.files[path.Dir(name)], file)
}

// Import implements types.Importer.
func (c *typed) Import(name string) (*types.Package, error) {
	if known := c.checked[name]; known != nil {
		return known, nil
	}
	dir, ours := own(name)
	files := c.files[dir]
	if text, known := generics[name]; known {
		file, err := parser.ParseFile(c.set, name+".go", text, parser.SkipObjectResolution)
		if err != nil {
			c.t.Fatal(err)
		}
		files, ours = []*ast.File{file}, true
	}
	if !ours {
		pkg := types.NewPackage(name, path.Base(name))
		pkg.MarkComplete()
		c.checked[name] = pkg
		return pkg, nil
	}
	config := types.Config{Importer: c, Error: func(error) {}}
	pkg, _ := config.Check(name, c.set, files, c.info) // what other modules make of it is not known
	c.checked[name] = pkg
	return pkg, nil
}

// readersIn are the functions of a package that read what needs a grant.
func (c *typed) readersIn(dir string) []reader {
	if _, err := c.Import(module + "/" + dir); err != nil {
		c.t.Fatal(err)
	}
	uses := policy.Fields()
	var found []reader
	for _, file := range c.files[dir] {
		for _, decl := range file.Decls {
			function := "var"
			if f, ok := decl.(*ast.FuncDecl); ok {
				function = f.Name.Name
			}
			ast.Inspect(decl, func(n ast.Node) bool {
				selector, ok := n.(*ast.SelectorExpr)
				if !ok || c.info.Selections[selector] == nil {
					return true
				}
				name := selected(c.info.Selections[selector])
				if uses[name].Kind != "" || grantedMethods[name] {
					found = append(found, reader{c.set.Position(n.Pos()).Filename, function, name})
				}
				return true
			})
		}
	}
	return found
}

// selected is TYPE.FIELD or TYPE.METHOD of a selection of package tasks; "" of
// any other.
func selected(s *types.Selection) string {
	if s.Obj().Pkg() == nil || s.Obj().Pkg().Path() != module+"/tasks" {
		return ""
	}
	of := s.Recv()
	for i, at := range s.Index() {
		if pointer, ok := of.Underlying().(*types.Pointer); ok {
			of = pointer.Elem()
		}
		name := "?"
		if named, ok := types.Unalias(of).(*types.Named); ok {
			name = named.Obj().Name()
		}
		if i == len(s.Index())-1 {
			return name + "." + s.Obj().Name()
		}
		body, ok := of.Underlying().(*types.Struct)
		if !ok {
			return name + "." + s.Obj().Name()
		}
		of = body.Field(at).Type()
	}
	return ""
}

// TestOnlyPolicyReadsWhatNeedsAGrant: what a record can ask for reaches an engine
// as an accepted value of policy only.
func TestOnlyPolicyReadsWhatNeedsAGrant(t *testing.T) {
	c := newTyped(t)
	used, seen := map[string]bool{}, 0
	for dir := range c.files {
		first, _, _ := strings.Cut(dir, "/")
		if !slices.Contains([]string{"regrade", "isolation", "cmd"}, first) {
			continue
		}
		for _, r := range c.readersIn(dir) {
			seen++
			key := r.file + " " + r.function
			used[key+" "+r.field] = true
			if !slices.Contains(strings.Fields(readers[key].fields), r.field) {
				t.Errorf("%s: only package policy reads what needs a grant; use what policy.Accepted gives, or say in readers why this is no record's", r)
			}
		}
	}
	for key, allowed := range readers {
		if allowed.why == "" {
			t.Errorf("%s: no reason is given", key)
		}
		for field := range strings.FieldsSeq(allowed.fields) {
			if !used[key+" "+field] {
				t.Errorf("%s does not read %s any more: take it off the list", key, field)
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d were found: the test looks at nothing", seen)
	}
}

// TestAReaderOfWhatNeedsAGrantIsFound makes sure that the rule above bites, however
// a value is come by.
func TestAReaderOfWhatNeedsAGrantIsFound(t *testing.T) {
	c := newTyped(t)
	c.add("regrade/zz_example.go", `package regrade

import (
	"maps"
	"slices"

	"podgrade/tasks"
)

func (g *grading) one() []string {
	docker := g.task.Sandbox.Docker
	return slices.Clone(docker.ExtraMounts)
}

func two(list tasks.Criteria) (lines []string) {
	for _, c := range slices.Clone(list) {
		if run, ok := c.(*tasks.RunCommand); ok {
			lines = append(lines, run.Command)
		}
	}
	for hook := range slices.Values([]tasks.PostRun{}) {
		lines = append(lines, hook.Command)
	}
	return append(lines, slices.Collect(maps.Values(map[string]*tasks.LLMJudge{}))[0].Model)
}

func three(given *Given) (string, bool) { return given.task.Network() }

func none(task *tasks.Task) (string, int) { return task.TaskID, len(task.Sandbox.Docker.Build.Args) }
`)
	var found []string
	for _, r := range c.readersIn("regrade") {
		if strings.HasSuffix(r.file, "zz_example.go") {
			found = append(found, r.function+" "+r.field)
		}
	}
	want := "one Docker.ExtraMounts; two RunCommand.Command; two PostRun.Command; two LLMJudge.Model; three Task.Network; none Build.Args; none Docker.Build"
	if got := strings.Join(found, "; "); !sameWords(got, want) {
		t.Errorf("found %s\nwant  %s", got, want)
	}
}

func sameWords(a, b string) bool {
	x, y := strings.Split(a, "; "), strings.Split(b, "; ")
	slices.Sort(x)
	slices.Sort(y)
	return fmt.Sprint(x) == fmt.Sprint(y)
}
