package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestARenamedRunKeepsNoForgedVerdict: the row is graded again, and says why; and trust
// verify names what is not as it was signed.
func TestARenamedRunKeepsNoForgedVerdict(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.write("a.yaml", sceneTask(t, "echo made >made", `success_criteria:
  - {type: file_contains, path: made, includes: [something else], description: it is made}
`))
	s.podgrade(1, "run", "a.yaml", "--run-dir", "r9")
	s.is("r9/"+sceneRow, "FAILURE", 0)
	if err := os.Rename(filepath.Join(s.dir, "r9"), filepath.Join(s.dir, "r9m")); err != nil {
		t.Fatal(err)
	}
	out, said := s.podgrade(1, "run", "--resume", "a.yaml", "--run-dir", "r9m")
	if !strings.Contains(out+said, "as it was") || strings.Contains(said, "graded again") {
		t.Errorf("only renamed: %s%s", out, said)
	}
	path := filepath.Join(s.dir, "r9m", sceneRow, "task.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	forged := strings.NewReplacer(`"FAILURE"`, `"SUCCESS"`, `"weighted_score": 0.0`, `"weighted_score": 1.0`, `"score": 0.0`, `"score": 1.0`).Replace(string(text))
	if err := os.WriteFile(path, []byte(forged), 0o644); err != nil {
		t.Fatal(err)
	}
	out, _ = s.podgrade(1, "trust", "verify", "r9m")
	if want := `not signed: the row was signed as one of the run "r9", and does not lie in it; there this user's own key has signed another verdict, score, criterion results`; !strings.Contains(out, want) {
		t.Errorf("%q is not in: %s", want, out)
	}
	out, said = s.podgrade(1, "run", "--resume", "a.yaml", "--run-dir", "r9m")
	if want := "is graded again: this user's own key has signed another verdict, score, criterion results than it holds now"; !strings.Contains(said, want) || strings.Contains(out, "as it was") {
		t.Errorf("%q is not in: %s%s", want, out, said)
	}
	s.is("r9m/"+sceneRow, "FAILURE", 0)
}
