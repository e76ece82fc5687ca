package policy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"podgrade/oci"
	"podgrade/tasks"
)

// kindCases is one request for each kind of grant, with the value that the page
// must show.
func kindCases(t *testing.T) map[Kind]struct {
	request Request
	value   string
} {
	t.Helper()
	type one = struct {
		request Request
		value   string
	}
	pin := oci.Pin{Reference: "image:1", ID: strings.Repeat("a", 64), Platform: "linux/amd64"}
	bin := t.TempDir()
	executing := func(change func(*Request)) Request {
		return planned(t, oci.Execute, func(r *Request) {
			r.Planned = false // a record's, which is asked for
			change(r)
		})
	}
	return map[Kind]one{
		Image:        {request(t, nil), "image:1"},
		StateLayer:   {request(t, func(r *Request) { r.Pin, r.State = pin, "sha256:1" }), "sha256:1"},
		Capabilities: {request(t, nil), strings.Join(oci.DockerCapabilities(), " ")},
		Network:      {request(t, func(r *Request) { r.RecordedNetwork = true }), tasks.NetworkBridge},
		Variable:     {request(t, nil), "API_KEY"},
		Path:         {request(t, nil), ""},
		SearchPath:   {request(t, func(r *Request) { r.Place, r.SearchPath = OnHost, bin }), bin},
		WorkingDir:   {request(t, func(r *Request) { r.Task.Sandbox.Docker.WorkingDir = "/app" }), "/app"},
		Limit: {request(t, func(r *Request) {
			r.Task.SuccessCriteria = tasks.Criteria{&tasks.RunCommand{Command: "x", Timeout: 7200}}
		}), "run_command: 7200 s"},
		Judge: {request(t, func(r *Request) {
			r.Task.SuccessCriteria = tasks.Criteria{&tasks.SystemOneJudge{JudgeInput: tasks.JudgeInput{Enabled: true}, Model: "m", BaseURL: "https://b", APIKeyEnv: "ODD"}}
		}), "m at https://b"},
		Command:     {request(t, nil), "test -f x"},
		HostCommand: {request(t, func(r *Request) { r.Place = OnHost }), "test -f x"},
		Mount:       {executing(func(r *Request) { r.Task.Sandbox.Docker.ExtraMounts = []string{bin + ":/m:ro"} }), bin + ":/m:ro"},
		Build: {executing(func(r *Request) {
			r.Task.Sandbox.Docker.DockerfilePath = bin + "/Dockerfile"
			r.Task.Sandbox.Docker.Build = tasks.Build{Args: map[string]string{"K": "${API_KEY}"}, Secrets: []string{"id=s"}, ExtraArgs: []string{"--privileged"}}
		}), bin + "/Dockerfile"},
		Pull: {executing(func(r *Request) { r.Pull = true }), "image:1"},
	}
}

// TestEveryKindIsShownRefusedAndThenUsed: for each kind of grant, the page shows
// it, nobody gets it without consent, and with consent it is used, and only that.
func TestEveryKindIsShownRefusedAndThenUsed(t *testing.T) {
	cases := kindCases(t)
	for _, kind := range Kinds() {
		c, ok := cases[kind]
		if !ok {
			t.Errorf("nothing is known of the kind %s", kind)
			continue
		}
		t.Run(string(kind), func(t *testing.T) {
			value := c.value
			if kind == Path {
				value = filepath.Dir(c.request.TaskFile)
			}
			if kind == Build || kind == Mount { // planned only: nothing pins it
				c.request.Planned = true
			}
			var refusal *Refusal
			_, err := Consent(c.request, Answer{}, io.Discard)
			shown := func(g Grant) bool { return g.Kind == kind && strings.HasPrefix(g.Value, value) }
			if !errors.As(err, &refusal) || !slices.ContainsFunc(refusal.Grants, shown) || !strings.Contains(err.Error(), string(kind)+": "+value[:min(len(value), 100)]) {
				t.Fatalf("%s is not shown: %v", value, err)
			}
			hash, err := PlanOf(c.request)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Consent(c.request, Answer{Plans: []string{strings.Repeat("0", 64)}}, io.Discard); err == nil || !strings.Contains(err.Error(), hash.Hash()) {
				t.Errorf("another plan's hash: %v", err)
			}
			a, err := Consent(c.request, Answer{Plans: []string{hash.Hash()}}, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(a.Grants(), shown) {
				t.Error("what was accepted does not say so")
			}
			used(t, kind, value, a)
		})
	}
}

// used checks that an engine gets what was accepted, and of every other kind only
// what the list holds.
func used(t *testing.T, kind Kind, value string, a Accepted) {
	t.Helper()
	has := func(kind Kind) bool {
		return slices.ContainsFunc(a.Grants(), func(g Grant) bool { return g.Kind == kind })
	}
	setup := a.Setup()
	gets := map[Kind]bool{
		Image:        a.Image() != "" || a.Pin().Known(),
		StateLayer:   a.State() != "",
		Capabilities: len(a.Capabilities()) > 0,
		Network:      a.Network() != oci.Sealed,
		Variable:     len(a.Env()) > 0,
		Path:         a.TaskDir() != "" || a.Reference() != "",
		SearchPath:   len(a.SearchPath()) > 0,
		WorkingDir:   a.WorkingDir() != "",
		Build:        setup.Dockerfile != "",
		Pull:         a.Pulls(),
	}
	for each, got := range gets {
		if got && !has(each) {
			t.Errorf("an engine gets %s, and the list does not hold it", each)
		}
		if each == kind && !got {
			t.Errorf("%s %s was accepted, and no engine gets it", kind, value)
		}
	}
	if a.Runs() != (has(Command) || has(HostCommand)) {
		t.Errorf("commands run: %v", a.Runs())
	}
	for _, env := range a.Env() {
		name, _, _ := strings.Cut(env, "=")
		if !slices.ContainsFunc(a.Grants(), func(g Grant) bool {
			return g.Kind == Variable && g.Value == name && strings.HasPrefix(g.Reason, "commands get")
		}) {
			t.Errorf("%s enters, and is not listed", name)
		}
	}
}

// TestAKeyOfAJudgeEntersNoCell, and neither does what a build argument takes.
func TestAKeyOfAJudgeEntersNoCell(t *testing.T) {
	r := request(t, func(r *Request) {
		r.Task.SuccessCriteria = append(r.Task.SuccessCriteria, &tasks.SystemOneJudge{JudgeInput: tasks.JudgeInput{Enabled: true}, BaseURL: "https://b", APIKeyEnv: "ODD"})
	})
	a, err := Consent(r, Answer{RecordedCommands: true}, io.Discard)
	if err != nil || !slices.ContainsFunc(a.Grants(), func(g Grant) bool { return g.Kind == Variable && g.Value == "ODD" }) {
		t.Fatalf("%v: %v", err, a.Grants())
	}
	if got := strings.Join(a.Env(), " "); got != "API_KEY=secret" {
		t.Errorf("commands get %s", got)
	}
}

func TestABuildIsOneEntryWithAllThatItIsGiven(t *testing.T) {
	t.Run("D-59: a build with arguments and mounts is one entry", testABuild)
}

func testABuild(t *testing.T) {
	r := planned(t, oci.Execute, func(r *Request) {
		r.Task.Sandbox.Docker.DockerfilePath = "/nonexistent/Dockerfile"
		r.Task.Sandbox.Docker.Build = tasks.Build{Args: map[string]string{"B": "2", "A": "x${ODD}y"}, Secrets: []string{"id=s"}, ExtraArgs: []string{"--privileged"}}
	})
	grants, err := Grants(r)
	if err != nil {
		t.Fatal(err)
	}
	page := Page(grants)
	for _, want := range []string{"- build: /nonexistent/Dockerfile (an image is built from it, with all of /nonexistent", "argument A=x${ODD}y; argument B=2; secret id=s; option --privileged)", "- variable: ODD ("} {
		if strings.Count(page, want) != 1 {
			t.Errorf("the page holds no %q:\n%s", want, page)
		}
	}
}

// TestThePageNamesEveryPathOfThisHost, as it resolves.
func TestThePageNamesEveryPathOfThisHost(t *testing.T) {
	t.Run("D-60: task directory, plugins, templates, mounts, settings and reference are named, and ~/.claude as absent", func(t *testing.T) {
		real := t.TempDir()
		link := func(name string) string {
			os.Mkdir(filepath.Join(real, name), 0o755)
			path := filepath.Join(t.TempDir(), "harmless")
			if err := os.Symlink(filepath.Join(real, name), path); err != nil {
				t.Fatal(err)
			}
			return path
		}
		r := planned(t, oci.Execute, func(r *Request) {
			r.Task.PreRun = []tasks.PreRun{{Command: "true"}}
			r.Task.Agent.Plugins = []tasks.Plugin{{Path: link("plugin")}}
			r.Task.Agent.ClaudeSettings = link("settings")
			r.Task.Sandbox.TemplateSources = tasks.TemplateSources{{Type: tasks.TemplateDir, Path: link("template")}}
			r.Task.Sandbox.Docker.ExtraMounts = []string{link("mount") + ":/m:ro"}
		})
		plan, err := PlanOf(r)
		if err != nil {
			t.Fatal(err)
		}
		graded, err := PlanOf(request(t, func(r *Request) { r.Task.Reference = &tasks.Reference{Directory: link("reference")} }))
		if err != nil {
			t.Fatal(err)
		}
		page := plan.Page() + graded.Page()
		for _, want := range []string{
			"path: " + filepath.Dir(r.TaskFile), "path: " + real + "/plugin", "path: " + real + "/settings", "path: " + real + "/template",
			"mount: " + real + "/mount:/m:ro", "path: " + real + "/reference", "not ~/.claude",
		} {
			if !strings.Contains(page, want) {
				t.Errorf("the page names no %q", want)
			}
		}
		if strings.Contains(page, "harmless") {
			t.Errorf("a link is shown and not what it leads to:\n%s", page)
		}
	})
}

// TestThePageSaysWhatIsNotThere: what is granted is not said to be absent.
func TestThePageSaysWhatIsNotThere(t *testing.T) {
	sealed := request(t, func(r *Request) { r.Lookup = func(string) (string, bool) { return "", false } })
	for name, c := range map[string]struct {
		request Request
		has     []string
		not     []string
	}{
		"a sealed cell":     {sealed, []string{"no credential store", "no key enters the cell, and no variable of this host\n", "no network: ", "nothing is built, and nothing is fetched", "no command runs on this host", "workspace is not changed"}, []string{"are in their reach"}},
		"with grants":       {request(t, func(r *Request) { r.RecordedNetwork = true }), []string{"but those that are listed", "not reached over the network"}, []string{"no network: "}},
		"a host":            {request(t, func(r *Request) { r.Place = OnHost }), []string{"your files, network and credential stores are in their reach"}, []string{"no credential store"}},
		"a host that reads": {request(t, func(r *Request) { r.Place, r.Task.SuccessCriteria = OnHost, nil }), []string{"nothing beyond the seal is asked for", "no command runs"}, []string{"in their reach"}},
		"a build":           {planned(t, oci.Execute, func(r *Request) { r.Task.Sandbox.Docker.DockerfilePath = "/x/D" }), nil, []string{"nothing is built", "workspace is not changed"}},
	} {
		plan, err := PlanOf(c.request)
		if err != nil {
			t.Fatal(err)
		}
		page := plan.Page()
		for _, text := range c.has {
			if !strings.Contains(page, text) {
				t.Errorf("%s: the page does not say %q:\n%s", name, text, page)
			}
		}
		for _, text := range c.not {
			if strings.Contains(page, text) {
				t.Errorf("%s: the page says %q:\n%s", name, text, page)
			}
		}
	}
}

func TestAPlanHasOneHash(t *testing.T) {
	r := request(t, nil)
	plan, err := PlanOf(r)
	if err != nil {
		t.Fatal(err)
	}
	again, _ := PlanOf(r)
	sum := sha256.Sum256(plan.Canonical())
	if plan.Hash() != again.Hash() || plan.Hash() != hex.EncodeToString(sum[:]) || !IsHash(plan.Hash()) {
		t.Errorf("%s %s", plan.Hash(), again.Hash())
	}
	if !json.Valid(plan.Canonical()) || bytes.ContainsAny(plan.Canonical(), "\n") {
		t.Errorf("%s", plan.Canonical())
	}
	seen := map[string]int{plan.Hash(): -1}
	for i, change := range []func(*Plan){
		func(p *Plan) { p.Place = OnHost },
		func(p *Plan) { p.Phase = oci.Execute },
		func(p *Plan) { p.Grants = p.Grants[1:] },
		func(p *Plan) { p.Grants[0].Value += " " },
		func(p *Plan) { p.Grants[0].Reason += "." },
		func(p *Plan) { p.Grants[0].Kind = Pull },
		func(p *Plan) { p.Grants[0].Value = "\xff" },
		func(p *Plan) { p.Grants[0].Value = "\xfe" },
		func(p *Plan) { p.Grants[0].Value = "\ufffd" },
		func(p *Plan) { p.Grants[0], p.Grants[1] = p.Grants[1], p.Grants[0] },
	} {
		other := plan
		other.Grants = slices.Clone(plan.Grants)
		change(&other)
		if before, taken := seen[other.Hash()]; taken {
			t.Errorf("plans %d and %d share a hash", before, i)
		}
		seen[other.Hash()] = i
	}
	for _, not := range []string{"", "abc", strings.ToUpper(plan.Hash()), plan.Hash() + "0", strings.Repeat("g", 64)} {
		if not != strings.ToLower(not) || !IsHash(not) {
			continue
		}
		t.Errorf("%q is taken for a hash", not)
	}
}

func TestAPlanAcceptsItselfAndNothingElse(t *testing.T) {
	r := request(t, nil)
	plan, _ := PlanOf(r)
	var notice bytes.Buffer
	if _, err := Consent(r, Answer{Plans: []string{strings.Repeat("0", 64), plan.Hash()}}, &notice); err != nil || !strings.Contains(notice.String(), "test -f x") {
		t.Errorf("%v; printed %q", err, notice.String())
	}
	swapped := request(t, func(r *Request) { r.Task.SuccessCriteria = tasks.Criteria{command("curl evil")} })
	swapped.TaskFile = r.TaskFile
	for name, answer := range map[string]Answer{"--accept-plan": {Plans: []string{plan.Hash()}}, "a yes": {Agreed: []string{plan.Hash()}}} {
		_, err := Consent(swapped, answer, io.Discard)
		if err == nil || !strings.Contains(err.Error(), "curl evil") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// With a plan not even the operator's own file may ask for anything else.
	if _, err := Consent(swapped, Answer{Plans: []string{plan.Hash()}, TaskFile: true}, io.Discard); err == nil {
		t.Error("a task file asks for another plan")
	}
	if _, err := Consent(swapped, Answer{Agreed: []string{plan.Hash()}, TaskFile: true}, io.Discard); err != nil {
		t.Error(err)
	}
}

// TestWhatWasAcceptedIsComparedAgain: a link that leads elsewhere by the time that
// a cell is opened.
func TestWhatWasAcceptedIsComparedAgain(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	good, evil := t.TempDir(), t.TempDir()
	for _, dir := range []string{good, evil} {
		os.WriteFile(filepath.Join(dir, "task.yaml"), nil, 0o644)
	}
	os.Symlink(good, link)
	a, err := Consent(request(t, func(r *Request) { r.TaskFile = filepath.Join(link, "task.yaml") }), Answer{RecordedCommands: true}, io.Discard)
	if err != nil || a.TaskDir() != good {
		t.Fatalf("%v %s", err, a.TaskDir())
	}
	if err := a.StillHolds(); err != nil {
		t.Error(err)
	}
	os.Remove(link)
	os.Symlink(evil, link)
	if err := a.StillHolds(); err == nil || !strings.Contains(err.Error(), "something else now") {
		t.Errorf("%v", err)
	}
	if (Accepted{}).StillHolds() == nil {
		t.Error("what nobody accepted holds")
	}
}

func TestASignatureVouchesForWhatItMay(t *testing.T) {
	r := request(t, func(r *Request) { r.RecordedNetwork = true })
	for signer, open := range map[Signer]string{
		Unsigned: "image capabilities network path variable command", Trusted: "capabilities network path variable", Own: "",
	} {
		r.SignedBy = signer
		asked, err := Ask(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		var kinds []string
		for _, g := range asked.Open {
			kinds = append(kinds, string(g.Kind))
		}
		if got := strings.Join(kinds, " "); got != open || asked.SignedBy != signer {
			t.Errorf("signed by %q: left to answer %q, want %q", signer, got, open)
		}
		var notice bytes.Buffer
		_, err = Consent(r, Answer{}, &notice)
		if (err == nil) != (open == "") {
			t.Errorf("signed by %q: %v", signer, err)
		}
		if signer == Own && notice.String() != "accepted: 1 command and 5 grants, by the signature of your own key\n" {
			t.Errorf("printed %q", notice.String())
		}
	}
	r.SignedBy = Trusted
	rest := policyOf(t, "allow: {variables: [API_KEY], paths: [/], capabilities: [default], networks: [bridge]}")
	if _, err := Consent(r, Answer{Policy: rest}, io.Discard); err != nil {
		t.Errorf("signature and policy together: %v", err)
	}
	r.Place = OnHost
	if _, err := Consent(r, Answer{Policy: rest}, io.Discard); err == nil || !strings.Contains(err.Error(), "host command") {
		t.Errorf("a trusted key runs commands on the host: %v", err)
	}
}

// TestTheOperatorsOwnPostRunIsNotAsked: only the exact line, and only where the
// operator has said it.
func TestTheOperatorsOwnPostRunIsNotAsked(t *testing.T) {
	hooks := []tasks.PostRun{{Command: "make clean"}, {Command: "make clean "}}
	for name, c := range map[string]struct {
		file *File
		want string
	}{
		"no file":           {nil, "make clean|make clean "},
		"a file without":    {policyOf(t, "{}"), "make clean|make clean "},
		"a file with it":    {policyOf(t, "post_run: [make clean]"), "make clean "},
		"a file with other": {policyOf(t, "post_run: [make]"), "make clean|make clean "},
	} {
		r := request(t, func(r *Request) {
			r.Task.SuccessCriteria, r.Task.PostRun, r.Baseline = nil, hooks, c.file.Baseline()
		})
		a, err := Consent(r, Answer{RecordedCommands: true}, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		var listed []string
		for _, g := range a.Grants() {
			if g.Kind == Command {
				listed = append(listed, g.Value)
			}
		}
		if got := strings.Join(listed, "|"); got != c.want || len(a.PostRun()) != 2 {
			t.Errorf("%s: listed %q, run %v", name, got, a.PostRun())
		}
	}
}
