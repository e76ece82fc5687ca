package record

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const corpus = "../testdata/coder-eval"

// plain is a document as Go's own reader sees it.
func plain(t *testing.T, text []byte) any {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return value
}

// TestCorpusSurvives reads every JSON file of the corpus and writes it again:
// no key and no value is lost, in whatever layout and of whatever era.
func TestCorpusSurvives(t *testing.T) {
	files := 0
	err := filepath.WalkDir(corpus, func(path string, entry os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".json" {
			return err
		}
		files++
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		doc, err := ParseObject(text)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			return nil
		}
		want := plain(t, text)
		if got := plain(t, doc.Bytes()); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: changed by writing", path)
		}
		if got := plain(t, Encode(Nested(text))); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: changed by laying it out anew", path)
		}
		doc.Set("added", 1)
		doc.Delete("added")
		if got := plain(t, doc.Bytes()); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: changed by a change that was undone", path)
		}
		return nil
	})
	if err != nil || files < 4 {
		t.Errorf("%d files, %v", files, err)
	}
}

// oldRecord is the corpus's record of an old era, with what every era has to
// have filled in: its status is in another vocabulary, and no agent is named.
func oldRecord(t *testing.T) *Record {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(corpus, "dashboard/tests/fixtures/default/task_001/task.json"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Parse(text); err == nil {
		t.Error("a status that no version defines was taken for one")
	}
	text = []byte(strings.Replace(strings.Replace(string(text), `"succeeded"`, `"SUCCESS"`, 1), `"variant_id"`, `"agent_type": "claude-code", "variant_id"`, 1))
	r, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestARecordOfAnOldEraIsRead: turns under their old name, tokens under theirs,
// results without a kind.
func TestARecordOfAnOldEraIsRead(t *testing.T) {
	r := oldRecord(t)
	before := plain(t, r.Bytes())
	row := NewSummaryRow(r, 0, "")
	for name, got := range map[string][2]string{
		"turns":    {string(Encode(r.Trajectory().Length())), "2"},
		"digests":  {string(Encode(row.Value("iterations").Length())), "2"},
		"uncached": {string(row.Value("input_tokens")), "5000"},
		"cost":     {string(row.Value("total_cost_usd")), "0.05"},
		"tags":     {string(Encode(row.Value("tags").Length())), "2"},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %s, want %s", name, got[0], got[1])
		}
	}
	if *row.Turns != 3 {
		t.Errorf("%d turns", *row.Turns)
	}
	if results := r.CriterionResults(); len(results) != 2 || !results[0].Passed || !results[0].Gating || !results[0].Evaluated {
		t.Errorf("results: %+v", results)
	}
	if !reflect.DeepEqual(plain(t, r.Bytes()), withEnvironment(before)) {
		t.Error("reading changed the record")
	}
}

// withEnvironment adds the one field that writing fills in.
func withEnvironment(document any) any {
	fields := document.(map[string]any)
	if _, has := fields[FieldEnvironment]; !has {
		fields[FieldEnvironment] = map[string]any{}
	}
	return document
}

// TestASummaryOfAnOldEraIsRead: it lacks half of the keys, and one of its rows
// has a status of another vocabulary.
func TestASummaryOfAnOldEraIsRead(t *testing.T) {
	s, err := ReadSummary(filepath.Join(corpus, "dashboard/tests/fixtures"))
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Rows) != 1 || s.Rows[0].Status.Category() != Errored || *s.Rows[0].Score != 1 || s.Rows[0].Iterations != 1 {
		t.Errorf("%+v", s.Rows)
	}
	if s.Start.IsZero() || s.Framework != "0.5.0" {
		t.Errorf("%+v", s)
	}
}

// TestUnknownKeysSurviveAGrade: those of the record, of its environment, and
// of a result that the grade does not replace.
func TestUnknownKeysSurviveAGrade(t *testing.T) {
	text := `{"task_id": "a", "future": {"x": [1.50, 1e3, NaN]}, "task_description": "", "agent_type": "none", "iteration_count": 1,
  "final_status": "NOT_GRADED", "weighted_score": null, "turns": [{"odd": "\u00e9"}], "environment_info": {"later_key": "kept", "graded_live": true},
  "post_failure_criteria_results": [{"criterion_type": "x", "extra": 7}]}`
	r, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	ClearGradeStamps(r.Environment)
	r.Set(FieldFinalStatus, string(Success))
	r.Set(FieldWeightedScore, 1.0)
	got := string(r.Bytes())
	for _, kept := range []string{`"future": {"x": [1.50, 1e3, NaN]}`, `"turns": [{"odd": "\u00e9"}]`, `"later_key": "kept"`, `"extra": 7`} {
		if !strings.Contains(got, kept) {
			t.Errorf("%s is gone:\n%s", kept, got)
		}
	}
	if strings.Contains(got, "graded_live") {
		t.Error("an older stamp was kept")
	}
}
