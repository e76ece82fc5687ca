package regrade

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"podgrade/tasks"
	"podgrade/tasks/record"
)

// TestEveryKeyOfATaskIsReadBySomePhase: a new key must say to which phase it
// belongs.
func TestEveryKeyOfATaskIsReadBySomePhase(t *testing.T) {
	task := reflect.TypeFor[tasks.Task]()
	keys := 0
	for i := range task.NumField() {
		key := task.Field(i).Tag.Get("json")
		if key == "" {
			continue
		}
		keys++
		if _, known := readBy[key]; !known {
			t.Errorf("say in readBy which phase reads %s", key)
		}
	}
	if keys < 19 {
		t.Errorf("only %d keys", keys)
	}
}

// digestRow is a row of a task file with every kind of content.
func digestRow(t *testing.T, dir string, change map[string]string) tasks.Row {
	t.Helper()
	text := `
task_id: a
description: d
initial_prompt: prompt
tags: [one]
agent: {type: oracle}
sandbox:
  driver: docker
  docker: {dockerfile_path: image/Dockerfile}
  podman: {solution: solve.sh, timeouts: {grade: 5}}
  template_sources: [{type: template_dir, path: template}]
reference: {directory: template}
run_limits: {turn_timeout: 20}
pre_run: [{command: "true"}]
post_run: [{command: "true"}]
expected_commands: 3
success_criteria: [{type: file_exists, path: x, description: y}]
`
	for old, new := range change {
		if !strings.Contains(text, old) {
			t.Fatalf("the task holds no %q", old)
		}
		text = strings.Replace(text, old, new, 1)
	}
	name := filepath.Join(dir, "task.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	resolution, err := (&tasks.Loader{}).Rows([]string{name}, tasks.Request{})
	if err != nil || len(resolution.Rows) != 1 {
		t.Fatalf("%v, %+v", err, resolution)
	}
	return resolution.Rows[0]
}

func contentsOf(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"image/Dockerfile", "template/f", "solve.sh"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("FROM scratch\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestTheRunDigestCoversWhatExecuteReads(t *testing.T) {
	dir := contentsOf(t)
	digests := func(change map[string]string) Digests {
		t.Helper()
		d, err := DigestsOf(digestRow(t, dir, change), nil)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	plain := digests(nil)
	for old, new := range map[string]string{
		"initial_prompt: prompt": "initial_prompt: other",
		"turn_timeout: 20":       "turn_timeout: 30",
		"pre_run: [":             "pre_run: [{command: more}, ",
		"task_id: a":             "task_id: b",
		"driver: docker":         "driver: podman",
	} {
		if d := digests(map[string]string{old: new}); d.Run == plain.Run || d.Task == plain.Task {
			t.Errorf("%s: %+v", new, d)
		}
	}
	for old, new := range map[string]string{
		"description: d":        "description: other",
		"tags: [one]":           "tags: [two]",
		"post_run: [":           "post_run: [{command: more}, ",
		"expected_commands: 3":  "expected_commands: 4",
		"path: x":               "path: z",
		"timeouts: {grade: 5}":  "timeouts: {grade: 6}",
		"{directory: template}": "{directory: image}",
	} {
		if d := digests(map[string]string{old: new}); d.Run != plain.Run || d.Task == plain.Task {
			t.Errorf("%s: %+v", new, d)
		}
	}
	for _, name := range []string{"image/Dockerfile", "template/f", "solve.sh"} {
		before := digests(nil)
		if err := os.WriteFile(filepath.Join(dir, name), []byte("FROM other\n"+name), 0o600); err != nil {
			t.Fatal(err)
		}
		if d := digests(nil); d.Run == before.Run {
			t.Errorf("%s changed, and the run digest did not", name)
		}
	}
}

// TestDigestsDoNotSayWhereATaskStands: a project that was moved is the same one, and
// another Dockerfile beside the first is another one.
func TestDigestsDoNotSayWhereATaskStands(t *testing.T) {
	here, there := contentsOf(t), contentsOf(t)
	row, moved := digestRow(t, here, nil), digestRow(t, there, nil)
	digests := func(row tasks.Row) Digests {
		t.Helper()
		d, err := DigestsOf(row, nil)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if one, other := digests(row), digests(moved); one != other {
		t.Errorf("%+v, moved %+v", one, other)
	}
	text, err := moved.Task.MarshalJSON()
	if err != nil || !strings.Contains(string(text), there) {
		t.Fatalf("%v: the task lost its places: %s", err, text)
	}
	if keys := differentKeys(row.Task, record.Raw(text)); len(keys) != 0 {
		t.Errorf("different: %v", keys)
	}
	if err := os.WriteFile(filepath.Join(here, "image/Other"), []byte("FROM scratch\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	before, change := digests(row), map[string]string{"image/Dockerfile": "image/Other"}
	if d := digests(digestRow(t, here, change)); d.Run == before.Run || d.Task == before.Task {
		t.Errorf("another Dockerfile, and the digests are %+v", d)
	}
}

// TestARecordHasTheRunPartOfItsTask: a row is compared with its record.
func TestARecordHasTheRunPartOfItsTask(t *testing.T) {
	row := digestRow(t, contentsOf(t), nil)
	now, err := RunPart(row.Task)
	if err != nil {
		t.Fatal(err)
	}
	text, err := row.Task.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := tasks.FromRecord(text)
	if err != nil {
		t.Fatal(err)
	}
	then, err := RunPart(recorded)
	if err != nil || !reflect.DeepEqual(now, then) || len(now) < 8 {
		t.Errorf("%v\nnow  %s\nthen %s", err, now, then)
	}
}

// TestTheRunDigestCoversMoreThanContent: what a set-up copies beside the bytes
// of files changes what the agent finds, and what it leaves behind does not.
func TestTheRunDigestCoversMoreThanContent(t *testing.T) {
	dir := contentsOf(t)
	at := func(name string) string { return filepath.Join(dir, "template", name) }
	if err := os.Symlink("f", at("link")); err != nil {
		t.Fatal(err)
	}
	digest := func() string {
		t.Helper()
		d, err := DigestsOf(digestRow(t, dir, nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		return d.Run
	}
	before := digest()
	for _, c := range []struct {
		name   string
		change func() error
	}{
		{"a file can be executed", func() error { return os.Chmod(at("f"), 0o700) }},
		{"a link leads elsewhere", func() error { return errors.Join(os.Remove(at("link")), os.Symlink("g", at("link"))) }},
		{"an empty directory", func() error { return os.Mkdir(at("empty"), 0o755) }},
		{"a link is new", func() error { return os.Symlink("f", at("another")) }},
		{"a file is no file", func() error { return errors.Join(os.Remove(at("f")), os.Mkdir(at("f"), 0o755)) }},
	} {
		if err := c.change(); err != nil {
			t.Fatal(err)
		}
		now := digest()
		if now == before {
			t.Errorf("%s, and the run digest is the same", c.name)
		}
		before = now
	}
	for _, name := range []string{"__pycache__/x.pyc", ".git/index"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(at(name)), 0o755), os.WriteFile(at(name), []byte("x"), 0o600)); err != nil {
			t.Fatal(err)
		}
		if digest() != before {
			t.Errorf("%s is left behind, and changes the run digest", name)
		}
	}
}
