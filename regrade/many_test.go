package regrade

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"podgrade/isolation"
	"podgrade/oci"
	"podgrade/policy"
	"podgrade/tasks/record"
	"podgrade/tasks/record/fixture"
)

// manyRows are n rows of the byod task, and options that grade them with one
// set of fake engines.
func manyRows(t *testing.T, n int) (dirs []string, fake *fakeEngines, o Options) {
	t.Helper()
	c := newCase(t, fixture.Pinned, nil)
	for range n {
		dirs = append(dirs, newCase(t, fixture.Pinned, nil).dir)
	}
	return dirs, c.fake, c.options
}

// TestManyRowsShareEngines: they are started once, closed once, and the image
// is held from the second cell on.
func TestManyRowsShareEngines(t *testing.T) {
	dirs, fake, o := manyRows(t, 5)
	var events []Event
	o.Observe = func(e Event) { events = append(events, e) }
	results := GradeRows(t.Context(), Targets(dirs), 4, o)
	if code := ExitCodeOfRows(results); code != ExitPassed || Failures(results) != nil {
		t.Fatalf("exit code %d, %v", code, Failures(results))
	}
	if fake.started != 1 || fake.closed != 1 || len(fake.cells) != 5 {
		t.Errorf("started %d, closed %d, %d cells", fake.started, fake.closed, len(fake.cells))
	}
	if len(fake.held) != 1 || fake.held[0] != imageID || fake.released != 1 {
		t.Errorf("held %v, released %d", fake.held, fake.released)
	}
	if len(events) != 5 {
		t.Fatalf("%d events", len(events))
	}
	for _, e := range events {
		if e.Kind != RowGraded || !e.Last || e.Status != record.Success {
			t.Errorf("%+v", e)
		}
	}
}

// TestOneRowHoldsNothing: a holder costs more than a cell.
func TestOneRowHoldsNothing(t *testing.T) {
	dirs, fake, o := manyRows(t, 1)
	GradeRows(t.Context(), Targets(dirs), 4, o)
	if len(fake.held) != 0 || fake.closed != 1 {
		t.Errorf("held %v, closed %d", fake.held, fake.closed)
	}
}

// TestManyRowsWithFailures: none hides another, and what is worst decides.
func TestManyRowsWithFailures(t *testing.T) {
	dirs, fake, o := manyRows(t, 2)
	results := GradeRows(t.Context(), Targets([]string{dirs[0], "/no/such/row", dirs[1]}), 2, o)
	if code := ExitCodeOfRows(results); code != ExitUsage {
		t.Errorf("a wrong name: exit code %d", code)
	}
	if results[0].Err != nil || results[2].Err != nil || results[1].Err == nil {
		t.Errorf("%+v", results)
	}
	fake.run = func(*fakeCell, string, io.Writer) (isolation.Exit, error) { return isolation.Exit{Code: 1}, nil }
	results = GradeRows(t.Context(), Targets([]string{dirs[0], "/no/such/row"}), 2, o)
	if code := ExitCodeOfRows(results); code != ExitFailed {
		t.Errorf("a failed row and a wrong name: exit code %d", code)
	}
	fake.startup = &isolation.Fault{Tried: "start the worker", Why: errors.New("lost it")}
	results = GradeRows(t.Context(), Targets(dirs), 2, o)
	if text := fmt.Sprint(Failures(results)); strings.Count(text, "lost it") != 2 {
		t.Errorf("all failures: %s", text)
	}
}

// TestOneSummaryForManyRows: the summary of a run is not written for each of its
// rows. Whoever is killed before it is leaves records from which it is made
// anew.
func TestOneSummaryForManyRows(t *testing.T) {
	const rows = 6
	c := newCase(t, fixture.Pinned, nil)
	run, err := record.OwningRun(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i < rows; i++ {
		if _, err := fixture.Write(fixture.Order{Task: byod, Out: run, Form: fixture.Pinned, Replicate: i,
			Pin: oci.Pin{ID: imageID, Platform: oci.HostPlatform()}}); err != nil {
			t.Fatal(err)
		}
	}
	rebuilt := func() *record.Summary {
		t.Helper()
		s, dropped, err := record.Rebuild(run)
		if err != nil || len(dropped) > 0 {
			t.Fatal(err, dropped)
		}
		return s
	}
	if err := rebuilt().Write(run); err != nil {
		t.Fatal(err)
	}
	passed := func() int {
		t.Helper()
		s, err := record.ReadSummary(run)
		if err != nil {
			t.Fatal(err)
		}
		return s.Counts().Succeeded
	}
	graded := 0
	c.options.summariesEvery = time.Hour
	c.options.Observe = func(Event) { // as if it were killed then
		graded++
		if before, mended := passed(), rebuilt().Counts(); before != 0 || mended.Succeeded < graded || mended.All != rows {
			t.Errorf("after %d rows: %d in the summary, made anew %+v", graded, before, mended)
		}
	}
	results := GradeRows(t.Context(), Targets([]string{run}), 2, c.options)
	if Failures(results) != nil || graded != rows || passed() != rows {
		t.Errorf("%v, %d events, %d rows in the summary", Failures(results), graded, passed())
	}
	if said := c.notice.String(); strings.Contains(said, record.RunFile) {
		t.Errorf("%s", said)
	}
	// Without a summary that is said of each row.
	os.Remove(filepath.Join(run, record.RunFile))
	c.options.Observe = nil
	GradeRows(t.Context(), Targets([]string{run}), 2, c.options)
	if said := c.notice.String(); strings.Count(said, "no run.json was brought up to date") != rows {
		t.Errorf("%s", said)
	}
}

// TestManyRowsInterrupted: what was not begun is said, and the exit code is 130.
func TestManyRowsInterrupted(t *testing.T) {
	dirs, fake, o := manyRows(t, 4)
	ctx, cancel := context.WithCancel(t.Context())
	var ran atomic.Int64
	fake.run = func(*fakeCell, string, io.Writer) (isolation.Exit, error) {
		ran.Add(1)
		cancel()
		return isolation.Exit{}, ctx.Err()
	}
	results := GradeRows(ctx, Targets(dirs), 1, o)
	if code := ExitCodeOfRows(results); code != ExitInterrupted {
		t.Errorf("exit code %d", code)
	}
	if ran.Load() != 1 || fake.closed != 1 {
		t.Errorf("%d commands ran, closed %d", ran.Load(), fake.closed)
	}
	for _, r := range results {
		if !errors.Is(r.Err, context.Canceled) {
			t.Errorf("%+v", r)
		}
	}
}

// TestManyRowsAreRefusedOneByOne: nobody accepted anything, so nothing starts.
func TestManyRowsAreRefusedOneByOne(t *testing.T) {
	dirs, fake, o := manyRows(t, 3)
	o.Answer = policy.Answer{}
	results := GradeRows(t.Context(), Targets(dirs), 2, o)
	if code := ExitCodeOfRows(results); code != ExitUsage || fake.started != 0 {
		t.Errorf("exit code %d, started %d", code, fake.started)
	}
}

func TestEachKeepsToItsWidth(t *testing.T) {
	var now, most, calls atomic.Int64
	begun := each(t.Context(), 100, 3, func(int) {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		calls.Add(1)
		now.Add(-1)
	})
	if begun != 100 || calls.Load() != 100 || most.Load() > 3 {
		t.Errorf("begun %d, called %d, at once %d", begun, calls.Load(), most.Load())
	}
}

// TestLostEnginesAreReplaced: the rows that come after a lost worker have
// another one, and both are closed.
func TestLostEnginesAreReplaced(t *testing.T) {
	first, second := newFake(), newFake()
	order := []*fakeEngines{first, second}
	shared := Share(func(ctx context.Context) (Engines, error) {
		next := order[0]
		order = order[1:]
		return next.start(ctx)
	}, io.Discard)
	for _, lost := range []bool{false, true, false} {
		first.lost = first.lost || lost
		engines, err := shared.Start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := first
		if first.lost {
			want = second
		}
		if got := engines.(borrowed).Engines; got != Engines(want) {
			t.Errorf("lost %v: the wrong engines", lost)
		}
	}
	if err := shared.Close(); err != nil || first.closed != 1 || second.closed != 1 {
		t.Errorf("%v, closed %d and %d times", err, first.closed, second.closed)
	}
}

// TestRowsThatAskForTheSameAreOnePage: of many rows that are refused each plan is
// shown once, as a page, and each row's own line is short.
func TestRowsThatAskForTheSameAreOnePage(t *testing.T) {
	page := func(lines ...string) error {
		refusal := &policy.Refusal{What: "nobody has accepted that:", Do: "say yes", Plan: "hash"}
		for _, line := range lines {
			refusal.Grants = append(refusal.Grants, policy.Grant{Kind: policy.Command, Value: line})
		}
		return refusal
	}
	results := []Graded{{Dir: "z", Err: errors.New("lost")}}
	for _, dir := range []string{"a", "b", "c\x1b", "d", "e", "f", "g"} {
		results = append(results, Graded{Dir: dir, Err: page("x\n  - command: forged")})
	}
	results = append(results, Graded{Dir: "other", Err: page("y", "z")})
	text := Failures(results).Error()
	want := "3 errors:\n  - lost" +
		"\n  - a, b, c\\x1b, d, e and 2 more rows: nobody has accepted that:\n    1 command:\n      - command: x\\n  - command: forged\n    say yes" +
		"\n  - other: nobody has accepted that:\n    2 commands:\n      - command: y\n      - command: z\n    say yes"
	if text != want {
		t.Errorf("%s\nwant%s", text, want)
	}
	// What is alone is no list: no message begins with nothing.
	for want, alone := range map[string]Graded{"lost": results[0], "other: nobody has accepted that:\n    2 commands:": results[8]} {
		if text := Failures([]Graded{alone}).Error(); !strings.HasPrefix(text, want) {
			t.Errorf("%q, want %q", text, want)
		}
	}
	var refusal *policy.Refusal
	if err := page("x"); !errors.As(err, &refusal) || refusal.Brief() != "nobody has accepted that: 1 command and 0 grants, plan hash" {
		t.Errorf("%q", refusal.Brief())
	}
	if ExitCodeOfRows(results[1:]) != ExitUsage {
		t.Errorf("exit code %d", ExitCodeOfRows(results[1:]))
	}
}
