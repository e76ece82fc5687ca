package podgrade_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	madeHere     = regexp.MustCompile(`localhost/[a-z0-9/._-]+:[a-z0-9._-]+`)
	importedLine = regexp.MustCompile(`(?m)^\s*podgrade images (?:import|build) .*$`)
)

// TestDemoMakesTheImagesOfTheExamples: a store in which the tests have run has
// images that a newcomer's has not, so the demo alone would not notice.
func TestDemoMakesTheImagesOfTheExamples(t *testing.T) {
	script, err := os.ReadFile("tasks/examples/demo.sh")
	if err != nil {
		t.Fatal(err)
	}
	made := madeHere.FindAllString(strings.Join(importedLine.FindAllString(string(script), -1), "\n"), -1)
	var files []string
	for _, pattern := range []string{"tasks/examples/*/task.yaml", "tasks/examples/*/image/Dockerfile", "cmd/podgrade/example.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(found), err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, image := range madeHere.FindAllString(string(text), -1) {
			if !slices.Contains(made, image) {
				t.Errorf("%s needs %s, which the demo does not make; it makes %q", file, image, made)
			}
		}
	}
}
