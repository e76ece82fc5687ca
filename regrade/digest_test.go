package regrade

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

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

// TestTheRunDigestDoesNotSayWhereATaskStands: a project that was moved is the same one,
// and another Dockerfile beside the first is another one.
func TestTheRunDigestDoesNotSayWhereATaskStands(t *testing.T) {
	here, there := contentsOf(t), contentsOf(t)
	row, moved := digestRow(t, here, nil), digestRow(t, there, nil)
	if one, other := digestsIn(t, row), digestsIn(t, moved); one.Run != other.Run || one.Placed == other.Placed {
		t.Errorf("%+v, moved %+v", one, other)
	}
	if err := os.WriteFile(filepath.Join(here, "image/Other"), []byte("FROM scratch\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	before, change := digestsIn(t, row), map[string]string{"image/Dockerfile": "image/Other"}
	if d := digestsIn(t, digestRow(t, here, change)); d.Run == before.Run {
		t.Errorf("another Dockerfile, and the digests are %+v", d)
	}
}

func digestsIn(t *testing.T, row tasks.Row) Digests {
	t.Helper()
	d, err := DigestsOf(row, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestARowIsComparedByItsDigestOrByItsPlaces: rows of podgrade before it left the places
// out are the same as long as they stand where they stood. Where a record has no digest,
// as one of upstream's, nothing says what lay at the places.
func TestARowIsComparedByItsDigestOrByItsPlaces(t *testing.T) {
	here, there := contentsOf(t), contentsOf(t)
	row, moved := digestRow(t, here, nil), digestRow(t, there, nil)
	now := digestsIn(t, row)
	places := []string{"sandbox.docker.dockerfile_path", "sandbox.template_sources"}
	other := []string{"content of a file that its set-up uses"}
	for _, c := range []struct {
		name, recorded string
		asked          tasks.Row
		want           []string
	}{
		{"the same", now.Run, row, nil},
		{"moved", now.Run, moved, nil},
		{"of before", now.Placed, row, nil},
		{"of before, moved", now.Placed, moved, other},
		{"without a digest", "", row, nil},
		{"without a digest, moved", "", moved, places},
		{"other content", "0123", row, other},
	} {
		config, err := record.NewTaskConfig(row.Task, row.File.Source, row.File.Path)
		if err != nil {
			t.Fatal(err)
		}
		info := record.NewObject()
		info.Set(record.RunDigest, c.recorded)
		rec, err := record.New(record.Execution{TaskID: "a", AgentType: "oracle", Started: time.Now(), Completed: time.Now(), Status: record.NotGraded, Environment: info, TaskConfig: config})
		if err != nil {
			t.Fatal(err)
		}
		// A grade by it leaves the bytes that somebody may have signed as they are.
		text := rec.Bytes()
		if given, err := Give(c.asked.Task, c.asked.File); err != nil {
			t.Error(err)
		} else if given.put(rec); !bytes.Equal(rec.Bytes(), text) {
			t.Errorf("%s: a grade made of %s\n%s", c.name, text, rec.Bytes())
		}
		if got := differencesOf(c.asked.Task, digestsIn(t, c.asked), rec); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestWhatNobodyCanReadIsNotTheSame: two directories that have no digest are told by
// where they stand.
func TestWhatNobodyCanReadIsNotTheSame(t *testing.T) {
	defer func(most int) { mostDigestedEntries = most }(mostDigestedEntries)
	mostDigestedEntries = 0
	if one, other := digestsIn(t, digestRow(t, contentsOf(t), nil)), digestsIn(t, digestRow(t, contentsOf(t), nil)); one.Run == other.Run {
		t.Errorf("%+v for both", one)
	}
}

// TestAnAnswerKeyInATemplateIsNoPartOfIt: the set-up leaves it out, so a row that was
// executed when the agent saw it is another one.
func TestAnAnswerKeyInATemplateIsNoPartOfIt(t *testing.T) {
	dir := contentsOf(t)
	key := filepath.Join(dir, "template", "solution", "answer")
	if err := errors.Join(os.Mkdir(filepath.Dir(key), 0o755), os.WriteFile(key, []byte("42"), 0o600)); err != nil {
		t.Fatal(err)
	}
	hidden := map[string]string{"reference: {directory: template}": "reference: {directory: template/solution}"}
	seen, unseen := digestsIn(t, digestRow(t, dir, map[string]string{"reference: {directory: template}": "reference: {directory: image}"})), digestsIn(t, digestRow(t, dir, hidden))
	if seen.Run == unseen.Run {
		t.Error("the agent saw the answer, and the run digest is the same")
	}
	if err := os.WriteFile(key, []byte("43"), 0o600); err != nil {
		t.Fatal(err)
	}
	if d := digestsIn(t, digestRow(t, dir, hidden)); d.Run != unseen.Run {
		t.Error("what the agent never sees changed, and so did the run digest")
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
