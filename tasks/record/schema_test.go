package record

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// recordSchema is the published schema of a record.
func recordSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := os.ReadFile("../../docs/record.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("record.schema.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("record.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func validate(t *testing.T, schema *jsonschema.Schema, text []byte) error {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(document)
}

// TestWhatWeWriteFollowsTheSchema: what an execute writes, and the same with
// the results of every kind of criterion.
func TestWhatWeWriteFollowsTheSchema(t *testing.T) {
	schema := recordSchema(t)
	r, err := New(executed(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate(t, schema, r.Bytes()); err != nil {
		t.Errorf("executed: %v", err)
	}
	results, err := os.ReadFile("../criteria/testdata/results.json")
	if err != nil {
		t.Fatal(err)
	}
	r.Set(FieldCriteriaResults, Nested(results))
	r.Set(FieldFinalStatus, string(Failure))
	r.Set(FieldWeightedScore, 0.5)
	r.Set(FieldGradingMS, 12.5)
	r.Set(FieldPostRunResults, []HookResult{{Command: "true", Error: ptr("it was ended by its time-out")}})
	r.Set(FieldEarlyStop, &EarlyStop{Reason: "criterion_passed", ToolCallIndex: 1, GateThreshold: 1})
	if err := validate(t, schema, r.Bytes()); err != nil {
		t.Errorf("graded: %v", err)
	}
	empty, err := New(Execution{TaskID: "x", AgentType: "none", Started: executed(t).Started, Status: BuildFailed,
		ErrorDetails: &ErrorDetails{Category: "build", Attempt: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if err := validate(t, schema, empty.Bytes()); err != nil {
		t.Errorf("without turns: %v", err)
	}
}

// TestTheSchemaNamesEveryField: in both directions.
func TestTheSchemaNamesEveryField(t *testing.T) {
	text, err := os.ReadFile("../../docs/record.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := ParseObject(text)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := objectOf(doc.Value("properties")).Names(), Fields(); !slices.Equal(got, want) {
		t.Errorf("the schema has %v\nthe record has %v", got, want)
	}
	statuses, _ := objectOf(objectOf(doc.Value("properties")).Value(FieldFinalStatus)).Value("enum").Elements()
	if len(statuses) != len(allStatuses()) {
		t.Errorf("%d statuses, the schema has %d", len(allStatuses()), len(statuses))
	}
}

func TestTheSchemaRefuses(t *testing.T) {
	schema := recordSchema(t)
	r, err := New(executed(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string][2]string{
		"an unknown status":        {`"NOT_GRADED"`, `"GRADED"`},
		"a score above 1":          {`"weighted_score": null`, `"weighted_score": 1.5`},
		"a time that is none":      {`"started_at": "2026-09-18T10:00:01.250000"`, `"started_at": "yesterday"`},
		"a misspelt key of a turn": {`"agent_output"`, `"agent_ouput"`},
		"a nested fact":            {`"podgrade_version": "0.1.0"`, `"podgrade_version": {"major": 0}`},
		"a count below 0":          {`"iteration_count": 2`, `"iteration_count": -1`},
		"no task id":               {`"task_id": "add-footer",`, ``},
		"another source":           {`"lineage": {`, `"lineage": {"a": {"value": 1, "source": "moon"},`},
	} {
		text := strings.Replace(string(r.Bytes()), change[0], change[1], 1)
		if text == string(r.Bytes()) {
			t.Errorf("%s: nothing was changed", name)
			continue
		}
		text = strings.Replace(text, "},}", "}}", 1)
		if validate(t, schema, []byte(text)) == nil {
			t.Errorf("the schema accepts %s", name)
		}
	}
}
