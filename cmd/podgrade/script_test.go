package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"podgrade/oci"
	"podgrade/tasks/record/fixture"
)

const byod = "../../tasks/testdata/coder-eval/tasks/byod_smoke_test.yaml"

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"podgrade": main, alias: main})
}

// TestScripts runs what needs no container; each file's name is what it shows.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv(oci.EnvInContainer, "")
			schema, err := filepath.Abs("../../docs/task.schema.json")
			if err != nil {
				return err
			}
			env.Setenv("SCHEMA", schema)
			env.Setenv("POLICY_SCHEMA", filepath.Join(filepath.Dir(schema), "policy.schema.json"))
			facts, err := filepath.Abs(recordedFacts)
			env.Setenv("FACTS", facts)
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"row":      writeRow,
			"status":   exitStatus,
			"planhash": planHash,
			"replace":  replaceText,
			"alike":    refusedAlike,
		},
	})
}

// planHash is the command `planhash FILE VARIABLE`: it sets a variable to the hash
// in what trust show prints as JSON, which must be the one of its canonical form.
func planHash(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: planhash FILE VARIABLE")
	}
	var plan struct{ SHA256, Canonical string }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &plan))
	if sum := sha256.Sum256([]byte(plan.Canonical)); hex.EncodeToString(sum[:]) != plan.SHA256 {
		ts.Fatalf("%s is not the hash of %s", plan.SHA256, plan.Canonical)
	}
	ts.Setenv(args[1], plan.SHA256)
}

// refusedAlike is the command `alike FILE`: run must refuse the file, or leave it
// out, and plan must show each of the reasons.
func refusedAlike(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: alike FILE")
	}
	refused := ts.Exec("podgrade", "run", args[0], "--run-dir", "alike-"+args[0]) != nil
	said := ts.ReadFile("stderr")
	if !refused && !strings.Contains(said, "left out: ") {
		ts.Fatalf("run takes %s", args[0])
	}
	if err := ts.Exec("podgrade", "plan", args[0]); err == nil && !strings.Contains(ts.ReadFile("stdout"), "run would refuse rows here: ") {
		ts.Fatalf("plan takes %s", args[0])
	}
	reasons := 0
	for line := range strings.Lines(said) {
		// Bullets, and the findings below a file that is left out.
		reason, indented := strings.CutPrefix(strings.TrimRight(line, "\n"), "  ")
		if !indented {
			_, reason, indented = strings.Cut(reason, "wrong early-stop settings: ")
		}
		if !indented {
			continue
		}
		reasons++
		reason = strings.TrimPrefix(reason, "- ")
		for _, after := range []string{"; correct them, or leave them out", "; see what podgrade plan says"} {
			reason, _, _ = strings.Cut(reason, after)
		}
		// What lies in this host stands apart from the file.
		if !strings.Contains(ts.ReadFile("stdout"), strings.TrimPrefix(reason, args[0]+": ")) {
			ts.Fatalf("plan does not say %q", reason)
		}
	}
	if reasons == 0 {
		ts.Fatalf("run gives no reason: %s", said)
	}
}

// replaceText is the command `replace OLD NEW FILE`.
func replaceText(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: replace OLD NEW FILE")
	}
	text := ts.ReadFile(args[2])
	if !strings.Contains(text, args[0]) {
		ts.Fatalf("%s holds no %q", args[2], args[0])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(strings.ReplaceAll(text, args[0], args[1])), 0o644))
}

// writeRow is the command `row FORM DIR [IMAGE-ID]`: it writes a run directory.
func writeRow(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: row FORM DIR [IMAGE-ID]")
	}
	task, err := filepath.Abs(byod)
	ts.Check(err)
	order := fixture.Order{Task: task, Form: fixture.Form(args[0]), Out: ts.MkAbs(args[1])}
	if len(args) > 2 {
		order.Pin = oci.Pin{ID: args[2], Platform: "linux/amd64"}
	}
	_, err = fixture.Write(order)
	ts.Check(err)
}

// exitStatus is the command `status N PROGRAM ARG...`: it fails unless the
// program exits with N.
func exitStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N PROGRAM ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

func TestOptionsFirst(t *testing.T) {
	app := newApp(os.Stdout, os.Stderr)
	tests := []struct{ in, want []string }{
		{[]string{"podgrade"}, []string{"podgrade"}},
		{[]string{"podgrade", "--version"}, []string{"podgrade", "--version"}},
		{[]string{"podgrade", "evaluate", "row", "--network", "none", "--allow-host-grading"},
			[]string{"podgrade", "evaluate", "--network", "none", "--allow-host-grading", "row"}},
		{[]string{"podgrade", "evaluate", "row", "--network=none", "-"}, []string{"podgrade", "evaluate", "--network=none", "row", "-"}},
		{[]string{"podgrade", "evaluate", "--allow-host-grading", "row"}, []string{"podgrade", "evaluate", "--allow-host-grading", "row"}},
		{[]string{"podgrade", "evaluate", "--", "--network"}, []string{"podgrade", "evaluate", "--", "--network"}},
		{[]string{"podgrade", "evaluate", "row", "--network"}, []string{"podgrade", "evaluate", "--network"}},
		{[]string{"podgrade", "bogus", "x"}, []string{"podgrade", "bogus", "x"}},
	}
	for _, test := range tests {
		got := optionsFirst(app, test.in)
		if len(got) != len(test.want) {
			t.Errorf("%q: %q", test.in, got)
			continue
		}
		for i := range got {
			if got[i] != test.want[i] {
				t.Errorf("%q: %q, want %q", test.in, got, test.want)
				break
			}
		}
	}
}

func TestInterruptedExits130(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	row, err := fixture.Write(fixture.Order{Task: byod, Form: fixture.Unpinned, Out: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(filepath.Join(row, "task.json"))
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if code := run(ctx, []string{"podgrade", "evaluate", row, "--allow-recorded-commands"}, null, null); code != 130 {
		t.Errorf("exit code %d", code)
	}
	if after, _ := os.ReadFile(filepath.Join(row, "task.json")); string(after) != string(before) {
		t.Error("the record was changed")
	}
}
