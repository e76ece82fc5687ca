package record

import (
	"errors"
	"os"
	"strings"
	"testing"
)

func minimal(t *testing.T) ([]byte, *Record) {
	t.Helper()
	data, err := os.ReadFile("testdata/minimal.json")
	if err != nil {
		t.Fatal(err)
	}
	r, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return data, r
}

func TestRecordSurvivesByteForByte(t *testing.T) {
	data, r := minimal(t)
	if got := string(r.Bytes()); got != string(data) {
		t.Errorf("an untouched record was changed:\n%s", got)
	}
	spaced := append(data, '\n')
	r, err := Parse(spaced)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(r.Bytes()); got != string(spaced) {
		t.Error("the newline at the end was lost")
	}
}

func TestRecordChangesOnlyWhatIsSet(t *testing.T) {
	data, r := minimal(t)
	ClearGradeStamps(r.Environment)
	r.Set(FieldFinalStatus, string(Success))
	r.Set(FieldWeightedScore, 1.0)
	want := strings.NewReplacer(
		`"final_status": "NOT_GRADED"`, `"final_status": "SUCCESS"`,
		`"weighted_score": null`, `"weighted_score": 1.0`,
		"    \"graded_on_host\": true,\n", "",
	).Replace(string(data))
	if got := string(r.Bytes()); got != want {
		t.Errorf("got:\n%s", got)
	}
}

func TestRecordFields(t *testing.T) {
	_, r := minimal(t)
	if r.TaskID != "add-footer" || r.VariantID != "default" || r.Status != NotGraded || r.Score != nil || r.Iterations != 1 || r.HasVerdict() {
		t.Errorf("read: %+v", r)
	}
	if got := r.Trajectory().Length(); got != 1 {
		t.Errorf("%d turns", got)
	}
	config, err := r.TaskConfig()
	if err != nil || config.SourceFile != "/repo/tasks/add-footer.yaml" || !config.Resolved.isObject() {
		t.Errorf("task_config: %+v, %v", config, err)
	}
}

func TestSetPutsAFieldAtItsPlace(t *testing.T) {
	r, err := Parse([]byte(`{"task_id":"x","task_description":"d","agent_type":"none","final_status":"ERROR","iteration_count":0,"task_config":null,"mine":1}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Set(FieldWeightedScore, nil)
	r.Set(FieldEarlyStop, nil)
	r.Set("other", 1)
	want := "task_id task_description agent_type final_status weighted_score iteration_count task_config mine early_stop other"
	if got := strings.Join(r.doc.Names(), " "); got != want {
		t.Errorf("order: %s", got)
	}
	if _, err := r.TaskConfig(); !errors.Is(err, ErrNoTaskConfig) {
		t.Errorf("task_config null: %v", err)
	}
}

func TestParseNamesTheFieldThatIsWrong(t *testing.T) {
	data, _ := minimal(t)
	tests := []struct{ old, new, want string }{
		{`"task_id": "add-footer",`, ``, "task_id"},
		{`"NOT_GRADED"`, `"GOOD"`, "GOOD"},
		{`"NOT_GRADED"`, `null`, "final_status"},
		{`"weighted_score": null`, `"weighted_score": "1"`, "weighted_score"},
		{`"weighted_score": null`, `"weighted_score": NaN`, "weighted_score"},
		{`"weighted_score": null`, `"weighted_score": 1.5`, "weighted_score"},
		{`"iteration_count": 1`, `"iteration_count": -1`, "iteration_count"},
		{`"iteration_count": 1`, `"iteration_count": 1.5`, "iteration_count"},
		{`"max_turns_exhausted": false`, `"max_turns_exhausted": 0`, "max_turns_exhausted"},
		{`"early_stop": null`, `"early_stop": []`, "early_stop"},
		{`"success_criteria_results": []`, `"success_criteria_results": {}`, "success_criteria_results"},
		{`"sandbox_path": "/r/default/add-footer/00/artifacts/add-footer"`, `"sandbox_path": 1`, "sandbox_path"},
	}
	for _, test := range tests {
		text := strings.Replace(string(data), test.old, test.new, 1)
		if text == string(data) {
			t.Fatalf("the test data holds no %q", test.old)
		}
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", test.new, err)
		}
	}
}

func TestFieldsHaveNoDouble(t *testing.T) {
	seen := map[string]bool{}
	for _, field := range Fields() {
		if seen[field] {
			t.Errorf("%s is listed twice", field)
		}
		seen[field] = true
	}
	for name, value := range constants(t, "fields.go") {
		if strings.HasPrefix(name, "Field") && !seen[value] {
			t.Errorf("%s (%s) is not in the list of fields", name, value)
		}
	}
}
