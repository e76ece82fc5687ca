package regrade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/go-multierror"

	"podgrade/policy"
	"podgrade/tasks/record"
)

// Graded is what became of one of many rows.
type Graded struct {
	Dir     string   // as it was named
	Verdict *Verdict // nil: the row was not graded
	Err     error    // why not
}

// GradeRows grades rows, at most width at once, with engines that they share.
// One that fails does not keep the others from being graded. The results come
// in the order of the targets; those that an interrupt kept from being begun
// wrap context.Canceled.
func GradeRows(ctx context.Context, targets []Target, width int, o Options) []Graded {
	results := make([]Graded, len(targets))
	shared := Share(o.Start, o.Notice)
	o.Start = shared.Start
	o.Observe = inTurn(o.Observe)
	o.summaries = newSummaries(o.summariesEvery, func(text string) { warnTo(o.Notice, text) })
	o.summaries.missed = o.Missed
	begun := each(ctx, len(targets), width, func(i int) {
		results[i] = gradeTarget(ctx, targets[i], o)
	})
	for i := begun; i < len(targets); i++ {
		results[i] = Graded{Dir: targets[i].Dir, Err: &Interrupted{What: "the grade was not begun"}}
	}
	o.summaries.write()
	if err := shared.Close(); err != nil {
		fmt.Fprintf(o.Notice, "warning: ending the engines: %s\n", policy.NeutralText(err.Error()))
	}
	return results
}

// gradeTarget grades one row.
func gradeTarget(ctx context.Context, target Target, o Options) Graded {
	dir, err := target.Dir, target.Err
	var row *record.Row
	if err == nil {
		row, err = OpenRow(dir)
	}
	if err != nil {
		observe(o.Observe, Event{Kind: RowFailed, Dir: dir, Last: true, Err: err})
		return Graded{Dir: dir, Err: err}
	}
	defer row.Close()
	if target.Given != nil {
		o.Given = target.Given
	}
	verdict, err := Grade(ctx, row, o)
	if err != nil {
		observe(o.Observe, Event{Kind: RowFailed, Dir: row.Dir, Last: true, Err: err})
	}
	return Graded{Dir: dir, Verdict: verdict, Err: err}
}

// OpenRow opens a row directory that the operator named.
func OpenRow(dir string) (*record.Row, error) {
	row, err := record.OpenRow(dir)
	if err != nil {
		return nil, notOpened(dir, err)
	}
	return row, nil
}

// inTurn lets one event be observed after the other.
func inTurn(to func(Event)) func(Event) {
	if to == nil {
		return nil
	}
	var mu sync.Mutex
	return func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		to(e)
	}
}

// Failures joins the errors of all rows; nil when there is none.
func Failures(results []Graded) error {
	var all *multierror.Error
	var refused []*refusedRows
	for _, r := range results {
		var refusal *policy.Refusal
		if !errors.As(r.Err, &refusal) || len(refusal.Grants) == 0 {
			if r.Err != nil {
				all = multierror.Append(all, r.Err)
			}
			continue
		}
		same := slices.IndexFunc(refused, func(known *refusedRows) bool { return known.Error() == refusal.Error() })
		if same < 0 {
			refused, same = append(refused, &refusedRows{Refusal: refusal}), len(refused)
		}
		refused[same].dirs = append(refused[same].dirs, r.Dir)
	}
	for _, rows := range refused {
		all = multierror.Append(all, rows)
	}
	if all == nil {
		return nil
	}
	all.ErrorFormat = headed
	return all
}

// headed says one error as it is, and of several how many there are.
func headed(errs []error) string {
	if len(errs) > 1 {
		return fmt.Sprintf("%d errors:%s", len(errs), oneALine(errs))
	}
	if rows, ok := errs[0].(*refusedRows); ok {
		return rows.lines()
	}
	return policy.Neutral(cutText(errs[0].Error(), mostErrorLine))
}

// refusedRows are rows that were refused for the same: one page for all of them.
type refusedRows struct {
	*policy.Refusal
	dirs []string
}

// Unwrap gives the refusal itself.
func (r *refusedRows) Unwrap() error { return r.Refusal }

// lines are the rows and the page, safe to print.
func (r *refusedRows) lines() string {
	const most = 5
	text := policy.Neutral(strings.Join(r.dirs[:min(len(r.dirs), most)], ", "))
	if more := len(r.dirs) - most; more > 0 {
		text += fmt.Sprintf(" and %d more rows", more)
	}
	page := policy.Neutral(r.What) + "\n" + strings.TrimSuffix(cutText(policy.Page(r.Grants), mostErrorLine), "\n") + "\n" + policy.Neutral(r.Do)
	return text + ": " + strings.ReplaceAll(page, "\n", "\n    ")
}

// ExitCodeOfRows is the exit code of many rows: that of an interrupt if there
// was one, else that of a row that did not pass, else that of a refusal.
func ExitCodeOfRows(results []Graded) int {
	code := ExitPassed
	for _, r := range results {
		code = Worse(code, exitCodeOfRow(r))
	}
	return code
}

func exitCodeOfRow(r Graded) int {
	if r.Err == nil && !r.Verdict.Stands() {
		return ExitFailed
	}
	return ExitCode(r.Err)
}

// Worse is the exit code that says more: an interrupt, else a row that did not
// pass, else a refusal.
func Worse(a, b int) int {
	order := []int{ExitPassed, ExitUsage, ExitFailed, ExitInterrupted}
	return order[max(slices.Index(order, a), slices.Index(order, b))]
}
