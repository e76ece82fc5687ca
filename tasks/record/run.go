package record

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
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
func OwningRun(rowDir string) (string, error) { return new(Owners).Of(rowDir) }

// Owners finds the runs of many rows, and reads no summary twice for it.
type Owners struct {
	mu    sync.Mutex
	known map[string]bool // by directory: it is a run
}

// Of is OwningRun.
func (o *Owners) Of(rowDir string) (string, error) {
	dir, none := rowDir, ErrNoRun
	for range highest {
		up := filepath.Dir(dir)
		if up == dir {
			break
		}
		dir = up
		if o.isRun(dir) {
			return dir, nil
		}
		if none == ErrNoRun {
			none = noSummary(dir)
		}
	}
	return "", none
}

// noSummary is ErrNoRun, with why where something of that name is there.
func noSummary(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return ErrNoRun
	}
	defer root.Close()
	if _, _, err = readRun(root); err == nil || errors.Is(err, fs.ErrNotExist) {
		return ErrNoRun
	}
	return fmt.Errorf("%w that can be read: %w", ErrNoRun, err)
}

func (o *Owners) isRun(dir string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	is, known := o.known[dir]
	if !known {
		if o.known == nil {
			o.known = map[string]bool{}
		}
		is = isRun(dir)
		o.known[dir] = is
	}
	return is
}

// RunOf returns the run directory of a row, whether it has a summary yet or
// not: the one that owns it, else the one below which the record says that the
// row lies, else the row directory itself.
func RunOf(rowDir string, id Identity) string { return new(Owners).RunOf(rowDir, id) }

// RunOf is RunOf.
func (o *Owners) RunOf(rowDir string, id Identity) string {
	if run, err := o.Of(rowDir); err == nil {
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

// Update is what a grade changed in a row of a run's summary. It does not hold
// on to the record.
type Update struct {
	Identity
	row *Object
}

// UpdateOf is the row's update, from the record that the grade wrote.
func UpdateOf(id Identity, r *Record) Update { return Update{id, rowDocument(r, id, r.task(), "")} }

// RefreshRun brings status, score and stamps of rows, and the counts of the run,
// up to date in the run's summary, all in one write. Whatever else stands there
// is kept. ErrNotListed for each row that the summary has not; when it has none
// of them nothing is written.
func RefreshRun(runDir string, updates ...Update) error {
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
	doc, raw, err := readRun(root)
	if err != nil {
		return err
	}
	list, err := listOf(raw)
	if err != nil {
		return err
	}
	var missing error
	for _, update := range updates {
		if !list.update(update) {
			missing = errors.Join(missing, fmt.Errorf("%s: %w", update.Identity, ErrNotListed))
		}
	}
	if !list.changed {
		return missing
	}
	doc.Set(runRows, list.written)
	list.recount(doc)
	return errors.Join(missing, writeDurably(root, RunFile, doc.Bytes()))
}

// rowList is the rows of a summary; those that no update changes keep their
// bytes.
type rowList struct {
	rows    []*Object
	places  map[Identity]int
	written []any
	changed bool
}

func listOf(raw []Raw) (*rowList, error) {
	l := &rowList{places: map[Identity]int{}}
	for i, text := range raw {
		row, err := text.Object()
		if err != nil {
			return nil, fmt.Errorf("%s: row %d is not an object", RunFile, i)
		}
		if id := rowIdentity(row); l.places[id] == 0 {
			l.places[id] = i + 1 // the first of an identity counts
		}
		l.rows, l.written = append(l.rows, row), append(l.written, text)
	}
	return l, nil
}

// update puts an update into its row; false when there is none.
func (l *rowList) update(u Update) bool {
	i := l.places[u.Identity] - 1
	if i < 0 {
		return false
	}
	regraded(l.rows[i], u.row)
	l.written[i], l.changed = l.rows[i], true
	return true
}

// recount writes the counts that follow from the rows. Every replicate counts
// as one.
func (l *rowList) recount(doc *Object) {
	c := &counts{}
	for _, row := range l.rows {
		c.add(Status(row.Text(rowStatus)), !row.Value(FieldWeightedScore).IsNull())
	}
	c.stored(doc)
	c.computed(doc)
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
