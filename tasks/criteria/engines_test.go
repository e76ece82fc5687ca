package criteria_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"podgrade/isolation"
	"podgrade/isolation/testimages"
	"podgrade/oci"
	"podgrade/policy"
	"podgrade/regrade"
	"podgrade/tasks"
	"podgrade/tasks/criteria"
	"podgrade/tasks/record"
	"podgrade/tasks/record/fixture"
)

// This test asks the questions of the tables once more, of real places: cells
// of each engine and the host, through a whole grade. What a criterion makes of
// them must be what it makes of the cell in memory. It needs the programs in
// PODGRADE_TEST_BUILD, which `make test` sets; by hand build/ of this tree.

// question is one row of a table that a real place can be asked.
type question struct {
	name      string
	criterion tasks.Criterion
	where     criteria.Surroundings
	onHost    bool // the answer does not depend on where the workspace lies
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
				list = append(list, question{row.name, row.criterion, known, !ofPlaces(row)})
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
		if text, err := json.Marshal(q.criterion); err == nil && !strings.Contains(string(text), jsonText(endless)) && canBeRecorded(q.criterion) {
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
	q := question{name: row.name, where: criteria.Surroundings{Cell: moved}, onHost: true}
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
	return question{row.name, &copied, row.where, true}, true
}

// octal writes bytes so that any shell's printf prints them.
func octal(text []byte) string {
	var b strings.Builder
	for _, c := range text {
		fmt.Fprintf(&b, `\%03o`, c)
	}
	return b.String()
}

// canBeRecorded tells whether a record can hold the criterion: what is refused
// at load never meets a cell.
func canBeRecorded(criterion tasks.Criterion) bool {
	file, err := tasks.Load(byod)
	if err != nil {
		return false
	}
	file.Task.SuccessCriteria = tasks.Criteria{criterion}
	text, err := file.Task.MarshalJSON()
	if err != nil {
		return false
	}
	_, err = tasks.FromRecord(text)
	return err == nil
}

const byod = "../testdata/coder-eval/tasks/byod_smoke_test.yaml"

// spot is a real place.
type spot struct {
	engine string // "": the host
	host   *isolation.Host
	pin    oci.Pin
}

// name is what the record calls the engine.
func (s spot) name() string {
	if s.engine == "" {
		return isolation.EngineHost
	}
	return s.engine
}

// kept are engines that more than one grade uses.
type kept struct{ *isolation.Host }

// Close leaves the end to the test.
func (kept) Close() error { return nil }

func startSpot(t *testing.T, engine string) spot {
	t.Helper()
	build := os.Getenv("PODGRADE_TEST_BUILD")
	if build == "" {
		build, _ = filepath.Abs("../../build")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s := spot{engine: engine}
	var err error
	s.host, err = isolation.Start(ctx, isolation.Options{Libexec: filepath.Join(build, "libexec", "podgrade"), Scratch: t.TempDir(), Engine: engine})
	if err != nil {
		t.Fatalf("%v; run make build, and the test as an ordinary user", err)
	}
	t.Cleanup(func() {
		if err := s.host.Close(); err != nil {
			t.Error(err)
		}
	})
	image := testimages.BYOD()
	tar := image.Open()
	defer tar.Close()
	if s.pin, err = s.host.Import(ctx, tar, image.Reference, isolation.ImageConfig{Labels: image.Config.Labels}); err != nil {
		t.Fatal(err)
	}
	return s
}

// grade grades a row with these criteria and this workspace.
func (s spot) grade(t *testing.T, workspace map[string]fakeFile, list ...tasks.Criterion) ([]criteria.Result, error) {
	t.Helper()
	dir, err := fixture.Write(fixture.Order{Task: byod, Form: fixture.Pinned, Out: t.TempDir(), Pin: s.pin, Change: func(task *tasks.Task) {
		task.SuccessCriteria = list
	}})
	if err != nil {
		t.Fatal(err)
	}
	materialise(t, filepath.Join(dir, record.ArtifactsDir, "byod_smoke_test"), workspace)
	row, err := record.OpenRow(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer row.Close()
	verdict, err := regrade.Grade(t.Context(), row, regrade.Options{
		Answer: policy.Answer{RecordedCommands: true}, AllowHost: s.engine == "", Network: regrade.NetworkNone,
		Start:  func(context.Context) (regrade.Engines, error) { return kept{s.host}, nil },
		Notice: io.Discard, Lookup: func(string) (string, bool) { return "", false }, Version: "test",
	})
	if err != nil {
		return nil, err
	}
	graded, _, err := row.Read()
	if err != nil {
		t.Fatal(err)
	}
	if used := graded.Environment.Text(record.GradedByEngine); used != s.name() {
		t.Errorf("the row was graded by the engine %q", used)
	}
	return verdict.Results, nil
}

// materialise makes the files of a cell in memory.
func materialise(t *testing.T, root string, files map[string]fakeFile) {
	t.Helper()
	for name, file := range files {
		where := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(where), 0o755)
		switch file.kind {
		case criteria.Directory:
			err = errors.Join(err, os.MkdirAll(where, 0o755))
		case criteria.Regular:
			mode := os.FileMode(0o644)
			if errors.Is(file.fails, criteria.ErrDenied) {
				mode = 0
			}
			err = errors.Join(err, os.WriteFile(where, file.data, mode))
		case criteria.Symlink:
			err = errors.Join(err, os.Symlink(file.target, where))
		default:
			err = errors.Join(err, syscall.Mkfifo(where, 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestEnginesAgreeWithTheCellInMemory asks each engine and the host.
func TestEnginesAgreeWithTheCellInMemory(t *testing.T) {
	list := questions(t)
	if len(list) < 150 {
		t.Fatalf("the tables give only %d questions", len(list))
	}
	for _, engine := range []string{isolation.EngineBundle, isolation.EnginePodman, ""} {
		t.Run(spot{engine: engine}.name(), func(t *testing.T) { startSpot(t, engine).agree(t, list) })
	}
}

// agree compares one place. Questions that are the author's mistake end a
// grade, so each has a row of its own; all others share one.
func (s spot) agree(t *testing.T, list []question) {
	workspace := map[string]fakeFile{}
	var shared []tasks.Criterion
	var names []string
	var want []criteria.Result
	mistakes := 0
	for _, q := range list {
		if s.engine == "" && !q.onHost {
			continue
		}
		files := q.where.Cell.(*fakeCell).files
		results, err := criteria.Check(t.Context(), []tasks.Criterion{q.criterion}, q.where)
		var author *criteria.AuthorError
		switch {
		case errors.As(err, &author):
			mistakes++
			small := map[string]fakeFile{}
			for name, file := range files {
				if len(file.data) < 1<<20 {
					small[name] = file
				}
			}
			if _, err := s.grade(t, small, q.criterion); regrade.KindOf(err) != regrade.TaskFault || !strings.Contains(fmt.Sprint(err), author.Reason) {
				t.Errorf("%s: %v, want %v", q.name, err, author)
			}
			continue
		case err != nil:
			t.Fatalf("%s: %v", q.name, err)
		}
		for name, file := range files {
			workspace[name] = file
		}
		shared, names, want = append(shared, q.criterion), append(names, q.name), append(want, results[0])
	}
	got, err := s.grade(t, workspace, shared...)
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if diff := cmp.Diff(want[i], got[i]); diff != "" {
			t.Errorf("%s: in memory (-), here (+):\n%s", names[i], diff)
		}
	}
	t.Logf("%d questions in one row, %d mistakes", len(want), mistakes)
}
