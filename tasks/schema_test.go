package tasks

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares with a file, or writes it under -update.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs from what the code makes; look at the difference, then run the test with -update\ngot:\n%s", path, got)
	}
}

func TestSchemaGolden(t *testing.T) {
	golden(t, "../docs/task.schema.json", Schema())
}

// TestSchemaAgrees checks that the schema accepts every task file of the corpus
// that loads, and refuses files with a wrong key or value.
func TestSchemaAgrees(t *testing.T) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("task.schema.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("task.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	err = filepath.WalkDir(filepath.Join(corpus, "tasks"), func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".yaml") {
			return err
		}
		if f, err := Load(path); err == nil {
			files++
			if err := schema.Validate(plainJSON(t, f.Source)); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
		return nil
	})
	if err != nil || files < 15 {
		t.Errorf("%d files, %v", files, err)
	}
	for _, wrong := range []string{
		strings.Replace(small, "file_exists", "file_exits", 1),
		strings.Replace(small, "path: a", "pat: a", 1),
		strings.Replace(small, "driver: docker", "driver: moby", 1),
		strings.Replace(small, "driver: docker", "divr: docker", 1),
		small + "agent: {type: codex, thinking_level: low}\n",
		small + "run_limits: {task_timeout: 3}\n",
	} {
		if schema.Validate(plainJSON(t, []byte(wrong))) == nil {
			t.Errorf("the schema accepts\n%s", wrong)
		}
	}
	if err := schema.Validate(plainJSON(t, []byte(small))); err != nil {
		t.Error(err)
	}
}

// small is the smallest useful task.
const small = `task_id: t
description: d
initial_prompt: p
sandbox: {driver: docker}
success_criteria:
  - {type: file_exists, path: a, description: d}
`

// plainJSON turns YAML into the values of the schema library.
func plainJSON(t *testing.T, yaml []byte) any {
	t.Helper()
	r := &report{}
	n := parseYAML(yaml, &source{file: "x"}, r)
	if len(r.problems) > 0 {
		t.Fatal(r.problems)
	}
	return n.value()
}
