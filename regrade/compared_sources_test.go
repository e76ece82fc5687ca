package regrade_test

import (
	"fmt"
	"strings"
	"testing"

	"podgrade/isolation"
	"podgrade/isolation/testimages"
	"podgrade/tasks"
	"podgrade/tasks/record"
)

// TestSourcesAreComparedTheSameOnEachEngine asks the image's own python3 about
// every kind of file that an agent can leave.
func TestSourcesAreComparedTheSameOnEachEngine(t *testing.T) {
	const line = `printf 'pass\npass\npass\n' >same.py; echo pass >half.py; printf 'x = 1' >other.py; echo def >broken.py; printf '\303(' >latin1.py; printf 'x\000' >binary.py; mkdir dir; mkfifo pipe; truncate -s 100M large.py; ln -s /etc/passwd out`
	cases := []struct {
		file, method string
		score        float64
		err          string // in the error; "": there is none
	}{
		{"same.py", "ast", 1, ""},
		{"half.py", "ast", 2 * 2.0 / 6, ""},
		{"same.py", "token", 1, ""},
		{"other.py", "token", 2 * 3.0 / 12, ""},
		{"broken.py", "ast", 0, "SyntaxError"},
		{"latin1.py", "ast", 0, "UnicodeDecodeError"},
		{"binary.py", "ast", 0, "null bytes"},
		{"dir", "ast", 0, "IsADirectoryError"},
		{"pipe", "ast", 0, "not a regular file"},
		{"large.py", "ast", 0, "too large to be compared"},
		{"out", "ast", 0, "A link leads out"},
		{"none.py", "ast", 0, "File not found"},
		{"../../etc/none", "ast", 0, "File not found"},
	}
	criteria := "reference: {directory: ref}\nsuccess_criteria:\n"
	for _, c := range cases {
		criteria += fmt.Sprintf("  - {type: reference_comparison, agent_file: %s, reference_file: r.py, comparison_method: %s, description: d}\n", c.file, c.method)
	}
	text := "task_id: compared\ndescription: d\n" + agentOf(line) + `sandbox: {driver: docker, docker: {image: "localhost/podgrade-test/debian:1", network: none}}` + "\n" + criteria
	for _, engine := range []string{isolation.EngineBundle, isolation.EnginePodman} {
		t.Run(engine, func(t *testing.T) {
			b := newBench(t, engine, testimages.Debian())
			r := b.executes(load(t, write(t, text, map[string]string{"ref/r.py": "pass\npass\npass\n"}), tasks.Request{}))
			if r.Status != record.NotGraded {
				t.Fatalf("executed as %s: %s", r.Status, r.Message)
			}
			for i, result := range r.grades().Results {
				said := ""
				if result.Error != nil {
					said = *result.Error
				}
				if c := cases[i]; result.Score != c.score || (said == "") != (c.err == "") || !strings.Contains(said, c.err) {
					t.Errorf("%s by %s: %v with %q, want %v with %q", c.file, c.method, result.Score, said, c.score, c.err)
				}
			}
		})
	}
}
