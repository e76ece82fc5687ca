package regrade

import (
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// FollowsSchema fails the test when a record is not what docs/record.schema.json
// says.
func FollowsSchema(t testing.TB, text string) {
	t.Helper()
	schema, err := os.Open("../docs/record.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	defer schema.Close()
	document, err := jsonschema.UnmarshalJSON(schema)
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("record.schema.json", document); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("record.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	instance, err := jsonschema.UnmarshalJSON(strings.NewReader(strings.ReplaceAll(text, ": NaN", ": null"))) // Python writes NaN, which is no JSON
	if err != nil {
		t.Fatal(err)
	}
	if err := compiled.Validate(instance); err != nil {
		t.Errorf("the record does not follow its schema: %v", err)
	}
}
