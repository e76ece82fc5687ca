package criteria_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"podgrade/tasks"
	"podgrade/tasks/criteria"
)

var update = flag.Bool("update", false, "write the golden files anew")

// weighted makes a criterion with a weight and a result with a score.
func weighted(weight, score, threshold float64, armed bool) (tasks.Criterion, criteria.Result) {
	c := exists("x")
	c.Weight, c.PassThreshold = weight, threshold
	if armed {
		c.StopEarly = &tasks.StopEarly{}
	}
	return c, criteria.Result{Score: score, PassThreshold: threshold}
}

func TestGate(t *testing.T) {
	type row struct{ weight, score, threshold float64 }
	for _, test := range []struct {
		name   string
		rows   []row
		score  float64
		passed bool
	}{
		{"none", nil, 0, true},
		{"all pass", []row{{1, 1, 0.9}, {3, 0.9, 0.9}}, 0.925, true},
		{"a small weight does not soften the gate", []row{{100, 1, 0.9}, {0.01, 0, 0.9}}, 100 / 100.01, false},
		{"weight 0 does not gate", []row{{1, 1, 0.9}, {0, 0, 0.9}}, 1, true},
		{"zero weights", []row{{0, 1, 0.9}, {0, 0, 0.9}}, 0, true},
		{"threshold 0", []row{{1, 0, 0}}, 0, true},
		{"tenths", []row{{0.1, 1, 0.9}, {0.1, 1, 0.9}, {0.1, 1, 0.9}, {0.1, 1, 0.9}, {0.1, 1, 0.9}, {0.1, 1, 0.9}, {0.1, 1, 0.9}, {0.1, 1, 0.9}, {0.1, 1, 0.9}, {0.1, 1, 0.9}}, 1, true},
		{"just below", []row{{1, 8.0 / 9, 0.9}}, 8.0 / 9, false},
	} {
		var list []tasks.Criterion
		var results []criteria.Result
		for _, r := range test.rows {
			c, result := weighted(r.weight, r.score, r.threshold, false)
			list, results = append(list, c), append(results, result)
		}
		verdict, err := criteria.Gate(list, results)
		if err != nil || verdict.WeightedScore != test.score || verdict.Passed != test.passed {
			t.Errorf("%s: %+v (%v), want %v and %v", test.name, verdict, err, test.score, test.passed)
		}
	}
	if _, err := criteria.Gate(nil, make([]criteria.Result, 1)); !errors.Is(err, criteria.ErrCount) {
		t.Errorf("a result too many is %v", err)
	}
}

func TestEarlyGate(t *testing.T) {
	type row struct {
		weight, score float64
		armed         bool
	}
	for _, test := range []struct {
		name      string
		rows      []row
		threshold float64
		open      bool
		fails     bool
	}{
		{"no armed criterion", []row{{1, 1, false}}, 1, false, true},
		{"armed passes, the other does not count", []row{{1, 1, true}, {1, 0, false}}, 1, true, false},
		{"each counts as 1 or 0", []row{{3, 0.95, true}, {1, 0.8, true}}, 0.75, true, false},
		{"below the threshold", []row{{1, 1, true}, {1, 0, true}}, 0.6, false, false},
		{"no weight", []row{{0, 1, true}}, 0, false, false},
	} {
		var list []tasks.Criterion
		var results []criteria.Result
		for _, r := range test.rows {
			c, result := weighted(r.weight, r.score, 0.9, r.armed)
			list, results = append(list, c), append(results, result)
		}
		open, err := criteria.EarlyGate(list, results, test.threshold)
		if open != test.open || (err != nil) != test.fails {
			t.Errorf("%s: %v (%v), want %v", test.name, open, err, test.open)
		}
	}
	if _, err := criteria.EarlyGate(nil, make([]criteria.Result, 1), 1); !errors.Is(err, criteria.ErrCount) {
		t.Errorf("a result too many is %v", err)
	}
}

// sink keeps what criteria say.
type sink struct {
	mu    sync.Mutex
	lines []string
}

func (s *sink) Note(label, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, label+": "+text)
}

func (s *sink) Command(label, line string, _ criteria.Exit) { s.Note(label, "ran "+line) }

// TestResultsAsRecorded compares the record's form of one result of each kind,
// and the grading log, with golden files.
func TestResultsAsRecorded(t *testing.T) {
	cell := newCell(map[string]string{"label.txt": "yes"})
	cell.run = printed("out\n", 0)
	informational := exists("no.txt")
	informational.Weight = 0
	log := &sink{}
	list := []tasks.Criterion{
		informational, exists("../../etc/none"), contains("no.txt", []string{"a"}, nil),
		&tasks.LLMJudge{Base: common(tasks.TypeLLMJudge), Prompt: "?", JudgeInput: tasks.JudgeInput{Enabled: true, CaptureTranscript: true, MaxTranscriptChars: 3}},
		&tasks.RunCommand{Base: common(tasks.TypeRunCommand), Command: "make", Timeout: 30, StdoutMatch: "exact"},
		&tasks.ClassificationMatch{Base: common(tasks.TypeClassificationMatch), Path: "label.txt", ExpectedLabel: "no", AllowedLabels: []string{"yes", "no"}},
		&tasks.SkillTriggered{Base: common(tasks.TypeSkillTriggered), SkillName: "x"},
	}
	judge := judgeFunc(func(criteria.Question) (criteria.Answer, error) {
		return criteria.Answer{Verdict: json.RawMessage(`{"score": 0.5, "rationale": "half", "findings": ["one"]}`), Transcript: "long text", Usage: &tasks.TokenUsage{OutputTokens: 7}}, nil
	})
	results, err := criteria.Check(t.Context(), list, criteria.Surroundings{Cell: cell, Sink: log, Judge: judge})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/results.json", string(text)+"\n")
	golden(t, "testdata/grade.log", strings.Join(log.lines, "\n")+"\n")
	if got := results[3].Judgement.Transcript; got != "lon... [6 more characters]" {
		t.Errorf("transcript is %q", got)
	}
	var back []criteria.Result
	if err := json.Unmarshal(text, &back); err != nil || back[5].ObservedLabel == nil || *back[5].ObservedLabel != "yes" || back[4].StdoutBytes != 4 {
		t.Errorf("read back: %+v (%v)", back, err)
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatalf("%v (write it with -update)", err)
	}
	if got != string(want) {
		t.Errorf("%s differs; got\n%s", name, got)
	}
}

// TestOrder: judges come after all others, an author error ends the check.
func TestOrder(t *testing.T) {
	cell := newCell(nil)
	cell.run = printed("", 0)
	var asked []int
	judge := judgeFunc(func(criteria.Question) (criteria.Answer, error) {
		asked = append(asked, len(cell.ran))
		return criteria.Answer{Verdict: json.RawMessage(`{"score": 1}`)}, nil
	})
	run := &tasks.RunCommand{Base: common(tasks.TypeRunCommand), Command: "x"}
	ask := &tasks.LLMJudge{Base: common(tasks.TypeLLMJudge), JudgeInput: tasks.JudgeInput{Enabled: true}}
	results, err := criteria.Check(t.Context(), []tasks.Criterion{ask, run, run}, criteria.Surroundings{Cell: cell, Judge: judge})
	if err != nil || len(asked) != 1 || asked[0] != 2 || results[0].Kind != criteria.KindJudge {
		t.Errorf("the judge was asked after %v commands (%v)", asked, err)
	}
	var author *criteria.AuthorError
	results, err = criteria.Check(t.Context(), []tasks.Criterion{run, exists("/etc/passwd"), run}, criteria.Surroundings{Cell: cell})
	if !errors.As(err, &author) || author.Index != 1 || results != nil || len(cell.ran) != 3 {
		t.Errorf("after an author error: %v, %v, %d commands", results, err, len(cell.ran))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	cell.run = func(criteria.Command) (criteria.Exit, error) { return criteria.Exit{}, ctx.Err() }
	var infra *criteria.InfrastructureError
	if _, err = criteria.Check(ctx, []tasks.Criterion{run}, criteria.Surroundings{Cell: cell}); !errors.As(err, &infra) || !errors.Is(err, context.Canceled) {
		t.Errorf("an interrupted check is %v", err)
	}
}

func TestReason(t *testing.T) {
	long := strings.Repeat("é", 300)
	for _, row := range []struct {
		result criteria.Result
		want   string
	}{
		{criteria.Result{}, ""},
		{criteria.Result{Details: text("\nfirst\nsecond")}, "first"},
		{criteria.Result{Details: text("d"), Error: text("e")}, "e"},
		{criteria.Result{Error: &long}, strings.Repeat("é", 200)},
	} {
		if got := row.result.Reason(); got != row.want {
			t.Errorf("reason is %q, want %q", got, row.want)
		}
	}
}

func TestIgnorePatterns(t *testing.T) {
	got := strings.Join(criteria.IgnorePatterns([]string{" *.tmp ", "!dist", "! build"}), " ")
	if want := ".git .venv __pycache__ node_modules *.tmp"; got != want {
		t.Errorf("patterns are %q, want %q", got, want)
	}
}

func TestValidate(t *testing.T) {
	bad, untranslatable := "(", `(?ai:(a)\1)`
	cli := &tasks.CLICalled{Base: common(tasks.TypeCLICalled)}
	cli.Flags = map[string]tasks.FlagPredicate{"x": {MatchesRegex: &bad}}
	list := []tasks.Criterion{
		matches("a", bad, true, 0), matches("a", untranslatable, true, 0), cli,
		&tasks.FileCheck{Base: common(tasks.TypeFileCheck), Patterns: []tasks.FilePattern{{Pattern: untranslatable}, {Pattern: "a"}, {Pattern: untranslatable}}},
		&tasks.RunCommand{Base: common(tasks.TypeRunCommand), ExpectedStdout: &untranslatable, StdoutMatch: "regex"},
		&tasks.RunCommand{Base: common(tasks.TypeRunCommand), ExpectedStdout: &untranslatable, StdoutMatch: "exact"},
		&tasks.JSONCheck{Base: common(tasks.TypeJSONCheck), Assertions: []tasks.JSONAssertion{{Operator: tasks.OpRegex, Expected: untranslatable}}},
		&tasks.CommandExecuted{Base: common(tasks.TypeCommandExecuted), ExcludePattern: untranslatable},
		&tasks.ReferenceComparison{Base: common(tasks.TypeReferenceComparison), ComparisonMethod: "complexity"},
	}
	var got []int
	for _, problem := range criteria.Validate(list) {
		got = append(got, problem.Index)
	}
	if want := []int{1, 2, 3, 3, 4, 6, 7, 8}; !slices.Equal(got, want) {
		t.Errorf("errors of criteria %v, want %v", got, want)
	}
}
