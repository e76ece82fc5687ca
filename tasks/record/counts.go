package record

// counts are what a summary says about a number of rows, or of tasks
// (spec/run-record.md 6.1 and 6.2). Every aggregate counts with it.
type counts struct {
	all        int
	byCategory map[Category]int
	measured   int // with a score
	overTokens int
	overCost   int
}

func (c *counts) add(status Status, measured bool) {
	if c.byCategory == nil {
		c.byCategory = map[Category]int{}
	}
	c.all++
	c.byCategory[status.Category()]++
	if measured {
		c.measured++
	}
	switch status {
	case TokenBudgetExceeded:
		c.overTokens++
	case CostBudgetExceeded:
		c.overCost++
	}
}

func (c *counts) graded() int { return c.all - c.byCategory[Ungraded] }

// known tells whether there is a rate: one over rows of which none was
// measured would be published as 0 %.
func (c *counts) known() bool {
	return c.graded() > 0 && (c.byCategory[Ungraded] == 0 || c.measured > 0)
}

// share is that of a category in all that was graded; nil when it is not
// known. A row that ended in an error is a miss.
func (c *counts) share(category Category) *float64 {
	if !c.known() {
		return nil
	}
	share := float64(c.byCategory[category]) / float64(c.graded())
	return &share
}

// Counts are what a summary says about its rows. The rates are nil when
// nothing was measured.
type Counts struct {
	All, Succeeded, Failed, Errored, Ungraded int
	PassRate, ErrorShare                      *float64
}

func (c *counts) public() Counts {
	return Counts{
		All: c.all, Succeeded: c.byCategory[Succeeded], Failed: c.byCategory[Failed],
		Errored: c.byCategory[Errored], Ungraded: c.byCategory[Ungraded],
		PassRate: c.share(Succeeded), ErrorShare: c.share(Errored),
	}
}

// stored sets the counts that a summary stores.
func (c *counts) stored(doc *Object) {
	doc.Set(runTasks, c.all)
	doc.Set(runSucceeded, c.byCategory[Succeeded])
	doc.Set(runFailed, c.byCategory[Failed])
	doc.Set(runErrored, c.byCategory[Errored])
	doc.Set(runUngraded, c.byCategory[Ungraded])
	doc.Set(runMeasured, c.measured)
	doc.Set(runOverTokens, c.overTokens)
	doc.Set(runOverCost, c.overCost)
}

// computed sets what follows from the counts.
func (c *counts) computed(doc *Object) {
	doc.Set(runGraded, c.graded())
	doc.Set(runPassRate, c.share(Succeeded))
	doc.Set(runErrorShare, c.share(Errored))
}
