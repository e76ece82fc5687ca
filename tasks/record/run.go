package record

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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

// RunOf returns the run directory of a row, whether it has a summary yet or
// not: the one that owns it, else the one below which the record says that the
// row lies, else the row directory itself.
func RunOf(rowDir string, id Identity) string {
	if run, err := OwningRun(rowDir); err == nil {
		return run
	}
	if run, below := strings.CutSuffix(rowDir, "/"+id.String()); below && run != "" {
		return run
	}
	return rowDir
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
		regraded(row, rowDocument(r, id, r.task(), ""))
		return refreshed{i, row}, nil
	}
	return refreshed{}, fmt.Errorf("%s: %w", id, ErrNotListed)
}

// regraded takes over from now what a grade changes in a row: whatever else an
// older program wrote there stays.
func regraded(row, now *Object) {
	for _, key := range []string{rowStatus, FieldWeightedScore, rowSimilarity} {
		if _, had := row.Get(key); had || !now.Value(key).IsNull() {
			row.Set(key, now.Value(key))
		}
	}
	clearStamps(row)
	for _, stamp := range Stamps(now) {
		row.Set(stamp.Name, stamp.Value)
	}
}

func rowIdentity(row *Object) Identity {
	id := Identity{VariantID: defaultVariant, TaskID: row.Text(FieldTaskID)}
	if variant := row.Text(FieldVariantID); variant != "" {
		id.VariantID = variant
	}
	if n, ok := row.Value(rowReplicate).Int(); ok {
		id.Replicate = int(n)
	}
	return id
}

// recount writes the counts that follow from the rows. Every replicate counts
// as one.
func recount(doc *Object, rows []Raw, changed refreshed) error {
	c := &counts{}
	for i, raw := range rows {
		row := changed.row
		if i != changed.index {
			parsed, err := raw.Object()
			if err != nil {
				return fmt.Errorf("%s: row %d is not an object", RunFile, i)
			}
			row = parsed
		}
		c.add(Status(row.Text(rowStatus)), !row.Value(FieldWeightedScore).IsNull())
	}
	c.stored(doc)
	c.computed(doc)
	return nil
}
