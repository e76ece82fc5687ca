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
	"testing"

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

// questionFile is one file of the workspace.
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
	OnHost bool             `json:"on_host"`
	Result *criteria.Result `json:"result,omitempty"`
	// Author is the reason of an author error, in place of a result.
	Author string `json:"author,omitempty"`

	criterion tasks.Criterion
	where     criteria.Surroundings
}

// TestQuestionsAreThoseOfTheTables keeps the file up to date.
func TestQuestionsAreThoseOfTheTables(t *testing.T) {
	sheet := questionnaire{Files: map[string]questionFile{}, Questions: questions(t)}
	if len(sheet.Questions) < 150 {
		t.Errorf("the tables give only %d questions", len(sheet.Questions))
	}
	for i := range sheet.Questions {
		sheet.Questions[i].answer(t)
		for name, file := range sheet.Questions[i].where.Cell.(*fakeCell).files {
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

// endless is the pattern of the cases that end by a time-out of the search,
// which a grade does not shorten.
const endless = "(a|aa|a?a)+$"

// questions are those of the tables that a record can hold and that do not
// depend on a fault of the cell in memory.
func questions(t *testing.T) (list []question) {
	t.Helper()
	known := realTree()
	for _, table := range [][]expectation{fileExistsTable(known), fileContainsTable(known), fileMatchesRegexTable(known), fileCheckTable(known)} {
		for _, row := range table {
			if row.where.Cell == known.Cell && !ofFaults(row) {
				list = append(list, question{Name: row.name, criterion: row.criterion, OnHost: !ofPlaces(row), where: known})
			}
		}
	}
	for _, table := range [][]expectation{classificationMatchTable(), jsonCheckTable(), cliCalledTable()} {
		for _, row := range table {
			list = append(list, below(fmt.Sprintf("case-%03d", len(list)), row))
		}
	}
	for _, row := range runCommandTable() {
		if q, ok := ofCommand(row); ok {
			list = append(list, q)
		}
	}
	kept := list[:0]
	for _, q := range list {
		if q.record() && !strings.Contains(string(q.Criterion), jsonText(endless)) {
			kept = append(kept, q)
		}
	}
	return kept
}

func jsonText(s string) string {
	text, _ := json.Marshal(s)
	return strings.Trim(string(text), `"`)
}

// realTree is the tree of the tables without what cannot be made: faults, and
// a device.
func realTree() criteria.Surroundings {
	where := tree()
	cell := where.Cell.(*fakeCell)
	for name, file := range cell.files {
		if file.fails != nil && !errors.Is(file.fails, criteria.ErrDenied) || name == "device" {
			delete(cell.files, name)
		}
	}
	where.RegexTimeout = 0
	return where
}

// ofFaults tells whether a case is about a file that realTree does not have.
func ofFaults(row expectation) bool {
	text, _ := json.Marshal(row.criterion)
	for _, name := range []string{"device", "broken.txt", "huge.txt", "lost.txt"} {
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
	q := question{Name: row.name, OnHost: true, where: criteria.Surroundings{Cell: moved}}
	switch c := row.criterion.(type) {
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
func (q *question) record() bool {
	file, err := tasks.Load(byod)
	if err != nil {
		return false
	}
	file.Task.SuccessCriteria = tasks.Criteria{q.criterion}
	whole, err := file.Task.MarshalJSON()
	if err != nil {
		return false
	}
	var fields struct {
		Criteria []json.RawMessage `json:"success_criteria"`
	}
	task, err := tasks.FromRecord(whole)
	if err != nil || json.Unmarshal(whole, &fields) != nil {
		return false
	}
	q.Criterion, q.criterion = fields.Criteria[0], task.SuccessCriteria[0]
	return true
}

const byod = "../testdata/coder-eval/tasks/byod_smoke_test.yaml"
