package regrade_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"podgrade/isolation"
	"podgrade/isolation/testimages"
	"podgrade/isolation/testimages/stored"
	"podgrade/oci"
	"podgrade/policy"
	"podgrade/regrade"
	"podgrade/tasks"
	"podgrade/tasks/criteria"
	"podgrade/tasks/record"
	"podgrade/tasks/record/fixture"
)

// This test asks what the tables of the criteria ask a cell in memory once
// more, of real places: cells of each engine and the host, through a whole
// grade. It needs the programs in PODGRADE_TEST_BUILD, which `make test` sets;
// by hand build/ of this tree.

const smokeTask = "../tasks/testdata/coder-eval/tasks/byod_smoke_test.yaml"

// questionnaire is tasks/criteria/testdata/questions.json.
type questionnaire struct {
	Files map[string]struct {
		Kind   criteria.FileType
		Data   []byte
		Repeat int
		Target string
		Denied bool
	}
	Questions []question
}

type question struct {
	Name      string
	Criterion json.RawMessage
	OnHost    bool            `json:"on_host"`
	Calls     []criteria.Call // of the agent
	Result    json.RawMessage // in memory; empty: Author
	Author    string          // reason of the author error
	criterion tasks.Criterion
}

func readQuestions(t *testing.T) questionnaire {
	t.Helper()
	text, err := os.ReadFile("../tasks/criteria/testdata/questions.json")
	if err != nil {
		t.Fatal(err)
	}
	var sheet questionnaire
	if err := json.Unmarshal(text, &sheet); err != nil {
		t.Fatal(err)
	}
	var raw []json.RawMessage
	for _, q := range sheet.Questions {
		raw = append(raw, q.Criterion)
	}
	for i, criterion := range readCriteria(t, raw) {
		sheet.Questions[i].criterion = criterion
	}
	if len(sheet.Questions) < 300 {
		t.Fatalf("there are only %d questions", len(sheet.Questions))
	}
	return sheet
}

// readCriteria reads criteria as they stand in a record.
func readCriteria(t *testing.T, raw []json.RawMessage) tasks.Criteria {
	t.Helper()
	file, err := tasks.Load(smokeTask)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(file.Task)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	if fields["success_criteria"], err = json.Marshal(raw); err != nil {
		t.Fatal(err)
	}
	if text, err = json.Marshal(fields); err != nil {
		t.Fatal(err)
	}
	task, err := tasks.FromRecord(text)
	if err != nil {
		t.Fatal(err)
	}
	return task.SuccessCriteria
}

// make makes the workspace; large files are small when they are not asked about.
func (s questionnaire) make(t *testing.T, root string, large bool) {
	t.Helper()
	for name, file := range s.Files {
		where := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(where), 0o755)
		switch {
		case file.Kind == criteria.Directory:
			err = errors.Join(err, os.MkdirAll(where, 0o755))
		case file.Kind == criteria.Symlink:
			err = errors.Join(err, os.Symlink(file.Target, where))
		case file.Kind == criteria.Other && filepath.Base(name) == "device":
			// The one device that anybody may make.
			err = errors.Join(err, syscall.Mknod(where, syscall.S_IFCHR|0o600, 0))
		case file.Kind == criteria.Other:
			err = errors.Join(err, syscall.Mkfifo(where, 0o600))
		default:
			mode := os.FileMode(0o644)
			if file.Denied {
				mode = 0
			}
			if !large {
				file.Repeat = 0
			}
			err = errors.Join(err, os.WriteFile(where, append(bytes.Repeat([]byte("x\n"), file.Repeat), file.Data...), mode))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// spot is a real place.
type spot struct {
	engine string
	host   *isolation.Host
	pin    oci.Pin
	sheet  questionnaire
}

// shared are engines that more than one grade uses.
type shared struct{ *isolation.Host }

// Close leaves the end to the test.
func (shared) Close() error { return nil }

// startEngines starts the engines of this machine.
func startEngines(t *testing.T, engine string) *isolation.Host {
	t.Helper()
	build := os.Getenv("PODGRADE_TEST_BUILD")
	if build == "" {
		build, _ = filepath.Abs("../build")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	options := isolation.Options{Libexec: filepath.Join(build, "libexec", "podgrade"), Scratch: t.TempDir(), Engine: engine}
	if engine == isolation.EngineHost {
		options.Engine = ""
	}
	host, err := isolation.Start(ctx, options)
	if err != nil {
		t.Fatalf("%v; run make build, and the test as an ordinary user", err)
	}
	t.Cleanup(func() {
		if err := host.Close(); err != nil {
			t.Error(err)
		}
	})
	return host
}

func startSpot(t *testing.T, engine string, sheet questionnaire) spot {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s := spot{engine: engine, sheet: sheet, host: startEngines(t, engine)}
	var err error
	if s.pin, err = stored.Put(ctx, s.host, testimages.BYOD()); err != nil {
		t.Fatal(err)
	}
	return s
}

// grade grades a row with these criteria, in which the agent made these calls.
func (s spot) grade(t *testing.T, large bool, calls []criteria.Call, list ...tasks.Criterion) (*regrade.Verdict, error) {
	t.Helper()
	order := fixture.Order{Task: smokeTask, Form: fixture.Pinned, Out: t.TempDir(), Pin: s.pin, Change: func(task *tasks.Task) {
		task.SuccessCriteria = list
	}}
	for _, call := range calls {
		order.Calls = append(order.Calls, record.Command{ToolName: call.Tool, Parameters: record.Nested(record.Raw(call.Parameters)), ResultStatus: &call.Status})
	}
	dir, err := fixture.Write(order)
	if err != nil {
		t.Fatal(err)
	}
	s.sheet.make(t, filepath.Join(dir, record.ArtifactsDir, "byod_smoke_test"), large)
	row, err := record.OpenRow(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer row.Close()
	verdict, err := regrade.Grade(t.Context(), row, regrade.Options{
		Answer: policy.Answer{RecordedCommands: true}, AllowHost: s.engine == isolation.EngineHost, Network: regrade.NetworkNone,
		Start:  func(context.Context) (regrade.Engines, error) { return shared{s.host}, nil },
		Notice: io.Discard, Lookup: func(string) (string, bool) { return "", false }, Version: "test", SearchTimeout: 200 * time.Millisecond,
	})
	if err != nil {
		return nil, err
	}
	graded, _, err := row.Read()
	if err != nil {
		t.Fatal(err)
	}
	if used := graded.Environment.Text(record.GradedByEngine); used != s.engine {
		t.Errorf("the row was graded by the engine %q", used)
	}
	return verdict, nil
}

// TestEnginesAgreeWithTheCellInMemory asks each engine and, in a soak, the host.
func TestEnginesAgreeWithTheCellInMemory(t *testing.T) {
	sheet := readQuestions(t)
	places := []string{isolation.EngineBundle, isolation.EnginePodman}
	if os.Getenv("PODGRADE_TEST_SOAK") != "" {
		places = append(places, isolation.EngineHost)
	}
	for _, engine := range places {
		t.Run(engine, func(t *testing.T) {
			s := startSpot(t, engine, sheet)
			s.agree(t)
			s.weigh(t)
		})
	}
}

// agree compares one place. Questions that are the author's mistake end a
// grade, so each has a row of its own; those about the same calls share one.
func (s spot) agree(t *testing.T) {
	rows, asked := map[string][]question{}, map[string]bool{}
	for _, q := range s.sheet.Questions {
		calls := fmt.Sprintf("%q", q.Calls)
		if q.large() && s.engine != isolation.EngineBundle && !askAll() {
			continue
		}
		costs := q.Author != "" || len(q.Calls) > 0 && rows[calls] == nil
		if s.engine == isolation.EngineHost && !q.OnHost || costs && asked[q.kind()] && !askAll() {
			continue
		}
		asked[q.kind()] = costs || asked[q.kind()]
		if q.Author == "" {
			rows[calls] = append(rows[calls], q)
		} else if _, err := s.grade(t, false, q.Calls, q.criterion); regrade.KindOf(err) != regrade.TaskFault || !strings.Contains(fmt.Sprint(err), q.Author) {
			t.Errorf("%s: %v, in memory: %s", q.Name, err, q.Author)
		}
	}
	for _, questions := range rows {
		s.compare(t, questions)
	}
}

// askAll tells whether every question that costs a row or much reading is asked
// everywhere, as in a soak. Else those about a large file are asked of the bundle
// engine alone, and of those that cost a row one of each kind.
func askAll() bool { return os.Getenv("PODGRADE_TEST_SOAK") != "" }

// large tells whether the question is about a very large file.
func (q question) large() bool { return bytes.Contains(q.Criterion, []byte(`"large.txt"`)) }

// kind tells apart what costs: mistakes by how their reason begins, all else by
// the type of the criterion.
func (q question) kind() string {
	if q.Author != "" {
		return strings.Join(strings.Fields(q.Author)[:2], " ")
	}
	return q.criterion.Common().Type
}

// compare asks questions that share a row.
func (s spot) compare(t *testing.T, questions []question) {
	t.Helper()
	var list []tasks.Criterion
	for _, q := range questions {
		list = append(list, q.criterion)
	}
	verdict, err := s.grade(t, slices.ContainsFunc(questions, question.large), questions[0].Calls, list...)
	if err != nil {
		t.Fatal(err)
	}
	for i, q := range questions {
		var want bytes.Buffer
		if err := json.Compact(&want, q.Result); err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(verdict.Results[i])
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%s: here\n%.2000s\nin memory\n%.2000s", q.Name, got, want.Bytes())
		}
	}
}

// weigh gives what a criterion of weight 0, and nothing but those, come to.
func (s spot) weigh(t *testing.T) {
	t.Helper()
	of := func(line string, weight float64) tasks.Criterion {
		base := tasks.Base{Type: tasks.TypeRunCommand, Description: line, Weight: weight, PassThreshold: 0.9}
		return &tasks.RunCommand{Base: base, Command: line, Timeout: 30, StdoutMatch: "exact"}
	}
	for name, c := range map[string]struct {
		list   []tasks.Criterion
		status record.Status
		score  float64
	}{
		"weight 0 does not gate": {[]tasks.Criterion{of("true", 2), of("false", 0)}, record.Success, 1},
		"zero weights":           {[]tasks.Criterion{of("false", 0), of("false", 0)}, record.Success, 0},
	} {
		verdict, err := s.grade(t, false, nil, c.list...)
		if err != nil {
			t.Fatal(err)
		}
		if verdict.Status != c.status || verdict.Score != c.score {
			t.Errorf("%s: %s with %v, want %s with %v", name, verdict.Status, verdict.Score, c.status, c.score)
		}
		for i, result := range verdict.Results {
			if score := map[string]float64{"true": 1}[c.list[i].(*tasks.RunCommand).Command]; result.Score != score {
				t.Errorf("%s: criterion %d was not checked: %v", name, i, result.Score)
			}
		}
	}
}
