// Package peer runs python3 in differential tests: what we compute must be
// what it computes.
package peer

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"testing"
)

// Ask runs a Python script once. The script reads all cases as one JSON
// document from standard input and prints all results as one to standard
// output. A machine without python3 fails the test.
func Ask(t *testing.T, script string, cases, results any) {
	t.Helper()
	input, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	program, err := exec.LookPath("python3")
	if err != nil {
		t.Fatalf("differential tests need python3: apt-get install python3 python3-jmespath python3-yaml (%v)", err)
	}
	command := exec.Command(program, "-W", "ignore", "-X", "utf8", "-c", script)
	command.Stdin = bytes.NewReader(input)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		t.Fatalf("python3 failed: %v (for a missing module: apt-get install python3 python3-jmespath python3-yaml)\n%s", err, stderr.String())
	}
	if err := json.Unmarshal(output, results); err != nil {
		t.Fatalf("python3 printed no JSON: %v\n%.300s", err, output)
	}
}
