package regrade_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"podgrade/isolation"
	"podgrade/isolation/testimages"
	"podgrade/oci"
	"podgrade/policy"
	"podgrade/regrade"
	"podgrade/tasks"
	"podgrade/tasks/record"
)

// search looks for the word secret1 everywhere in a cell: in every file, also
// of /proc and of what other processes have open, in the environments, command
// lines, mounts and memory maps. No line of it holds the word itself.
const search = `
word='secret[1]'
{
	{ find / -xdev -type f; find /work /dev/shm /run /tmp -type f; } | xargs grep -ls "$word"
	find /proc -type f | grep -v -e /pagemap -e /clear_refs -e '^/proc/k' -e '^/proc/sysrq' |
		xargs sh -c 'timeout 60 grep -ls "$0" "$@"; [ $? != 124 ] || echo "a file of /proc has no end"' "$word"
	find / -type l | xargs ls -l | grep "$word"
	cat </proc/self/fd/0 | grep "$word"
	for p in /proc/[0-9]*; do
		for f in $p/fd/* $p/cwd $p/root/work/*; do
			[ -f "$f" ] && grep -q "$word" "$f" 2>/dev/null && echo "open $f"
			ls -la "$f" 2>/dev/null | grep -q "$word" && echo "link $f"
		done
	done
	env | grep "$word"
	ls -A /work/task_dir /work/references /work/input /work/output 2>/dev/null | grep -v '^/work' | grep .
} >/work/workspace/found.txt 2>/dev/null
echo searched >>/work/workspace/found.txt
`

const searchedTask = `
task_id: search
description: secret1 in the description
tags: [one]
initial_prompt: Look around.
agent: {type: command, command: sh find.sh}
reference: {directory: key-secret1}
sandbox:
  driver: docker
  docker: {image: "localhost/podgrade-test/busybox:1", network: none}
  python: null
  template_sources: [{type: template_dir, path: given}]
pre_run:
  - {command: 'grep -q secret1 "$TASK_DIR/task.yaml" && cp "$TASK_DIR/fixture.txt" .'}
  - {command: 'sleep 300 <"$TASK_DIR/notes.txt" >/dev/null 2>&1 &'}
success_criteria:
  - {type: file_contains, path: found.txt, includes: [searched], excludes: [secret1], description: secret1 in a criterion}
  - {type: run_command, command: 'cat found.txt; test secret1', expected_stdout: searched, description: nothing was found}
  - {type: run_command, command: 'grep -q secret1 "$REFERENCE_DIR/answer" && grep -q secret1 "$TASK_DIR/notes.txt"', description: all of it was there to be found}
post_run: [{command: "echo secret1"}]
`

// TestTheAgentNeverSeesGradingMaterial: promise 3 of the design.
func TestTheAgentNeverSeesGradingMaterial(t *testing.T) {
	for _, engine := range []string{isolation.EngineBundle, isolation.EnginePodman} {
		t.Run("D-92: an agent that searches all of its cell finds nothing, "+engine, func(t *testing.T) {
			b := newBench(t, engine, testimages.Busybox())
			file := write(t, searchedTask, map[string]string{
				"key-secret1/answer": "secret1\n", "notes.txt": "secret1\n", "fixture.txt": "a fixture\n", "given/find.sh": search,
			})
			r := b.executes(load(t, file, tasks.Request{}))
			if r.Status != record.NotGraded {
				t.Fatalf("%s: %s", r.Status, r.Message)
			}
			verdict := r.grades()
			if verdict.Score != 1 {
				found, _ := os.ReadFile(filepath.Join(r.dir, record.ArtifactsDir, "search", "found.txt"))
				t.Errorf("score %v; the agent found:\n%s", verdict.Score, found)
			}
		})
	}
}

// TestTheSearchFindsWhatIsThere makes sure that the test above bites.
func TestTheSearchFindsWhatIsThere(t *testing.T) {
	b := newBench(t, isolation.EngineBundle, testimages.Busybox())
	for _, text := range []string{
		strings.Replace(searchedTask, "'sleep 300 <", "'cat \"$TASK_DIR/notes.txt\" >/opt/kept; sleep 300 <", 1),
		strings.Replace(strings.Replace(searchedTask, "Look around.", "Look for secret1.", 1), "command: sh find.sh", "command: sh find.sh, prompt: file", 1),
		strings.Replace(searchedTask, "command: sh find.sh", "command: 'sh find.sh; : secret1'", 1), // only in the command line of a process
	} {
		file := write(t, text, map[string]string{
			"key-secret1/answer": "secret1\n", "notes.txt": "secret1\n", "fixture.txt": "a fixture\n", "given/find.sh": search,
		})
		if verdict := b.executes(load(t, file, tasks.Request{})).grades(); verdict.Score == 1 {
			t.Error("nothing was found, and there was something")
		}
	}
}

// TestWhatTheAgentLeavesRunningEnds: the answer key is in no cell of the agent's,
// whatever modes it changes; a process that waits for it does not live to see it,
// and the record says that it was there.
func TestWhatTheAgentLeavesRunningEnds(t *testing.T) {
	b := newBench(t, isolation.EngineBundle, testimages.Busybox())
	const opens = "chmod -R a+rwX /work 2>/dev/null; cat /work/references/* >>stolen.txt 2>/dev/null; "
	const thief = opens + "(while :; do cat /work/references/* >>stolen.txt && exit; done >/dev/null 2>&1 &) ; (nc -l -p 8099 >/dev/null 2>&1 &) ; sleep 0.3"
	t.Run("D-82 and D-83: neither modes nor patience lead an agent to the answer key", func(t *testing.T) {
		b := *b
		b.t = t
		text := strings.Replace(small(agentOf(thief)+sealedBusybox+"reference: {directory: key}"), "{type: file_exists, path: ., description: there is a workspace}",
			"{type: run_command, command: test ! -s stolen.txt && test -s \"$REFERENCE_DIR/answer\", description: nothing was stolen}", 1)
		r := b.executes(load(t, write(t, text, map[string]string{"key/answer": "42"}), tasks.Request{}))
		if alive := r.Record.Environment.Text(record.Processes); !strings.Contains(alive, "/8099") || !strings.Contains(alive, "sh") {
			t.Errorf("alive: %q", alive)
		}
		if verdict := r.grades(); verdict.Status != record.Success {
			t.Errorf("%s", verdict.Status)
		}
		if stamps := r.stamps(); !strings.HasPrefix(stamps, record.GradedWithoutProcesses+"=") || !strings.Contains(stamps, "8099") {
			t.Errorf("stamps %s", stamps)
		}
	})
}

// TestPreservation: what becomes of the workspace.
func TestPreservation(t *testing.T) {
	b := newBench(t, isolation.EngineBundle, testimages.Busybox())
	text := strings.Replace(small(agentOf("echo made >made.txt; mkdir closed; chmod 0 closed")+sealedBusybox), "task_id: small", "task_id: deep/er/small", 1)
	file := write(t, text, nil)
	for _, c := range []struct {
		mode     regrade.Preservation
		graded   bool
		place    string // of the workspace; "": there is none
		gradable bool
	}{
		{"", false, record.ArtifactsDir, true},
		{regrade.PreserveDirect, false, record.ArtifactsDir, true},
		{regrade.PreserveMove, false, record.ArtifactsDir, true},
		{regrade.PreserveNone, false, "", false},
		{regrade.PreserveNone, true, record.WorkspaceDraft, true},
	} {
		t.Run(string(c.mode), func(t *testing.T) {
			b := *b
			b.t = t
			b.options.Preserve, b.options.Graded = c.mode, c.graded
			r := b.executes(load(t, file, tasks.Request{}))
			workspace := ""
			if c.place != "" {
				workspace = filepath.Join(r.dir, c.place, "deep/er/small")
			}
			if r.Record.SandboxPath != workspace || r.Gradable != c.gradable {
				t.Errorf("sandbox_path %q, gradable %v; want %q", r.Record.SandboxPath, r.Gradable, workspace)
			}
			for _, place := range []string{record.ArtifactsDir, record.WorkspaceDraft} {
				_, err := os.Stat(filepath.Join(r.dir, place, "deep/er/small/made.txt"))
				if there := err == nil; there != (place == c.place) {
					t.Errorf("%s: %v", place, err)
				}
			}
			if !c.gradable {
				return
			}
			if verdict := r.grades(); verdict.Status != record.Success {
				t.Errorf("graded %s", verdict.Status)
			}
			if c.mode == regrade.PreserveNone {
				b.discards(r)
			}
		})
	}
}

// discards removes the workspace of a graded row.
func (b *bench) discards(r *executedRow) {
	b.t.Helper()
	row, err := record.OpenRow(r.dir)
	if err != nil {
		b.t.Fatal(err)
	}
	defer row.Close()
	if err := regrade.Discard(b.t.Context(), shared{b.host}, row); err != nil {
		b.t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(r.dir, record.WorkspaceDraft)); !errors.Is(err, os.ErrNotExist) {
		b.t.Errorf("the workspace: %v", err)
	}
	left, _, err := row.Read()
	if err != nil || left.SandboxPath != "" || left.Status != record.Success {
		b.t.Errorf("%+v, %v", left, err)
	}
}

// TestTheUserOfATask: sandbox.podman.user is the user of both phases.
func TestTheUserOfATask(t *testing.T) {
	b := newBench(t, isolation.EngineBundle, testimages.Busybox())
	text := strings.Replace(small(agentOf("id -u >who.txt")+strings.Replace(sealedBusybox, "driver", "podman: {user: grader}, driver", 1)),
		"{type: file_exists, path: ., description: there is a workspace}",
		`{type: run_command, command: 'test "$(cat who.txt)" = 1000 && test "$(id -u)" = 1000 && test -O who.txt', description: the same user}`, 1)
	b.executes(load(t, write(t, text, nil), tasks.Request{})).succeeds()
}

// TestWhatIsRefusedStartsNothing: refusals that need no engine.
func TestWhatIsRefusedStartsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		rest string
		env  string
		want string
	}{
		"an agent that calls a model": {rest: "initial_prompt: go\nagent: {type: codex}\n" + sealedBusybox, want: "--type command"},
		"llm_only":                    {rest: agentOf("true") + strings.Replace(sealedBusybox, "network: none", "network: llm_only", 1), want: "docker.network=none"},
		"mounts":                      {rest: agentOf("true") + strings.Replace(sealedBusybox, "network: none", "network: none, extra_mounts: ['/a:/b']", 1), want: "/a:/b"},
		"set_uid":                     {rest: agentOf("true") + strings.Replace(sealedBusybox, "driver", "podman: {set_uid: true}, driver", 1), want: "set_uid"},
		"no image":                    {rest: agentOf("true"), want: "--default-image"},
		"a container around it":       {rest: agentOf("true") + sealedBusybox, env: "1", want: "unset it"},
		"a simulated user":            {rest: agentOf("true") + sealedBusybox + "simulation: {enabled: true, persona: p, goal: g}\n", want: "simulat"},
	} {
		t.Run(name, func(t *testing.T) {
			b := &bench{t: t, runs: t.TempDir()}
			b.options = regrade.ExecuteOptions{Notice: &b.notice, Lookup: func(name string) (string, bool) {
				return c.env, c.env != "" && strings.HasSuffix(name, "IN_CONTAINER")
			}}
			r, err := b.try(t.Context(), load(t, write(t, small(c.rest), nil), tasks.Request{}))
			if regrade.KindOf(err) != regrade.Refused || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v", err)
			}
			if entries, _ := os.ReadDir(r.dir); len(entries) > 0 {
				t.Errorf("left behind: %v", entries)
			}
		})
	}
}

// offline engines give no cell a network.
type offline struct{ shared }

func (e offline) Open(ctx context.Context, o isolation.Order) (isolation.Cell, error) {
	if o.Plan.Network == oci.Egress {
		return nil, &isolation.Fault{Kind: isolation.Refusal, Tried: "give the cell a network", Why: isolation.ErrNoNetwork}
	}
	return e.shared.Open(ctx, o)
}

// TestAHostWithoutNetworks: a network that nobody asked for is left out, and an
// attempt to reach it is stamped; one that the task names is not left out.
func TestAHostWithoutNetworks(t *testing.T) {
	b := newBench(t, isolation.EngineBundle, testimages.Busybox())
	b.options.Start = func(context.Context) (regrade.Engines, error) { return offline{shared{b.host}}, nil }
	byDefault := strings.Replace(sealedBusybox, ", network: none", "", 1)
	for line, stamped := range map[string]bool{"true": false, "nslookup example.org; true": true} {
		r := b.executes(load(t, write(t, small(agentOf(line)+byDefault), nil), tasks.Request{}))
		if stamps := r.stamps(); r.Status != record.NotGraded || strings.HasPrefix(stamps, record.ExecutedWithoutNetwork+"=") != stamped {
			t.Errorf("%s: %s, stamps %q", line, r.Status, stamps)
		}
	}
	if !strings.Contains(b.notice.String(), "works without") {
		t.Errorf("nothing is said: %s", &b.notice)
	}
	named := strings.Replace(sealedBusybox, "network: none", "network: bridge", 1)
	r, err := b.try(t.Context(), load(t, write(t, small(agentOf("true")+named), nil), tasks.Request{}))
	if regrade.KindOf(err) != regrade.Refused {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(r.dir, record.ArtifactsDir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a workspace in the way of the next try: %v", err)
	}
}

// TestVariablesEnterByName: of the host's variables both phases have those that
// the task names.
func TestVariablesEnterByName(t *testing.T) {
	b := newBench(t, isolation.EngineBundle, testimages.Busybox())
	b.options.Lookup = func(name string) (string, bool) { return "secret-of-" + name, name != "CODER_EVAL_IN_CONTAINER" }
	text := strings.Replace(small(agentOf("env >env.txt")+strings.Replace(sealedBusybox, "network: none", "network: none, env_passthrough_extra: [MINE]", 1)),
		"{type: file_exists, path: ., description: there is a workspace}",
		`{type: run_command, command: 'test "$MINE" = secret-of-MINE && test -z "$ANTHROPIC_API_KEY" && grep -q secret-of-MINE env.txt && ! grep -q ANTHROPIC env.txt', description: no more and no less}`, 1)
	r := b.executes(load(t, write(t, text, nil), tasks.Request{}))
	if got := r.Record.Environment.Text(record.Variables); got != "MINE" {
		t.Errorf("the record says %q", got)
	}
	if verdict := r.grades(); verdict.Status != record.Success || r.stamps() != "" {
		t.Errorf("%s, stamps %q\n%s", verdict.Status, r.stamps(), r.file("artifacts/small/env.txt"))
	}
}

// TestRowsOfOneDockerfileBuildOnce: replicates share an image.
func TestRowsOfOneDockerfileBuildOnce(t *testing.T) {
	b := newBench(t, isolation.EngineBundle, testimages.Busybox())
	shared := regrade.Share(func(context.Context) (regrade.Engines, error) { return shared{b.host}, nil }, &b.notice)
	defer shared.Close()
	b.options.Start = shared.Start
	// Each build would write another image.
	row := load(t, write(t, small(agentOf("true")+"sandbox: {driver: docker, docker: {dockerfile_path: Dockerfile, network: none}}\n"), map[string]string{
		"Dockerfile": "FROM localhost/podgrade-test/busybox:1\nRUN date +%N >/built && head -c 8 /dev/urandom | od >>/built\n",
	}), tasks.Request{})
	first, second := b.executes(row), b.executes(row)
	if a, b := first.Record.Environment.Text(record.ImageID), second.Record.Environment.Text(record.ImageID); a != b || a == "" {
		t.Errorf("images %s and %s", a, b)
	}
	if !strings.Contains(second.file(record.ContainerLog), "FROM") {
		t.Error("the second row does not say what was built")
	}
}

// TestOnTheHost: a tempdir row without a container, as upstream runs it. Every
// grade keeps the stamp.
func TestOnTheHost(t *testing.T) {
	b := newBench(t, isolation.EngineBundle)
	b.options.OnHost = true
	b.options.Lookup = os.LookupEnv
	const text = `task_id: hosted
description: a row on the host
initial_prompt: a prompt in a file
agent: {type: command, command: 'cat "$PROMPT_FILE" >prompt.txt; echo "${TASK_DIR-unset}" >>prompt.txt; test -z "$CODER_EVAL_IN_CONTAINER"', prompt: file}
sandbox: {driver: tempdir, python: null}
pre_run: [{command: 'cp "$TASK_DIR/fixture.txt" .'}]
success_criteria:
  - {type: run_command, command: cat prompt.txt fixture.txt, expected_stdout: "a prompt in a fileunset\na fixture", description: set up and run}
`
	r := b.executes(load(t, write(t, text, map[string]string{"fixture.txt": "a fixture\n"}), tasks.Request{}))
	if r.Status != record.NotGraded || r.Record.Environment.Text(record.Engine) != isolation.EngineHost {
		t.Fatalf("%s: %s\n%s", r.Status, r.Message, r.file(record.TaskLog))
	}
	if verdict := r.grades(); verdict.Status != record.Success || verdict.Place != policy.OnHost {
		t.Errorf("%s in the %s\n%s", verdict.Status, verdict.Place, r.file(record.GradeLog))
	}
	if stamps := r.stamps(); stamps != record.ExecutedOnHost+"=true" {
		t.Errorf("stamps %s", stamps)
	}
}

// TestExamplesOnPodmansEngine: a verdict never depends on the engine.
func TestExamplesOnPodmansEngine(t *testing.T) {
	images, names := []testimages.Image{testimages.Busybox(), testimages.BusyboxAs("grader")}, []string{"template", "pre-run", "record-cli", "non-root", "working-dir"}
	if os.Getenv("PODGRADE_TEST_SOAK") != "" {
		images, names = append(images, testimages.Workbench(), testimages.Toolbox()), nil
		for _, example := range examples {
			names = append(names, example.name)
		}
	}
	b := newBench(t, isolation.EnginePodman, images...)
	b.options.DefaultImage = testimages.Busybox().Reference
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			b := *b
			b.t = t
			r := b.executes(load(t, "../tasks/examples/"+name+"/task.yaml", tasks.Request{}))
			r.succeeds()
			if engine := r.Record.Environment.Text(record.Engine); engine != isolation.EnginePodman {
				t.Errorf("made by the engine %s", engine)
			}
		})
	}
}

// TestACaptureWithoutItsState is stamped, and graded without what the agent
// changed elsewhere.
func TestACaptureWithoutItsState(t *testing.T) {
	b := newBench(t, isolation.EngineBundle, testimages.Busybox())
	text := strings.Replace(small(agentOf("mkdir .venv; echo x >.venv/x; echo made >made.txt; echo else >/opt/elsewhere")+
		strings.Replace(sealedBusybox, "network: none}", "network: none, working_dir: /srv/here}, podman: {state: none}", 1)),
		"{type: file_exists, path: ., description: there is a workspace}",
		`{type: run_command, command: 'test "$(cat /srv/here/made.txt)" = made && test ! -e .venv && test ! -e /opt/elsewhere', description: the capture alone}`, 1)
	r := b.executes(load(t, write(t, text, nil), tasks.Request{}))
	if n, _ := r.Record.Environment.Value(record.CaptureExcluded).Int(); n == 0 {
		t.Error("nothing was left out")
	}
	if verdict := r.grades(); verdict.Status != record.Success || r.stamps() != record.GradedFromCapture+"=true" {
		t.Errorf("%s, stamps %q\n%s", verdict.Status, r.stamps(), r.file(record.GradeLog))
	}
}

// TestATemplateHidesTheAnswerKey: a template may be the task directory, which may be
// somebody's home, and the agent gets neither the reference nor the run with it, nor
// the signing key; nor does pre_run get that.
func TestATemplateHidesTheAnswerKey(t *testing.T) {
	b := newBench(t, isolation.EngineBundle, testimages.Busybox())
	text := strings.Replace(small(agentOf("find . >found.txt")+strings.Replace(sealedBusybox, "driver", "template_sources: [{type: template_dir, path: .}], driver", 1)+
		"reference: {directory: key}\npre_run: [{command: 'find \"$TASK_DIR\" >pre.txt'}]\n"),
		"{type: file_exists, path: ., description: there is a workspace}",
		"{type: file_contains, path: found.txt, includes: [./given.txt, .config/podgrade/policy.yaml], excludes: [answer, artifacts, task.log, ed25519, running], description: no answer and no run and no signing key}\n"+
			"  - {type: file_contains, path: pre.txt, includes: [/given.txt, .config/podgrade/policy.yaml], excludes: [artifacts, task.log, ed25519, running], description: nor for pre_run}", 1)
	file := write(t, text, map[string]string{"key/answer": "42", "given.txt": "given", ".config/podgrade/policy.yaml": "{}", ".data/scratch/running": "x"})
	home := filepath.Dir(file)
	b.runs, b.options.Keys, b.options.Scratch = home, &policy.Keys{Dir: filepath.Join(home, ".config/podgrade/keys")}, filepath.Join(home, ".data/scratch")
	if _, err := b.options.Keys.Public(); err != nil {
		t.Fatal(err)
	}
	b.executes(load(t, file, tasks.Request{})).succeeds()
}
