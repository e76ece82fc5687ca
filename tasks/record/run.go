package record

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ErrNoRun: no directory above the row is a run directory.
var ErrNoRun = errors.New("no directory above the row holds a " + RunFile)

// ErrNotListed: the run's summary has no row of this identity.
var ErrNotListed = errors.New("the summary of the run does not list the row")

// Keys of run.json, and of its rows, that podgrade reads or writes
// (spec/run-record.md 6).
const (
	runRows       = "task_results"
	runTasks      = "tasks_run"
	runSucceeded  = "tasks_succeeded"
	runFailed     = "tasks_failed"
	runErrored    = "tasks_error"
	runUngraded   = "tasks_not_graded"
	runMeasured   = "tasks_measured"
	runOverTokens = "tasks_token_budget_exceeded"
	runOverCost   = "tasks_cost_budget_exceeded"
	runGraded     = "tasks_graded"
	runPassRate   = "pass_rate"
	runErrorShare = "error_share"
	rowReplicate  = "replicate_index"
	rowStatus     = "status"
)

// Identity names a row within its run.
type Identity struct {
	VariantID string
	TaskID    string
	Replicate int
}

// String is the row's label: the same shape as its path.
func (i Identity) String() string {
	return fmt.Sprintf("%s/%s/%02d", i.VariantID, i.TaskID, i.Replicate)
}

// highest is how many directories above a row are looked at; a task id holds
// few slashes.
const highest = 32

// OwningRun returns the run directory that a row belongs to: the nearest
// directory above it whose run.json is a run's summary. One of another program
// does not count. ErrNoRun when there is none.
func OwningRun(rowDir string) (string, error) {
	dir := rowDir
	for range highest {
		up := filepath.Dir(dir)
		if up == dir {
			break
		}
		dir = up
		if isRun(dir) {
			return dir, nil
		}
	}
	return "", ErrNoRun
}

func isRun(dir string) bool {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false
	}
	defer root.Close()
	_, _, err = readRun(root)
	return err == nil
}

// readRun reads the summary and its rows.
func readRun(root *os.Root) (*Object, []Raw, error) {
	data, err := readPlain(root, RunFile, MaxRun)
	if err != nil {
		return nil, nil, err
	}
	doc, err := ParseObject(data)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", RunFile, err)
	}
	rows, err := doc.Value(runRows).Elements()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: the field %s: %w", RunFile, runRows, err)
	}
	return doc, rows, nil
}

// RefreshRun brings the row's status, score and stamps, and the counts of the
// run, up to date in the run's summary. Whatever else stands there is kept.
// ErrNotListed when the summary has no such row; nothing is written then.
func RefreshRun(runDir string, id Identity, r *Record) error {
	root, err := os.OpenRoot(runDir)
	if err != nil {
		return err
	}
	defer root.Close()
	unlock, err := lock(root, RunFile)
	if err != nil {
		return err
	}
	defer unlock()
	doc, rows, err := readRun(root)
	if err != nil {
		return err
	}
	parsed, err := refreshRow(rows, id, r)
	if err != nil {
		return err
	}
	written := make([]any, len(rows))
	for i := range rows {
		written[i] = rows[i]
	}
	written[parsed.index] = parsed.row
	doc.Set(runRows, written)
	if err := recount(doc, rows, parsed); err != nil {
		return err
	}
	return writeDurably(root, RunFile, doc.Bytes())
}

type refreshed struct {
	index int
	row   *Object
}

func refreshRow(rows []Raw, id Identity, r *Record) (refreshed, error) {
	for i, raw := range rows {
		row, err := raw.Object()
		if err != nil {
			return refreshed{}, fmt.Errorf("%s: row %d is not an object", RunFile, i)
		}
		if rowIdentity(row) != id {
			continue
		}
		row.Set(rowStatus, string(r.Status))
		row.Set(FieldWeightedScore, r.Score)
		ClearStamps(row)
		for _, stamp := range Stamps(r.Environment) {
			row.Set(stamp.Name, stamp.Value)
		}
		return refreshed{i, row}, nil
	}
	return refreshed{}, fmt.Errorf("%s: %w", id, ErrNotListed)
}

func rowIdentity(row *Object) Identity {
	id := Identity{VariantID: "default", TaskID: row.Text(FieldTaskID)}
	if variant := row.Text(FieldVariantID); variant != "" {
		id.VariantID = variant
	}
	if n, ok := row.Value(rowReplicate).Int(); ok {
		id.Replicate = int(n)
	}
	return id
}

// recount writes the counts that follow from the rows (spec/run-record.md 6.1
// and 6.2). Every replicate counts as one.
func recount(doc *Object, rows []Raw, changed refreshed) error {
	var byCategory = map[Category]int{}
	var measured, tokens, cost int
	for i, raw := range rows {
		row := changed.row
		if i != changed.index {
			parsed, err := raw.Object()
			if err != nil {
				return fmt.Errorf("%s: row %d is not an object", RunFile, i)
			}
			row = parsed
		}
		status := Status(row.Text(rowStatus))
		byCategory[status.Category()]++
		if !row.Value(FieldWeightedScore).IsNull() {
			measured++
		}
		switch status {
		case TokenBudgetExceeded:
			tokens++
		case CostBudgetExceeded:
			cost++
		}
	}
	graded := len(rows) - byCategory[Ungraded]
	doc.Set(runTasks, len(rows))
	doc.Set(runSucceeded, byCategory[Succeeded])
	doc.Set(runFailed, byCategory[Failed])
	doc.Set(runErrored, byCategory[Errored])
	doc.Set(runUngraded, byCategory[Ungraded])
	doc.Set(runMeasured, measured)
	doc.Set(runOverTokens, tokens)
	doc.Set(runOverCost, cost)
	doc.Set(runGraded, graded)
	// A rate over rows of which none was measured would be published as 0 %.
	known := graded > 0 && (byCategory[Ungraded] == 0 || measured > 0)
	doc.Set(runPassRate, share(byCategory[Succeeded], graded, known))
	doc.Set(runErrorShare, share(byCategory[Errored], graded, known))
	return nil
}

func share(part, whole int, known bool) any {
	if !known {
		return nil
	}
	return float64(part) / float64(whole)
}
