package regrade

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"podgrade/tasks/record"
)

// Standing is a verdict as a record holds it.
type Standing struct {
	Status  record.Status
	Score   *float64 // nil: none
	Results []record.CriterionResult
	Stamps  []record.Stamp
}

// StandingOf is the verdict in a record.
func StandingOf(r *record.Record) Standing {
	return Standing{Status: r.Status, Score: r.Score, Results: r.CriterionResults(), Stamps: record.Stamps(r.Environment)}
}

// Difference is one thing in which two verdicts differ.
type Difference struct {
	Criterion   int    // from 1; 0: the row itself
	Description string // of the criterion
	What        string
	Before      string // "" where there is nothing
	After       string
}

// WholeCriterion is the What of a criterion that is another one, or is not there.
const WholeCriterion = "criterion"

// Comparison is what became of comparing two verdicts of a row.
type Comparison struct {
	Row           string
	Before, After *Standing // nil: there is no such row
	Differences   []Difference
	// Notes are what differs beside the verdicts, and does not count: stamps, and
	// what criteria said.
	Notes []Difference
}

// Equal tells whether the verdicts are the same: status, score, and every
// criterion's own.
func (c Comparison) Equal() bool { return len(c.Differences) == 0 }

// Compare compares two verdicts, criterion by criterion.
func Compare(row string, before, after *Standing) Comparison {
	c := Comparison{Row: row, Before: before, After: after}
	if before == nil || after == nil {
		c.differs(Difference{What: "row", Before: presence(before), After: presence(after)})
		return c
	}
	c.differs(Difference{What: "status", Before: string(before.Status), After: string(after.Status)})
	c.differs(Difference{What: "score", Before: scoreText(before.Score), After: scoreText(after.Score)})
	for i := range max(len(before.Results), len(after.Results)) {
		c.criterion(i, resultAt(before.Results, i), resultAt(after.Results, i))
	}
	c.stamps(before.Stamps, after.Stamps)
	return c
}

func presence(s *Standing) string {
	if s == nil {
		return ""
	}
	return string(s.Status)
}

func resultAt(results []record.CriterionResult, i int) *record.CriterionResult {
	if i < len(results) {
		return &results[i]
	}
	return nil
}

// criterion compares the results of one criterion.
func (c *Comparison) criterion(i int, before, after *record.CriterionResult) {
	which := Difference{Criterion: i + 1}
	if before == nil || after == nil {
		which.What, which.Before, which.After = WholeCriterion, nameOf(before), nameOf(after)
		c.differs(which)
		return
	}
	which.Description = after.Description
	for _, pair := range []struct{ what, before, after string }{
		{WholeCriterion, nameOf(before), nameOf(after)},
		{"score", scoreText(&before.Score), scoreText(&after.Score)},
		{"passed", strconv.FormatBool(before.Passed), strconv.FormatBool(after.Passed)},
		{"gating", strconv.FormatBool(before.Gating), strconv.FormatBool(after.Gating)},
		{"evaluated", strconv.FormatBool(before.Evaluated), strconv.FormatBool(after.Evaluated)},
		{"broken", strconv.FormatBool(before.Broken), strconv.FormatBool(after.Broken)},
	} {
		which.What, which.Before, which.After = pair.what, pair.before, pair.after
		c.differs(which)
	}
	which.What, which.Before, which.After = "reason", before.Reason(), after.Reason()
	if which.Before == which.After { // their beginnings are alike
		which.What = "details"
		which.Before, which.After = firstOther(before.Details+"\n"+before.Error, after.Details+"\n"+after.Error)
	}
	if which.Before != which.After {
		c.Notes = append(c.Notes, which)
	}
}

// firstOther are the first lines in which two texts differ.
func firstOther(a, b string) (string, string) {
	for a != b {
		first, restA, _ := strings.Cut(a, "\n")
		second, restB, _ := strings.Cut(b, "\n")
		if first != second {
			return first, second
		}
		a, b = restA, restB
	}
	return "", ""
}

// nameOf is what a criterion is.
func nameOf(r *record.CriterionResult) string {
	if r == nil {
		return ""
	}
	return r.Type + ": " + r.Description
}

// stamps notes the stamps that came, went or changed.
func (c *Comparison) stamps(before, after []record.Stamp) {
	for _, name := range record.StampNames() {
		if a, b := stampValue(before, name), stampValue(after, name); a != b {
			c.Notes = append(c.Notes, Difference{What: name, Before: a, After: b})
		}
	}
}

func stampValue(stamps []record.Stamp, name string) string {
	for _, stamp := range stamps {
		if stamp.Name == name {
			return string(stamp.Value)
		}
	}
	return ""
}

// differs keeps a difference that is one.
func (c *Comparison) differs(d Difference) {
	if d.Before != d.After {
		c.Differences = append(c.Differences, d)
	}
}

// scoreText is a score with all of its digits: two that print alike are equal.
func scoreText(score *float64) string {
	if score == nil {
		return ""
	}
	return strconv.FormatFloat(*score, 'g', -1, 64)
}

// CompareRecorded compares what the records of two rows, or of the rows of two
// runs, hold; rows of runs are the same when variant, task and replicate are.
func CompareRecorded(a, b string) ([]Comparison, error) {
	if IsRun(a) != IsRun(b) {
		return nil, &Error{Kind: User, Tried: "compare", On: a + " and " + b, Why: errors.New("one is a run and the other is none"), Do: "name two runs, or two rows"}
	}
	if !IsRun(a) {
		before, err := standingIn(a)
		if err != nil {
			return nil, err
		}
		after, err := standingIn(b)
		if err != nil {
			return nil, err
		}
		return []Comparison{Compare(a, before, after)}, nil
	}
	before, names, err := standingsOf(a, nil)
	if err != nil {
		return nil, err
	}
	after, names, err := standingsOf(b, names)
	if err != nil {
		return nil, err
	}
	var list []Comparison
	for _, id := range names {
		list = append(list, Compare(id.String(), before[id], after[id]))
	}
	return list, nil
}

// standingIn is the verdict of a row directory.
func standingIn(dir string) (*Standing, error) {
	row, err := OpenRow(dir)
	if err != nil {
		return nil, err
	}
	defer row.Close()
	rec, _, err := row.Read()
	if errors.Is(err, record.ErrNoRecord) {
		return nil, &Error{Kind: User, Tried: "compare", On: dir, Why: err, Do: "name two runs, or two rows"}
	}
	if err != nil {
		return nil, &Error{Kind: kindOfReading(err), Tried: "read the record of", On: dir, Why: err, Do: "restore it"}
	}
	standing := StandingOf(rec)
	return &standing, nil
}

// standingsOf are the verdicts of a run's rows; names gets those that it does
// not hold yet, in their order.
func standingsOf(run string, names []record.Identity) (map[record.Identity]*Standing, []record.Identity, error) {
	known := map[record.Identity]bool{}
	for _, id := range names {
		known[id] = true
	}
	found := map[record.Identity]*Standing{}
	for _, dir := range rowsBelow(run) {
		id, standing, err := standingBelow(run, dir)
		if err == nil && found[id] != nil {
			err = fmt.Errorf("it is the row %s, and so is another", id)
		}
		if err != nil {
			return nil, nil, &Error{Kind: kindOfReading(err), Tried: "read the record in " + dir + " of", On: run, Why: err, Do: "restore it, or move the row away"}
		}
		found[id] = standing
		if !known[id] {
			names = append(names, id)
		}
	}
	return found, names, nil
}

func standingBelow(run, dir string) (record.Identity, *Standing, error) {
	row, err := record.OpenRowDir(run, dir)
	if err != nil {
		return record.Identity{}, nil, err
	}
	defer row.Close()
	rec, _, err := row.Read()
	if err != nil {
		return record.Identity{}, nil, err
	}
	standing := StandingOf(rec)
	return identityOf(row, rec), &standing, nil
}
