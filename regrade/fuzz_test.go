package regrade

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"podgrade/policy"
	"podgrade/tasks/record"
	"podgrade/tasks/record/fixture"
)

// FuzzGrants: whatever stands in a record, nothing of the engines is used that
// the accepted grants do not list, and nothing at all where there are grants and
// nobody has accepted them. An input is the text of a record, or choices that
// change a good one: what is put where.
func FuzzGrants(f *testing.F) {
	home := f.TempDir()
	if memory, err := os.MkdirTemp("/dev/shm", "podgrade-fuzz-"); err == nil { // where writing durably costs nothing
		f.Cleanup(func() { os.RemoveAll(memory) })
		home = memory
	}
	dir, err := fixture.Write(fixture.Order{Task: byod, Out: filepath.Join(home, "run"), Form: fixture.Pinned, Pin: newFake().images[imageID].Pin,
		Files: map[string]string{"answer.txt": "42\n"}})
	if err != nil {
		f.Fatal(err)
	}
	path := filepath.Join(dir, record.TaskFile)
	good, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte{}, good)
	f.Add([]byte{}, []byte(`{"task_id": "a", "task_description": "", "agent_type": "none", "iteration_count": 0, "final_status": "NOT_GRADED"}`))
	for i := range byte(120) { // each value at a place of its own, then two at once
		f.Add([]byte{i, i * 7, i * 13}, []byte{})
		f.Add([]byte{i * 3, 0, i, i * 5, 1, i * 11}, []byte{})
	}
	keys := &policy.Keys{Dir: filepath.Join(home, "keys")}
	f.Fuzz(func(t *testing.T, choices, text []byte) {
		if len(text) > 256<<10 || len(choices) > 64 {
			return
		}
		if len(text) == 0 {
			text = changedBy(t, good, choices)
		}
		for _, agreed := range []bool{false, true} {
			if err := os.WriteFile(path, text, 0o644); err != nil {
				t.Fatal(err)
			}
			gradeFuzzed(t, dir, keys, agreed)
			os.Remove(filepath.Join(dir, record.ExecuteFile))
		}
	})
}

// gradeFuzzed grades the row by doubles that remember all that was used.
func gradeFuzzed(t *testing.T, dir string, keys *policy.Keys, agreed bool) {
	host := map[string]string{"PATH": "/usr/bin:/bin", "HOME": "/home/caller", "CANARY": "canary-5d41402abc4b2a76", "BEDROCK_MODEL": "model-of-the-host"}
	fake := newFake()
	var notice bytes.Buffer
	o := Options{
		Answer: policy.Answer{RecordedCommands: agreed}, Start: fake.start, Notice: &notice, Version: "9.9.9", Keys: keys, Network: NetworkRecorded,
		Lookup: func(name string) (string, bool) { value, ok := host[name]; return value, ok },
	}
	row, err := record.OpenRow(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer row.Close()
	g, err := prepare(row, o)
	if err != nil {
		if fake.started > 0 || err.Error() == "" {
			t.Errorf("engines were started %d times before %v", fake.started, err)
		}
		return
	}
	grants := g.accepted.Grants()
	if !agreed && len(grants) > 0 {
		t.Errorf("nobody has accepted %v", grants)
	}
	if _, err = g.grade(context.Background()); err != nil && err.Error() == "" {
		t.Error("an error without words")
	}
	for _, used := range overstepped(grants, fake, dir, map[string]string{"CANARY": host["CANARY"], "BEDROCK_MODEL": host["BEDROCK_MODEL"]}) {
		t.Errorf("no grant lists that it %s: %v", used, grants)
	}
}

// changedBy changes a record by choices: three bytes say where, how deep, and to
// what.
func changedBy(t *testing.T, text, choices []byte) []byte {
	var doc map[string]any
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	for len(choices) >= 3 {
		value, err := json.Marshal(fuzzValues[int(choices[2])%len(fuzzValues)])
		if err != nil {
			t.Fatal(err)
		}
		var copied any // a later choice may change it
		if err := json.Unmarshal(value, &copied); err != nil {
			t.Fatal(err)
		}
		changeAt(doc, choices[0], choices[1], copied)
		choices = choices[3:]
	}
	changed, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

// changeAt sets a member of the record, of its task, of the sandbox or of
// environment_info, or one that is not there yet.
func changeAt(doc map[string]any, where, which byte, value any) {
	config, _ := doc[record.FieldTaskConfig].(map[string]any) // nil where something else was put there before
	resolved, _ := config["resolved"].(map[string]any)
	places := []any{doc, config, resolved, resolved["sandbox"], resolved["agent"], doc[record.FieldEnvironment]}
	if sandbox, ok := resolved["sandbox"].(map[string]any); ok {
		places = append(places, sandbox["docker"], sandbox["limits"])
	}
	if list, ok := resolved["success_criteria"].([]any); ok && len(list) > 0 {
		places = append(places, list[0])
	}
	place, ok := places[int(where)%len(places)].(map[string]any)
	if !ok || place == nil { // something else was put there before
		return
	}
	names := slices.Concat(slices.Sorted(maps.Keys(place)), fuzzNames)
	place[names[int(which)%len(names)]] = value
}

// fuzzNames are members that a good record of the smoke task has not.
var fuzzNames = []string{
	"pre_run", "post_run", "reference", "podman", "extra_mounts", "env_passthrough_extra", "working_dir", "dockerfile_path", "template_sources",
	"python", "node", "record_cli", "mock_path_dirs", "plugins", "solution", record.State, record.StateDiffID, record.Variables, record.ReferenceDigest,
	record.ExecutedOnHost, "early_stop", "simulation", "post_run_results", "command", "path", "patterns", "includes",
}

// fuzzValues are what is put there.
var fuzzValues = []any{
	nil, true, false, 0.0, -1.0, 1e300, "", "x", "/", "/etc/passwd", "../../../..", "a/../../b", "-v/:/host", "--privileged", "$(id)", "a\x00b", "\x1b[2J\u202e\n",
	"CANARY", "docker", "podman", "tempdir", "bridge", "none", "egress", "llm_only", "SUCCESS", "TIMEOUT", "kept", "sha256:" + imageID, imageID, otherID, "byod-custom-image:0.1.0",
	[]any{}, []any{"CANARY"}, []any{"/:/host"}, []any{"CAP_SYS_ADMIN"}, []any{nil}, map[string]any{}, map[string]any{"directory": "/usr/share/doc/base-files"},
	map[string]any{"directory": "../../.."}, map[string]any{"caps": []any{"CAP_NET_ADMIN"}, "user": "root", "state": "keep"}, map[string]any{"gate_threshold": 0.5},
	[]any{map[string]any{"command": "touch /tmp/trapped"}}, []any{map[string]any{"type": "template_dir", "path": "/etc"}},
	[]any{map[string]any{"type": "run_command", "command": "env", "description": "d"}, map[string]any{"type": "file_exists", "path": "/etc/passwd", "description": "d"}},
	[]any{map[string]any{"type": "reference_comparison", "description": "d", "reference_file": "a", "generated_file": "b"}},
	[]any{map[string]any{"type": "llm_judge", "description": "d", "prompt": "p", "model": "m", "enabled": true}},
	[]any{map[string]any{"type": "uipath_eval", "description": "d", "agent_name": "-a", "eval_set": "; id"}},
	[]any{map[string]any{"type": "file_check", "path": "answer.txt", "description": "d", "includes": []any{"42"}}},
	map[string]any{"env_packages": []any{"--index-url=http://evil.example", "x"}},
}
