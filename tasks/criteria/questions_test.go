package criteria_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"podgrade/tasks"
	"podgrade/tasks/criteria"
)

// The tables ask a cell in memory. What they ask and what they are answered is
// kept in a file, so that a test of a higher layer, which may open real cells,
// can ask each engine the same (regrade/engines_test.go).

// questionsFile holds a questionnaire.
const questionsFile = "testdata/questions.json"

// questionnaire is one workspace and what is asked of it.
type questionnaire struct {
	Files     map[string]questionFile `json:"files"`
	Questions []question              `json:"questions"`
}

// questionFile is one file of the workspace. One of no known kind is a pipe, or
// a device where that is its name.
type questionFile struct {
	Kind   criteria.FileType `json:"kind"`
	Data   []byte            `json:"data,omitempty"`
	Repeat int               `json:"repeat,omitempty"` // of "x\n", before Data
	Target string            `json:"target,omitempty"` // of a link
	Denied bool              `json:"denied,omitempty"` // nobody may read it
}

// question is one row of a table that a real place can be asked too.
type question struct {
	Name      string          `json:"name"`
	Criterion json.RawMessage `json:"criterion"` // as a record holds it
	// OnHost: the answer does not depend on where the workspace lies.
	OnHost bool `json:"on_host"`
	// Calls are what the agent did, as a record holds it.
	Calls  []criteria.Call  `json:"calls,omitempty"`
	Result *criteria.Result `json:"result,omitempty"`
	// Author is the reason of an author error, in place of a result.
	Author string `json:"author,omitempty"`

	criterion tasks.Criterion
	where     criteria.Surroundings
}

// TestQuestionsAreThoseOfTheTables keeps the file up to date.
func TestQuestionsAreThoseOfTheTables(t *testing.T) {
	sheet := questionnaire{Files: map[string]questionFile{}, Questions: questions(t)}
	if len(sheet.Questions) < 300 {
		t.Errorf("the tables give only %d questions", len(sheet.Questions))
	}
	taken := map[*fakeCell]bool{}
	for i := range sheet.Questions {
		sheet.Questions[i].answer(t)
		cell := sheet.Questions[i].where.Cell.(*fakeCell)
		if taken[cell] {
			continue // a tree with a very large file in it
		}
		taken[cell] = true
		for name, file := range cell.files {
			sheet.Files[name] = asked(file)
		}
	}
	text, err := json.MarshalIndent(sheet, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	if *update {
		if err := os.WriteFile(questionsFile, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(questionsFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(kept, text) {
		t.Errorf("%s is not what the tables ask; run this test with -update and look at the difference", questionsFile)
	}
}

// answer asks the cell in memory.
func (q *question) answer(t *testing.T) {
	t.Helper()
	results, err := criteria.Check(t.Context(), []tasks.Criterion{q.criterion}, q.where)
	var author *criteria.AuthorError
	switch {
	case errors.As(err, &author):
		q.Author = author.Reason
	case err != nil:
		t.Fatalf("%s: %v", q.Name, err)
	default:
		q.Result = &results[0]
	}
}

func asked(file fakeFile) questionFile {
	out := questionFile{Kind: file.kind, Data: file.data, Target: file.target, Denied: errors.Is(file.fails, criteria.ErrDenied)}
	if rest := bytes.TrimLeft(file.data, "x\n"); len(file.data)-len(rest) > 1<<20 {
		out.Data, out.Repeat = rest, (len(file.data)-len(rest))/2
	}
	return out
}

// endless is the pattern of the cases that end by a time-out of the search.
const endless = "(a|aa|a?a)+$"

// patience is the time-out of searches, here and in the grades of real places.
const patience = 200 * time.Millisecond

// questions are those of the tables that a record can hold and that do not
// depend on a fault of the cell in memory.
func questions(t *testing.T) (list []question) {
	t.Helper()
	known := realTree()
	tables := [][]expectation{fileExistsTable(known), fileContainsTable(known), fileMatchesRegexTable(known), fileCheckTable(known), pathRows(t, pathTree(known))}
	for _, table := range tables {
		for _, row := range table {
			_, compares := row.criterion.(*tasks.ReferenceComparison) // with another image and a reference
			if row.where.Cell == known.Cell && !ofFaults(row) && !compares {
				list = append(list, question{Name: row.name, criterion: row.criterion, OnHost: !ofPlaces(row), where: known})
			}
		}
	}
	for _, table := range [][]expectation{classificationMatchTable(), jsonCheckTable(), cliCalledTable(), endlessTable()} {
		for _, row := range table {
			list = append(list, below(fmt.Sprintf("case-%03d", len(list)), row))
		}
	}
	for _, row := range runCommandTable() {
		if q, ok := ofCommand(row); ok {
			list = append(list, q)
		}
	}
	for _, table := range [][]expectation{commandExecutedTable(), commandsEfficiencyTable(), skillTriggeredTable()} {
		for _, row := range table {
			if q, ok := ofTrajectory(row); ok {
				list = append(list, q)
			}
		}
	}
	kept := list[:0]
	for _, q := range list {
		if q.record(t) {
			kept = append(kept, q)
		}
	}
	return kept
}

// endlessTable are searches that would go on for ever, one of each criterion
// that searches a file.
func endlessTable() []expectation {
	text := strings.Repeat("a", 60) + "b"
	where := criteria.Surroundings{Cell: newCell(map[string]string{"back.txt": text, "back.json": `"` + text + `"`}), RegexTimeout: patience}
	return []expectation{
		{name: "file_matches_regex backtracks for ever", criterion: matches("back.txt", endless, true, 0), where: where, err: "TimeoutError"},
		{name: "file_matches_regex backtracks for ever, must not match", criterion: matches("back.txt", endless, false, 0), where: where, err: "TimeoutError"},
		{name: "file_check backtracks for ever", where: where, err: "TimeoutError", criterion: &tasks.FileCheck{
			Base: common(tasks.TypeFileCheck), Path: "back.txt", Patterns: []tasks.FilePattern{{Pattern: endless, MustMatch: true}}}},
		{name: "json_check backtracks for ever", where: where, details: "0 of 1", criterion: &tasks.JSONCheck{
			Base: common(tasks.TypeJSONCheck), Path: "back.json", Assertions: []tasks.JSONAssertion{{Expression: "@", Operator: tasks.OpRegex, Expected: endless}}}},
	}
}

func TestSearchesThatBacktrackForEver(t *testing.T) { check(t, endlessTable()) }

// ofTrajectory makes a case about what the agent did one that a record can
// hold: it always has a trajectory, of calls whose parameters are an object.
func ofTrajectory(row expectation) (question, bool) {
	if row.where.Trajectory == nil {
		return question{}, false
	}
	row.where.Cell = newCell(nil)
	q := question{Name: row.name, OnHost: true, criterion: row.criterion, where: row.where, Calls: []criteria.Call{}}
	for _, call := range row.where.Trajectory.Turns[0].Calls {
		if call.Parameters[0] == '{' {
			q.Calls = append(q.Calls, call)
		}
	}
	q.where.Trajectory = &criteria.Trajectory{Turns: []criteria.Turn{{Calls: q.Calls}}}
	return q, true
}

// realTree is the tree of the tables without what cannot be made: faults.
func realTree() criteria.Surroundings {
	where := tree()
	cell := where.Cell.(*fakeCell)
	for name, file := range cell.files {
		if file.fails != nil && !errors.Is(file.fails, criteria.ErrDenied) {
			delete(cell.files, name)
		}
	}
	where.RegexTimeout = patience
	return where
}

// ofFaults tells whether a case is about a file that realTree does not have.
func ofFaults(row expectation) bool {
	text, _ := json.Marshal(row.criterion)
	for _, name := range []string{"broken.txt", "huge.txt", "lost.txt"} {
		if strings.Contains(string(text), `"`+name+`"`) {
			return true
		}
	}
	return false
}

// ofPlaces tells whether a case names the workspace by its place in a cell, or
// what lies around it.
func ofPlaces(row expectation) bool {
	text, _ := json.Marshal(row.criterion)
	for _, part := range []string{sandbox, "../", `"abs"`, `"up"`} {
		if strings.Contains(string(text), part) {
			return true
		}
	}
	return false
}

// below moves a case with a cell of its own into a directory, so that all fit
// into one workspace.
func below(dir string, row expectation) question {
	moved := newCell(nil)
	if cell, ok := row.where.Cell.(*fakeCell); ok {
		for name, file := range cell.files {
			moved.add(path.Join(dir, name), file)
		}
	}
	in := func(name string) string {
		if path.IsAbs(name) || name == "" {
			return name
		}
		return path.Join(dir, name)
	}
	q := question{Name: row.name, OnHost: true, where: criteria.Surroundings{Cell: moved, RegexTimeout: patience}}
	switch c := row.criterion.(type) {
	case *tasks.FileMatchesRegex:
		copied := *c
		copied.Path = in(c.Path)
		q.criterion = &copied
	case *tasks.FileCheck:
		copied := *c
		copied.Path = in(c.Path)
		q.criterion = &copied
	case *tasks.ClassificationMatch:
		copied := *c
		copied.Path = in(c.Path)
		q.criterion = &copied
	case *tasks.JSONCheck:
		copied := *c
		copied.Path, copied.JSONSchema = in(c.Path), in(c.JSONSchema)
		q.criterion = &copied
	case *tasks.CLICalled:
		copied := *c
		copied.Log = in(c.Log)
		q.criterion = &copied
	}
	return q
}

// ofCommand makes a command line that does what the command of the table is
// said to do.
func ofCommand(row expectation) (question, bool) {
	cell := row.where.Cell
	if cell == nil || cell.(*fakeCell).run == nil {
		return question{}, false
	}
	exit, err := cell.Run(context.Background(), criteria.Command{})
	if err != nil || exit.NoShell || exit.CellEnded || exit.NetworkAttempts > 0 || exit.Stdout.Dropped > 0 {
		return question{}, false
	}
	copied := *row.criterion.(*tasks.RunCommand)
	copied.Command = fmt.Sprintf("printf '%s'; printf '%s' >&2; exit %d", octal(exit.Stdout.Text), octal(exit.Stderr.Text), exit.Code)
	if exit.TimedOut {
		copied.Command, copied.Timeout = fmt.Sprintf("printf '%s'; sleep 60", octal(exit.Stdout.Text)), 1
	}
	return question{Name: row.name, criterion: &copied, OnHost: true, where: row.where}, true
}

// octal writes bytes so that any shell's printf prints them.
func octal(text []byte) string {
	var b strings.Builder
	for _, c := range text {
		fmt.Fprintf(&b, `\%03o`, c)
	}
	return b.String()
}

// record makes the question one about the criterion as a record holds it; it
// tells whether one can: what is refused at load never meets a cell.
func (q *question) record(t *testing.T) bool {
	t.Helper()
	task := *smokeTask(t)
	task.SuccessCriteria = tasks.Criteria{q.criterion}
	whole, err := task.MarshalJSON()
	if err != nil {
		return false
	}
	var fields map[string]any
	decoder := json.NewDecoder(bytes.NewReader(whole))
	decoder.UseNumber()
	if err := decoder.Decode(&fields); err != nil {
		t.Fatal(err)
	}
	// The tables leave out what a task file has by default.
	q.Criterion = q.written(t, withoutNulls(fields["success_criteria"].([]any)[0]))
	fields["success_criteria"] = []any{q.Criterion}
	recorded, err := tasks.FromRecord(q.written(t, fields))
	if err != nil {
		return false
	}
	q.criterion = recorded.SuccessCriteria[0]
	return true
}

// smokeTask is the task whose criteria are replaced.
func smokeTask(t *testing.T) *tasks.Task {
	t.Helper()
	loadSmoke.Do(func() { smoke, smokeFault = tasks.Load(byod) })
	if smokeFault != nil {
		t.Fatal(smokeFault)
	}
	return smoke.Task
}

var (
	loadSmoke  sync.Once
	smoke      *tasks.File
	smokeFault error
)

func (q *question) written(t *testing.T, value any) []byte {
	t.Helper()
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSpace(text.Bytes())
}

// withoutNulls takes out keys that are null, where null is no value.
func withoutNulls(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			if inner == nil && key != "expected" {
				delete(value, key)
				continue
			}
			value[key] = withoutNulls(inner)
		}
	case []any:
		for i := range value {
			value[i] = withoutNulls(value[i])
		}
	}
	return value
}

const byod = "../testdata/coder-eval/tasks/byod_smoke_test.yaml"
