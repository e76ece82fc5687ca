package report

import (
	"fmt"
	"strings"
	"time"

	"podgrade/policy"
	"podgrade/tasks/record"
)

// mostCell is how many characters of a string a page shows.
const mostCell = 300

// code is a code span that no text can leave. Nothing in one is markup, but
// that a table would end its cell at a bar.
func code(s string) string { return codeOf(s, mostCell) }

// codeOf is a code span of that many characters at most.
func codeOf(s string, most int) string {
	if s == "" {
		return ""
	}
	s = strings.ReplaceAll(policy.Clip(s, most), "|", `\|`)
	fence := strings.Repeat("`", longestRun(s)+1)
	// A space that is set on both sides is not shown.
	return fence + " " + s + " " + fence
}

// longestRun is the length of the longest run of back-ticks.
func longestRun(s string) int {
	most, now := 0, 0
	for _, c := range s {
		if c != '`' {
			now = 0
			continue
		}
		now++
		most = max(most, now)
	}
	return most
}

// page is a Markdown text under construction.
type page struct{ strings.Builder }

func (p *page) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// table writes the head of a table.
func (p *page) table(columns ...string) {
	p.line("\n| %s |", strings.Join(columns, " | "))
	p.line("|%s", strings.Repeat(" --- |", len(columns)))
}

// row writes a row of a table; the cells are safe already.
func (p *page) row(cells ...string) { p.line("| %s |", strings.Join(cells, " | ")) }

func percent(share *float64) string {
	if share == nil {
		return "not measured"
	}
	return fmt.Sprintf("%.1f %%", 100**share)
}

func score(s *float64) string {
	if s == nil {
		return "-"
	}
	return fmt.Sprintf("%.3f", *s)
}

func seconds(s float64) string { return fmt.Sprintf("%.1f s", s) }

func moment(t time.Time) string {
	if t.IsZero() {
		return "not known"
	}
	return t.Format(time.DateTime)
}

func money(raw record.Raw) string {
	usd, ok := raw.Number()
	if !ok {
		return "not known"
	}
	return fmt.Sprintf("%.4f USD", usd)
}

// state is a status with its sign.
func state(s record.Status) string {
	if _, err := record.ParseStatus(string(s)); err != nil {
		return code(string(s))
	}
	return fmt.Sprintf("`%s` %s", s.Icon(), s)
}

// stamps are the row's, each with what it says.
func stamps(row *record.Object) string {
	var all []string
	for _, stamp := range record.Stamps(row) {
		all = append(all, code(stampText(stamp)))
	}
	return strings.Join(all, ", ")
}

// stampText is a stamp, and what it says beyond that it is there.
func stampText(stamp record.Stamp) string {
	if value := short(stamp.Value); value != "true" {
		return stamp.Name + ": " + value
	}
	return stamp.Name
}

// short is a value of JSON on one line.
func short(raw record.Raw) string {
	if text, ok := raw.Text(); ok {
		return text
	}
	return strings.Join(strings.Fields(string(raw)), " ")
}
