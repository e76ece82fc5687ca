package hostfacts

import "slices"

// Status is how one check came out.
type Status string

// The statuses, best first.
const (
	OK       Status = "ok"
	Unknown  Status = "unknown"  // could not be looked at, because of what another check found
	Degraded Status = "degraded" // cells can be made; something is missing or slower
	Broken   Status = "broken"   // no cell can be made
)

// rank orders statuses, worst highest.
func (s Status) rank() int { return slices.Index([]Status{OK, Unknown, Degraded, Broken}, s) }

// Finding is the outcome of one check.
type Finding struct {
	Check  string `json:"check"`
	Status Status `json:"status"`
	Found  string `json:"found"`           // what is there
	Means  string `json:"means,omitempty"` // what follows, when it is not ok
	// Do is the remedy: a sentence, or command lines, one each.
	Do []string `json:"do,omitempty"`
	// See is the heading in docs/rootless-hosts.md that says more.
	See string `json:"see,omitempty"`
}

// Report is the outcome of all checks, in their order.
type Report struct {
	Status Status    `json:"status"` // the worst
	Checks []Finding `json:"checks"`
	Facts  Facts     `json:"facts"`
}

// Examine judges the facts. It reads nothing but them.
func Examine(f Facts) Report {
	report := Report{Status: OK, Facts: f}
	for _, check := range checks {
		finding := check.judge(f)
		finding.Check = check.Name
		if finding.Status == "" {
			finding.Status = OK
		}
		if finding.Status.rank() > report.Status.rank() {
			report.Status = finding.Status
		}
		report.Checks = append(report.Checks, finding)
	}
	return report
}

// unknown is the finding of a check that something broken keeps from looking.
func unknown(found, means string) Finding {
	return Finding{Status: Unknown, Found: found, Means: means, Do: []string{"mend what is broken first"}}
}
