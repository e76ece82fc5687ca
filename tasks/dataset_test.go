package tasks

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

const dataTask = `task_id: t
description: "${row.x} stays"
initial_prompt: "say ${row.x} and ${row.y} but not ${rowx} ${row.}"
success_criteria:
  - {type: json_check, path: "${row.x}", description: "about ${row.x}", assertions: [{expression: a, operator: equals, expected: ["${row.y}", 1]}]}
  - {type: classification_match, path: p, description: d, expected_label: "${row.x}", allowed_labels: [a], suite_thresholds: {accuracy: 1}}
`

func TestExpand(t *testing.T) {
	f, err := parse(t, dataTask+"dataset: {rows: [{id: 1, x: yes, y: null}, {id: b.c-d, x: 1.0, y: 2001-01-01}]}\n")
	if err != nil {
		t.Fatal(err)
	}
	e, err := (&Loader{}).Expand(f, Selection{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, row := range e.Files {
		check := row.Task.SuccessCriteria[0].(*JSONCheck)
		got = append(got, fmt.Sprintf("%s|%s|%s|%s|%s|%s|%v|%v", row.Task.TaskID, row.Task.SuiteID, row.Task.RowID, row.Task.Description,
			row.Task.InitialPrompt, check.Path, check.Assertions[0].Expected, row.Task.Dataset == nil))
	}
	want := []string{
		"t/1|t|1|${row.x} stays|say True and  but not ${rowx} ${row.}|True|[ 1]|true",
		"t/b.c-d|t|b.c-d|${row.x} stays|say 1.0 and 2001-01-01 but not ${rowx} ${row.}|1.0|[2001-01-01 1]|true",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, row := range e.Files {
		again(t, row.Task)
	}
}

func TestExpandRefuses(t *testing.T) {
	for rows, want := range map[string]string{
		"[{x: 1}]":                        "has no id",
		"[{id: a/b, x: 1, y: 1}]":         "must be letters, digits",
		"[{id: .a, x: 1, y: 1}]":          "must be letters, digits",
		"[{id: a}, {id: a}]":              "also names row 0",
		"[{id: 1}, {id: '1'}]":            "also names row 0",
		"[{id: a, x: 1}]":                 "no field y",
		"[{id: a, x: [1], y: 1}]":         "must be a scalar",
		"[{id: a, x: 1, y: {a: 1}}]":      "must be a scalar",
		"[{id: [a], x: 1, y: 1}]":         "must be letters, digits",
		"[{id: a, x: '', y: 1}, {id: b}]": "no field x",
	} {
		f, err := parse(t, dataTask+"dataset: {rows: "+rows+"}\n")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := (&Loader{}).Expand(f, Selection{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", rows, err, want)
		}
	}
}

func TestExpandFiles(t *testing.T) {
	dir := unpack(t, `
-- task.yaml --
task_id: t
description: d
initial_prompt: "${row.q}"
dataset: {paths: [one.jsonl, two.jsonl], id_field: name}
success_criteria: [{type: file_exists, path: a, description: d}]
-- one.jsonl --
{"name": "a", "q": "\ud83d\ude00"}

{"name": 2, "q": 12345678901234567890123}
-- two.jsonl --
{"name": "c", "q": 1e400}
-- bad.yaml --
task_id: t
description: d
initial_prompt: p
dataset: {paths: [bad.jsonl, none.jsonl]}
success_criteria: [{type: file_exists, path: a, description: d}]
-- bad.jsonl --
{"id": 1}
[1]
{"id": 
-- empty.yaml --
task_id: t
description: d
initial_prompt: p
dataset: {paths: [empty.jsonl]}
success_criteria: [{type: file_exists, path: a, description: d}]
-- empty.jsonl --

`)
	expand := func(name string) (*Expansion, error) {
		f, err := Load(dir + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return (&Loader{}).Expand(f, Selection{})
	}
	e, err := expand("task.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range e.Files {
		got = append(got, f.Task.TaskID+"="+f.Task.InitialPrompt)
	}
	if want := "t/a=\U0001F600 t/2=12345678901234567890123 t/c=inf"; strings.Join(got, " ") != want {
		t.Errorf("%s, want %s", got, want)
	}
	_, err = expand("bad.yaml")
	for _, want := range []string{"bad.jsonl:2:1: a row must be a JSON object", "bad.jsonl:3:1: not valid JSON", "none.jsonl: no such file", "3 problems"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := expand("empty.yaml"); err == nil || !strings.Contains(err.Error(), "has no rows") {
		t.Errorf("empty: %v", err)
	}
}

func TestSelection(t *testing.T) {
	var rows strings.Builder
	for i := range 50 {
		split := "train"
		if i%5 == 0 {
			split = "test"
		}
		fmt.Fprintf(&rows, "{id: r%d, split: %s, expected_skill: s%d}, ", i, split, i%3)
	}
	full := "rows: [" + rows.String() + "]"
	for _, test := range []struct {
		dataset string
		s       Selection
		want    string // ids, or their number
		selects string
		fails   error
	}{
		{full, Selection{}, "50", "", nil},
		{full, Selection{Split: "test"}, "10", "split test", nil},
		{full, Selection{Split: "dev"}, "", "", ErrNoSplit},
		{full, Selection{Sample: 6}, "r2 r16 r24 r26 r32 r48", "sample 6", nil},
		{full, Selection{Sample: 60, PerStratum: 1}, "50", "", nil},
		{full, Selection{Split: "test", Sample: 3}, "r0 r30 r45", "split test,sample 3", nil},
		{full, Selection{PerStratum: 2}, "6", "sample-per-stratum 2", nil},
		{full + ", sample_per_stratum: 2, sample_seed: 7", Selection{}, "6", "sample-per-stratum 2", nil},
		{full + ", sample_per_stratum: 2, sample_seed: 7", Selection{PerStratum: 99}, "50", "", nil},
		{"rows: [{id: a}, {id: b, split: null}, {id: c, split: ''}]", Selection{Split: "test"}, "a b c", "", nil},
		{"rows: [{id: a}, {id: b, split: 1}]", Selection{Split: "1"}, "b", "split 1", nil},
		{"rows: [{id: a, expected_skill: null}, {id: b}, {id: c, expected_skill: ''}], sample_per_stratum: 1, sample_seed: 1", Selection{}, "2", "sample-per-stratum 1", nil},
	} {
		f, err := parse(t, small+"dataset: {"+test.dataset+"}\n")
		if err != nil {
			t.Fatal(err)
		}
		e, err := (&Loader{}).Expand(f, test.s)
		if test.fails != nil || err != nil {
			if !errors.Is(err, test.fails) {
				t.Errorf("%+v: %v, want %v", test.s, err, test.fails)
			}
			continue
		}
		var ids []string
		for _, row := range e.Files {
			ids = append(ids, row.Task.RowID)
		}
		if got := strings.Join(ids, " "); got != test.want && fmt.Sprint(len(ids)) != test.want {
			t.Errorf("%+v: %s, want %s", test.s, got, test.want)
		}
		if got := strings.Join(e.Selectors, ","); got != test.selects {
			t.Errorf("%+v: selectors %s, want %s", test.s, got, test.selects)
		}
	}
}

func TestSeededDrawsAreEqual(t *testing.T) {
	draw := func(seed string) string {
		var rows strings.Builder
		for i := range 100 {
			fmt.Fprintf(&rows, "{id: r%d}, ", i)
		}
		f, err := parse(t, small+"dataset: {rows: ["+rows.String()+"], sample_per_stratum: 5"+seed+"}\n")
		if err != nil {
			t.Fatal(err)
		}
		e, err := (&Loader{}).Expand(f, Selection{})
		if err != nil {
			t.Fatal(err)
		}
		if warned := len(e.Warnings) == 1; warned != (seed == "") {
			t.Errorf("%q: warnings %v", seed, e.Warnings)
		}
		var ids string
		for _, row := range e.Files {
			ids += row.Task.RowID + " "
		}
		return ids
	}
	if a, b := draw(", sample_seed: 3"), draw(", sample_seed: 3"); a != b {
		t.Errorf("one seed, two draws: %s, %s", a, b)
	}
	if a, b := draw(""), draw(""); a == b {
		t.Errorf("no seed, and the same draw twice: %s", a)
	}
}

func TestExpansionIsBounded(t *testing.T) {
	text := strings.Replace(small, "initial_prompt: p", "initial_prompt: '"+strings.Repeat("${row.x}", 2000)+"'", 1)
	f, err := parse(t, text+"dataset: {rows: [{id: a, x: '"+strings.Repeat("y", 200_000)+"'}]}\n")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (&Loader{}).Expand(f, Selection{}); !errors.Is(err, ErrRow) || !strings.Contains(err.Error(), "256 MiB") {
		t.Errorf("%.300v", err)
	}
}
